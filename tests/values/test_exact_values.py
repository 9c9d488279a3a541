"""Literals, exact values and standing rules: which words they are, and when a text still has them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from recompact.values.literals import Literal, contains, covers, exact_values, holds, literals, rules_in, says


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("cat /a/b/c/d.py ./c/d.py", ["b/c/d.py", "c/d.py"]),  # the last three parts
        ("cat ../x/../main.py", ["x/main.py"]),
        ("ls src", []),
        ("ls ./src", []),
        ("echo > /dev/null", []),
        ("echo > /dev/null, then cat b/c.py", ["b/c.py"]),  # what is too short ends nothing
        ("port 8080 of 123, 1,234", ["8080"]),
        ("a_b ab_cd", ["ab_cd"]),
        ("x.c ab.c abc.c", ["abc.c"]),
        ("3f2a9c1 abcdefa 1234567", ["3f2a9c1", "1234567"]),
        ("see https://x.org/a. Then (https://x.org/b)", ["https://x.org/a", "https://x.org/b"]),
        ("run_all run_all", ["run_all"]),
        (r"type C:\app\new.py", ["app/new.py"]),
        ("parseConfig HTTP_PORT plain", ["parseConfig", "HTTP_PORT"]),
    ],
)
def test_the_form_in_which_literals_are_compared(text: str, forms: list[str]) -> None:
    assert [each.form for each in literals(text)] == forms


@given(st.text("ab_1", min_size=1, max_size=6), st.text("ab_1 .", max_size=30))
def test_a_literal_is_found_as_a_whole_word_only(form: str, text: str) -> None:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
    assert contains(text, form) == (form in words)


@pytest.mark.parametrize("around", ["x{}", "{}x", "_{}", "{}_", "7{}", "{}7"])
def test_a_piece_of_a_longer_word_is_not_it(around: str) -> None:
    longer = around.format("run_all")
    assert not contains(f"see {longer} now", "run_all")
    assert contains(f"see {longer}, run_all now", "run_all")


def test_a_path_is_found_in_either_spelling() -> None:
    assert contains(r"open src\cli\main.py", "src/cli/main.py")
    assert not contains(r"open src\cli\main_too.py", "src/cli/main")
    assert not contains("open src/cli", r"src\cli")
    assert not contains(r"open lib\main.py", "src/main.py")


def test_the_benefit_of_the_doubt() -> None:
    path, short = Literal("path", "/w/src/main.py", "w/src/main.py"), Literal("hash", "3f2a9c1", "3f2a9c1")
    folder, name = Literal("path", "/w/src/main", "w/src/main"), Literal("name", "a/run.py", "a/run.py")
    assert covers("worked on main.py", path)
    assert not holds("worked on main.py", path)
    assert not covers("worked on main", folder)
    assert not covers("worked on run.py", name)  # of a path alone
    assert holds("commit 3f2a9c1d", short)
    assert not holds("commit 3f2a9c1x", short)
    assert not holds("commit 03f2a9c1d", short)
    assert not holds("3f2a9c1d", Literal("name", "3f2a9c1", "3f2a9c1"))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("ada@x.org and ada@x", ["ada@x.org"]),
        ("id inv-42, not in-voice", ["inv-42"]),
        ("token ghijklm1 ghijkl1 ghijklmn", ["ghijklm1"]),
        ("inv-42 inv-42", ["inv-42"]),
        ("order 12345 of 123", ["12345"]),
        ("name some_plain_name", []),
        (f"x-{'1' * 78} y-{'1' * 79}", [f"x-{'1' * 78}"]),
        ("plain words only", []),
    ],
)
def test_what_cannot_be_guessed_is_an_exact_value(text: str, values: list[str]) -> None:
    assert list(exact_values(text)) == values


def test_only_the_beginning_of_a_very_long_text_is_looked_at() -> None:
    assert list(exact_values("x " * 9_990 + "inv-42 " + "x " * 99 + "inv-43")) == ["inv-42"]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Never push. Build it! Always test?\nDo not sleep", ["Never push.", "Always test?", "Do not sleep"]),
        ("You must not. You must not.", ["You must not."]),
        ("The nevermore of mustard", []),
        ("Never " + "x" * 594, ["Never " + "x" * 594]),
        ("Never " + "x" * 595, []),
    ],
)
def test_a_rule_is_a_sentence_that_orders_or_forbids(text: str, rules: list[str]) -> None:
    assert list(rules_in(text)) == rules


RULE = "Never approve requests over 50 without asking."  # four longer words and a number


@pytest.mark.parametrize(
    ("text", "carries"),
    [
        (f"He said:  {RULE.upper()}", True),
        ("never  approve requests\nover 50 without asking.", True),
        ("- never approve over 50 unasked, requests or not", True),  # all but two of the six words
        ("- never approve anything over 50", False),
        ("- approve requests over 50 after asking, not without asking", True),
        ("- approve requests over 50, asking nobody", False),  # orders nothing
        ("- never approve requests over 51 without asking", False),
        ("- never approve requests\n- over 50 without asking", False),  # no line says it
        ("", False),
    ],
)
def test_a_rule_is_carried_by_a_line_with_its_numbers_and_most_of_its_words(text: str, carries: bool) -> None:
    assert says(text, RULE) is carries


def test_a_rule_of_short_words_is_carried_to_the_letter_or_not_at_all() -> None:
    assert says("well, do not go", "Do not go")
    assert not says("- never do so", "Do not go")
