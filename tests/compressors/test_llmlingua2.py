"""LLMLingua-2 without its model: what is handed to it, how its words are put together, and what the budget does."""

from __future__ import annotations

import doctest
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import recompact
from hypothesis import given, strategies as st

from recompact.chat import Message, ToolCall, assistant, system, user
from recompact.compressors import llmlingua2
from recompact.compressors.llmlingua2 import MODEL, LLMLingua2, extract, newest_words, split
from recompact.compressors.protocol import CompressorInputs
from recompact.compressors.registry import load_compressor
from recompact.context import Context, Summary, Turn
from recompact.errors import InputError, OptionError
from recompact.template import default_template
from recompact.tokens import counter

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
    with pytest.raises(InputError, match=r"compressor 'llmlingua2': .* pip install 'recompact\[llmlingua\]'"):
        load_compressor("llmlingua2", {}, tmp_path)
    (tmp_path / "c.toml").write_text('[compressor]\nkind = "llmlingua2"\n')
    done = recompact("check", "c.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "line 2: [compressor] kind: compressor 'llmlingua2': llmlingua cannot be imported here" in done.stderr


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


def test_examples() -> None:
    assert doctest.testmod(llmlingua2).failed == 0
