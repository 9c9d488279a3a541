"""LLMLingua-2 without its model: what is handed to it, how its words are put together, and what the budget does."""

from __future__ import annotations

import doctest
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import recompact
from hypothesis import given, strategies as st

from recompact.compressors import llmlingua2
from recompact.compressors.llmlingua2 import MODEL, LLMLingua2, extract, newest_words, split
from recompact.compressors.protocol import CompactionFailed, CompressorInputs
from recompact.compressors.registry import load_compressor
from recompact.errors import InputError, OptionError
from recompact.values.chat import Message, ToolCall, Usage, assistant, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.template import default_template
from recompact.values.tokens import counter
from recompact.version import install_command

COUNT = counter()
TEXT = st.lists(st.sampled_from(["id-4711", "a", "price:", "12.50", "\n", "\n\n", "  "]), max_size=60).map(" ".join)


class Every:
    """Stands in for the model: of each piece it keeps the first words, somewhat more of them than it was asked to."""

    def __init__(self, excess: float = 1.0) -> None:
        self.excess = excess
        self.rates: list[float] = []
        self.pieces: list[str] = []

    def keep(self, pieces: Sequence[str], rate: float) -> Sequence[str]:
        self.rates.append(rate)
        self.pieces = list(pieces)
        return [" ".join(p.split()[: round(len(p.split()) * min(1.0, rate * self.excess))]) for p in pieces]

    def tokens(self, text: str) -> int:
        return len(text.split())


def turn(n: int, words: str = "holds a book") -> Turn:
    call = ToolCall(f"c{n}", "look", f'{{"shelf": {n}}}')
    return Turn.measured(assistant("", call), (Message("tool", f"shelf {n} {words}", call_id=f"c{n}"),), COUNT)


def context(turns: int = 30, summary: str | None = None, last: str = "is empty") -> Context:
    prefix = (system("You are an agent."), user("Find the red book."))
    kept = Summary.measured(summary, COUNT) if summary else None
    return Context(prefix, kept, (*(turn(n) for n in range(turns - 1)), turn(turns - 1, last)))


@pytest.fixture
def extractor(monkeypatch: pytest.MonkeyPatch) -> Every:
    stub = Every()
    monkeypatch.setattr(llmlingua2, "load", lambda model, device, force_tokens: stub)
    return stub


def compressor() -> LLMLingua2:
    return LLMLingua2(CompressorInputs(model=None, template=default_template(), count=COUNT))  # type: ignore[arg-type]


async def test_the_history_is_compressed_to_the_room_beside_the_last_turn(extractor: Every) -> None:
    before = context(summary="shelf 99 holds nothing")
    compaction = await compressor().compress(before, 300)
    after = compaction.context
    assert (after.prefix, after.turns) == (before.prefix, before.turns[-1:])
    assert after.summary is not None
    assert after.size <= 300
    assert after.summary.tokens > 100
    shown = "\n".join(extractor.pieces)
    assert shown.startswith("shelf 99 holds nothing")  # what was kept before is compressed again with the rest
    assert "is empty" not in shown
    assert extractor.rates[0] == pytest.approx((300 - before.turns[-1].tokens) / COUNT(shown), rel=0.05)
    assert compaction.usage.calls == 0


async def test_a_large_last_turn_leaves_half_the_budget(extractor: Every) -> None:
    compaction = await compressor().compress(context(last="word " * 400), 300)
    assert compaction.context.summary is not None
    assert 75 < compaction.context.summary.tokens <= 150


async def test_what_fits_stays_as_it_is(extractor: Every) -> None:
    before = context(turns=3)
    compaction = await compressor().compress(before, 4000)
    assert compaction.context.summary is not None
    assert compaction.context.summary.text == before.before_last().history
    assert not extractor.rates


@given(TEXT, st.integers(1, 60), st.floats(0.5, 3.0))
def test_no_word_is_torn_and_the_limit_is_kept(text: str, limit: int, excess: float) -> None:
    kept, was_cut = extract(text, limit, COUNT, Every(excess))
    assert COUNT(kept) <= limit or kept == text
    words = iter(text.split())
    assert all(word in words for word in kept.split())  # the same words in the same order, only fewer
    if not was_cut and kept != text:
        assert kept


