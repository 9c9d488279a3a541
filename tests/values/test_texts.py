"""Text made safe to look at, cut to a length, and counted: at the limits and beside them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from sentences import numbers_in

from recompact.errors import InputError
from recompact.values.progress import SILENT, Notices
from recompact.values.texts import (
    SLACK,
    action_line,
    csv_text,
    cut,
    keep_ends,
    latex_text,
    markdown_text,
    quantity,
    visible,
    visible_json,
    visible_line,
)
from recompact.values.tokens import COUNTERS, counter
from recompact.values.trajectory import Action


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1f \x20", "␟ \x20"),  # the last control character, and a blank
        ("\x00\x08", "␀␈"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("\x7f", "␡"),
        ("\x80", "⟨U+0080⟩"),
        ("\ufeff", "⟨U+FEFF⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("ä 漢 😀", "ä 漢 😀"),
    ],
)
def test_what_is_hidden_gets_a_mark(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_on_one_line_runs_of_breaks_are_one_blank() -> None:
    assert visible_line("a\n\n\tb\r\nc") == "a b c"
    assert visible_json('"a\u200b"') == '"a\\u200b"'


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1", "'=1"),
        (" =1", "' =1"),
        ("@a", "'@a"),
        ("-", "'-"),
        ("-a", "'-a"),
        ("-1", "-1"),
        ("+1.5e-3", "+1.5e-3"),
        (".5", ".5"),
        ("-.5", "-.5"),
        ("1=1", "1=1"),
        ("", ""),
    ],
)
def test_only_what_begins_like_a_formula_and_is_no_number_gets_an_apostrophe(text: str, cell: str) -> None:
    assert csv_text(text) == cell


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\\b", r"a\textbackslash{}b"),
        ("~±Δ−<>", r"\textasciitilde{}$\pm$$\Delta$$-$\textless{}\textgreater{}"),
        ("&%$#_{}", r"\&\%\$\#\_\{\}"),
        ("a^b^", r"a$^{b}$\textasciicircum{}"),
    ],
)
def test_nothing_in_latex_is_a_command(text: str, shown: str) -> None:
    assert latex_text(text) == shown


def test_nothing_in_markdown_is_markup() -> None:
    assert markdown_text("`a` [b](c) #d ~e~ !f & g\nh") == r"\`a\` \[b\](c) \#d \~e\~ \!f \& g h"


@pytest.mark.parametrize(
    ("length", "limit", "left_out"),
    [(100 + SLACK, 100, SLACK), (100 + SLACK - 1, 100, 0), (100, 100, 0), (50, 100, 0), (SLACK, 0, SLACK)],
)
def test_a_cut_must_be_worth_its_mark(length: int, limit: int, left_out: int) -> None:
    text, omitted = cut("a" * length, limit)
    assert omitted == left_out
    assert len(text) == length - left_out


def test_slack_is_as_long_as_a_mark() -> None:
    assert SLACK == 40


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [(0, "task", "0 tasks"), (1, "task", "1 task"), (2, "boundary", "2 boundaries"), (-1, "task", "-1 tasks")],
)
def test_a_number_with_its_noun(number: int, noun: str, words: str) -> None:
    assert quantity(number, noun) == words


def characters(text: str) -> int:
    return len(text)


@pytest.mark.parametrize(("length", "whole"), [(100, True), (101, False)])
def test_a_text_of_as_many_tokens_as_the_limit_is_whole(length: int, whole: bool) -> None:
    text = "".join(chr(97 + n % 26) for n in range(length))
    shown, omitted = keep_ends(text, 100, characters)
    assert (shown == text, omitted) == (whole, 0 if whole else 1)
    if not whole:
        assert (shown.startswith(f"{text[:40]}\n"), shown.endswith(f"\n{text[-40:]}")) == (True, True)
        assert numbers_in(shown[40:-40]) == ["1"]


@given(st.integers(1, 400), st.integers(22, 120))
def test_head_and_tail_stay_and_the_rest_is_counted(length: int, limit: int) -> None:
    text = "".join(chr(97 + n % 26) for n in range(length))
    shown, omitted = keep_ends(text, limit, characters)
    assert omitted == max(0, length - limit)
    if omitted:
        head, mark, tail = shown.split("\n")
        assert f"about {omitted:,} tokens" in mark
        assert len(head) == len(tail) == (limit - 20) // 2
        assert text.startswith(head)
        assert text.endswith(tail)


def test_a_short_text_need_not_be_counted() -> None:
    def never(text: str) -> int:
        raise AssertionError("it was counted")

    assert keep_ends("a" * 25, 100, never) == ("a" * 25, 0)
    with pytest.raises(AssertionError):
        keep_ends("a" * 26, 100, never)


def test_of_a_very_long_text_the_middle_is_estimated() -> None:
    """Only the ends are looked at: as many characters as the limit can have at the most, 128 to a token."""
    asked: list[int] = []

    def count(text: str) -> int:
        asked.append(len(text))
        return len(text) // 2

    text = "ab" * 100_000
    shown, omitted = keep_ends(text, 50, count)
    assert omitted == 100_000 - 50
    assert max(asked) == 128 * 50
    head, _, tail = shown.split("\n")
    assert len(head) in (30, 31)
    assert len(tail) in (30, 31)


def test_at_least_a_token_of_each_end_stays() -> None:
    shown, omitted = keep_ends("abcdefgh", 4, characters)
    assert shown.split("\n")[0] == "a"
    assert shown.split("\n")[2] == "h"
    assert omitted == 4


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (Action("", text=""), "(no action)"),
        (Action("", text="a\nb"), "a b"),
        (Action("look", text="{page\n"), "look({page )"),
        (Action("look", {"a": "ä\n", "b": [1]}), 'look(a="ä\\n", b=[1])'),
        (Action("look"), "look()"),
    ],
)
def test_an_action_is_one_line(action: Action, line: str) -> None:
    assert action_line(action) == line


@pytest.mark.parametrize(("length", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_four_characters_are_a_token(length: int, tokens: int) -> None:
    assert counter("characters")("a" * length) == tokens


@pytest.mark.parametrize("name", ["", "bytes", "cl100", "o200k_base", "words"])
def test_an_unknown_counter_is_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=f"'{name}': .*o200k, cl100k, characters"):
        counter(name)


def test_counters_differ() -> None:
    text = "ウィキペディアは誰でも編集できる百科事典です"
    assert counter("o200k")(text) < counter("cl100k")(text)
    assert counter()(text) == counter("o200k")(text)
    assert counter("o200k")("a\ud800b") == counter("o200k")("a?b")
    assert COUNTERS == ("o200k", "cl100k", "characters")


def test_notices_go_to_whoever_listens_now() -> None:
    heard: list[str] = []

    class Listener:
        def stage(self, name: str, total: int | None = None, done: int = 0) -> None: ...

        def expect(self, total: int) -> None: ...

        def done(self) -> None: ...

        def step(self) -> None: ...

        def note(self, text: str) -> None:
            heard.append(text)

    notices = Notices()
    assert notices.listener is SILENT
    notices.note("nobody hears this")
    notices.listener = Listener()
    notices.note("waiting")
    assert heard == ["waiting"]