def test_a_share_that_leaves_too_much_is_made_smaller() -> None:
    stub = Every(excess=1.5)
    text = " ".join(f"word{n}" for n in range(400))
    _, was_cut = extract(text, 300, COUNT, stub)
    assert len(stub.rates) == 2
    assert stub.rates[0] > stub.rates[1]
    assert not was_cut
    stubborn, was_cut = extract(text, 300, COUNT, Every(excess=1e9))
    assert was_cut
    assert stubborn.endswith("word399")  # the newest words stay
    assert 250 < COUNT(stubborn) <= 300


@given(TEXT, st.integers(2, 20))
def test_pieces_fit_and_lose_nothing(text: str, window: int) -> None:
    def tokens(piece: str) -> int:
        return len(piece.split())

    pieces = split(text, tokens, window)
    assert [word for piece, _ in pieces for word in piece.split()] == text.split()
    assert all(tokens(piece) <= window for piece, _ in pieces)
    assert {end for _, end in pieces} <= {"\n", " "}


def test_lines_are_kept_whole_where_they_fit() -> None:
    text = "one two three\nfour five\nsix seven eight nine ten eleven\ntwelve"
    assert split(text, lambda piece: len(piece.split()), 5) == [
        *(("one two three", "\n"), ("four five", "\n")),
        *(("six seven eight nine ten", " "), ("eleven", "\n"), ("twelve", "\n")),
    ]


@given(TEXT, st.integers(0, 20))
def test_the_newest_words_are_an_end_of_the_text(text: str, limit: int) -> None:
    kept = newest_words(text, limit, COUNT)
    assert text.endswith(kept)
    assert COUNT(kept) <= limit
    assert kept.split() == text.split()[len(text.split()) - len(kept.split()) :]


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llmlingua2, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=f"compressor 'llmlingua2': .* {re.escape(install_command('llmlingua'))}"):
        load_compressor("llmlingua2", {}, tmp_path)
    (tmp_path / "c.toml").write_text('[compressor]\nkind = "llmlingua2"\n')
    done = recompact("check", "c.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "line 2: [compressor] kind:" in done.stderr
    assert install_command("llmlingua") in done.stderr


def test_options_are_those_of_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(llmlingua2, "find_spec", lambda name: name)
    monkeypatch.setattr(llmlingua2, "load", lambda *arguments: loaded.append(arguments))
    inputs: Any = CompressorInputs(model=None, template=default_template(), count=COUNT)  # type: ignore[arg-type]
    for options in ({}, {"model": "mine", "device": "cpu", "force_tokens": ["\n", "?"]}):
        load_compressor("llmlingua2", options, tmp_path).build(inputs)
    assert loaded == [(MODEL, "auto", ("\n",)), ("mine", "cpu", ("\n", "?"))]
    with pytest.raises(OptionError, match="no option 'rate'"):
        load_compressor("llmlingua2", {"rate": 0.3}, tmp_path)


def test_a_directory_of_weights_is_relative_to_the_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(llmlingua2, "find_spec", lambda name: name)
    monkeypatch.setattr(llmlingua2, "load", lambda *arguments: loaded.append(arguments))
    inputs: Any = CompressorInputs(model=None, template=default_template(), count=COUNT)  # type: ignore[arg-type]
    (tmp_path / "weights").mkdir()
    for model in ("weights", "acme/weights", str(tmp_path / "weights")):
        load_compressor("llmlingua2", {"model": model}, tmp_path).build(inputs)
    here = str(tmp_path / "weights")
    assert [model for model, *_ in loaded] == [here, "acme/weights", here]


def test_examples() -> None:
    assert doctest.testmod(llmlingua2).failed == 0


# --- by the word: a token is a word, for the counter and for the classifier


def words(text: str) -> int:
    return len(text.split())


def numbered(count: int) -> str:
    return " ".join(f"w{n}" for n in range(count))


class Fixed:
    """Stands in for the model: answers with what it is given, one after the other, and notes the shares."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.rates: list[float] = []
        self.pieces: list[Sequence[str]] = []

    def keep(self, pieces: Sequence[str], rate: float) -> Sequence[str]:
        self.rates.append(rate)
        self.pieces.append(pieces)
        return self.answers[min(len(self.rates), len(self.answers)) - 1]

    def tokens(self, text: str) -> int:
        return words(text)


@pytest.mark.parametrize(("limit", "asked"), [(11, 0), (10, 0), (9, 1)])
def test_the_model_is_asked_only_where_the_text_is_over_the_limit(limit: int, asked: int) -> None:
    stub = Fixed(["w0 w3"])
    kept, was_cut = extract(numbered(10), limit, words, stub)
    assert (kept, was_cut) == ("w0 w3" if asked else numbered(10), False)
    assert stub.rates == [0.9] * asked
    assert stub.pieces == [[numbered(10)]] * asked


def test_what_is_kept_may_have_exactly_the_limit() -> None:
    assert extract(numbered(10), 4, words, Fixed(["w0 w1 w2 w3"])) == ("w0 w1 w2 w3", False)


def test_the_share_is_made_smaller_by_what_was_too_much() -> None:
    stub = Fixed([numbered(80)], [numbered(60)], [numbered(39)])
    assert extract(numbered(100), 40, words, stub) == (numbered(39), False)
    assert stub.rates == pytest.approx([0.4, 0.4 * 40 / 80, 0.4 * 40 / 80 * 40 / 60])


def test_after_four_shares_the_oldest_words_are_cut_off() -> None:
    stub = Fixed([numbered(80)], [numbered(70)], [numbered(60)], [numbered(50)], [numbered(5)])
    kept, was_cut = extract(numbered(100), 40, words, stub)
    assert len(stub.rates) == 4
    assert (kept.split(), was_cut) == (numbered(50).split()[10:], True)


def test_a_share_below_one_in_a_hundred_cannot_be_asked_for() -> None:
    stub = Fixed([numbered(300)], [numbered(200)])
    kept, was_cut = extract(numbered(500), 4, words, stub)
    assert stub.rates == [0.01]
    assert (kept.split(), was_cut) == (numbered(300).split()[-4:], True)
    stub = Fixed([numbered(499)], [numbered(498)], [numbered(497)])
    extract(numbered(500), 10, words, stub)
    assert stub.rates == [0.02, 0.01]


def test_where_no_word_is_kept_the_newest_ones_of_the_text_are() -> None:
    stub = Fixed([" "])
    assert extract(numbered(10), 4, words, stub) == ("w6 w7 w8 w9", True)
    assert len(stub.rates) == 1


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (["a", "b", "c"], "a\nb c"),
        ([" a ", " b", "c "], "a\nb c"),
        (["a", "", "c"], "a\nc"),
        (["a", " \n", "c"], "a\nc"),
        (["", "b", "c"], "b c"),
        (["a", "b", ""], "a\nb"),
        (["a\n", "b", ""], "a\n\nb"),
        (["\na", "", ""], "a"),
        (["", "", "c\n"], "c"),
    ],
)
def test_pieces_are_joined_by_what_stood_between_them(answer: list[str], kept: str) -> None:
    text = f"{numbered(509)}\n{numbered(515)}"  # a line that fits, and one that does not
    stub = Fixed(answer)
    assert extract(text, 500, words, stub) == (kept, False)
    assert [words(piece) for piece in stub.pieces[0]] == [509, 510, 5]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a b c d", [("a b c d", "\n")]),  # with its line end a line of four has five
        ("a b c d e", [("a b c d e", "\n")]),
        ("a b c d e f", [("a b c d e", " "), ("f", "\n")]),
        ("a b c d e f g h i j k", [("a b c d e", " "), ("f g h i j", " "), ("k", "\n")]),
        ("a b c d\ne\nf g", [("a b c d", "\n"), ("e\nf g", "\n")]),  # the second piece is as full as the first
        ("a   b c d", [("a   b c d", "\n")]),  # a line that fits stays as it is
        ("a\nb c", [("a\nb c", "\n")]),  # two and three
        ("a\nb c d", [("a", "\n"), ("b c d", "\n")]),  # two and four
        ("a\nb\nc", [("a\nb", "\n"), ("c", "\n")]),
        ("a b c d\ne f\ng h", [("a b c d", "\n"), ("e f", "\n"), ("g h", "\n")]),
        ("a b\nc d e f g h\ni", [("a b", "\n"), ("c d e f g", " "), ("h", "\n"), ("i", "\n")]),
        ("a b c d e\nf", [("a b c d e", "\n"), ("f", "\n")]),
        ("a b c d\ne f", [("a b c d", "\n"), ("e f", "\n")]),
        ("a\n\n\nb c d", [("a\n\n", "\n"), ("b c d", "\n")]),
        ("a\n\nb\nc", [("a\n\nb", "\n"), ("c", "\n")]),
        ("a  b c", [("a  b c", "\n")]),
        ("a  b c d e f", [("a  b c d", " "), ("e f", "\n")]),  # the empty word between two spaces counts as one
        (" \n \n \n \n \nx y z", [("x y z", "\n")]),
        ("", []),
        (" \n ", []),
    ],
)
def test_lines_fill_a_piece_up_to_the_window(text: str, pieces: list[tuple[str, str]]) -> None:
    assert split(text, words, 5) == pieces


def test_a_word_that_is_longer_than_the_window_is_a_piece_of_its_own() -> None:
    def letters(text: str) -> int:
        return len(text.replace(" ", ""))

    assert split("ab cdefghi jk lm no", letters, 5) == [("ab", " "), ("cdefghi", " "), ("jk lm", " "), ("no", "\n")]


@pytest.mark.parametrize(("count", "sizes"), [(509, [509]), (510, [510]), (511, [510, 1])])
def test_the_classifier_takes_in_510_tokens_at_once(count: int, sizes: list[int]) -> None:
    assert [words(piece) for piece, _ in split(numbered(count), words)] == sizes


@pytest.mark.parametrize(("count", "pieces"), [(254, 1), (255, 2)])
def test_two_lines_that_fit_into_the_window_with_their_ends_are_one_piece(count: int, pieces: int) -> None:
    assert len(split(f"{numbered(254)}\n{numbered(count)}", words)) == pieces


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("one two three", 3, "one two three"),
        ("one two three", 4, "one two three"),
        ("one two three", 2, "two three"),
        ("one two three", 1, "three"),
        ("one two three", 0, ""),
        ("  one\n two ", 2, "one\n two "),
        ("  one\n two ", 1, "two "),
        ("one ", 1, "one "),
        ("one", 1, "one"),
        ("one", 0, ""),
        (" ", 5, ""),
        ("", 5, ""),
    ],
)
def test_as_many_of_the_newest_words_stay_as_fit(text: str, limit: int, kept: str) -> None:
    assert newest_words(text, limit, words) == kept


@given(st.integers(0, 40), st.integers(0, 40))
def test_of_any_number_of_words_the_newest_that_fit_stay(count: int, limit: int) -> None:
    expected = numbered(count).split()[max(0, count - limit) :]
    assert newest_words(numbered(count), limit, words).split() == expected


async def test_the_summary_and_the_history_are_compressed_as_one_text(extractor: Every) -> None:
    before = context(turns=2, summary="shelf 99 holds nothing")
    unchanged = await compressor().compress(before, 4000)
    assert unchanged.context.summary is not None
    assert unchanged.context.summary.text == f"shelf 99 holds nothing\n\n{before.before_last().history}"
    assert unchanged.context.summary.tokens == COUNT(unchanged.context.summary.text)
    only_summary = await compressor().compress(context(turns=1, summary="shelf 99 holds nothing"), 4000)
    assert only_summary.context.summary == Summary.measured("shelf 99 holds nothing", COUNT)
    assert not unchanged.cut


async def test_whether_words_were_cut_off_is_told(extractor: Every) -> None:
    assert not (await compressor().compress(context(), 300)).cut
    extractor.excess = 1e9
    assert (await compressor().compress(context(), 300)).cut


async def test_where_nothing_is_left_the_compaction_has_failed(extractor: Every) -> None:
    only_last = context(turns=1)
    with pytest.raises(CompactionFailed, match="kept no word") as failed:
        await compressor().compress(only_last, 300)
    assert failed.value.usage == Usage()


def test_nothing_is_missing_where_the_package_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llmlingua2, "find_spec", lambda name: name)
    assert LLMLingua2.missing() is None
    monkeypatch.setattr(llmlingua2, "find_spec", lambda name: None)
    assert install_command("llmlingua") in (LLMLingua2.missing() or "")
    with pytest.raises(InputError, match=re.escape(install_command("llmlingua"))):
        llmlingua2.load(MODEL, "auto", ())
