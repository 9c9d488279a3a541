"""The lines that a diagnosis can cite are read off the prompt, block by block, under the names of their blocks."""

from __future__ import annotations

import pytest

from recompact.adaptation.evidence import CitableLines, citable_lines

PROMPT = """\
An introduction with S1 in it.

<task>
T1| pay Ann
</task>
<segment>
S1| one
[1,200 lines cut here]
S9| nine

</segment>
[3 lines cut here]
<continuation number="1" arm="PRE" draw="2">
C1.1| first
[1 line cut here]
C1.3|
</continuation>
<continuation number="12" arm="POST" draw="trajectory">
C12.1| second
</continuation>
"""


def test_blocks_come_in_their_order_with_their_lines_and_cuts() -> None:
    assert citable_lines(PROMPT) == (
        CitableLines("the task", (("T1", "pay Ann"),)),
        CitableLines(
            "the segment: what the compressor consumed", (("S1", "one"), ("", "[1,200 lines cut here]"), ("S9", "nine"))
        ),
        CitableLines("continuation 1: PRE, draw 2", (("C1.1", "first"), ("", "[1 line cut here]"), ("C1.3", ""))),
        CitableLines("continuation 12: POST, draw trajectory", (("C12.1", "second"),)),
    )


def test_a_continuation_without_its_tag_still_has_a_number() -> None:
    assert [lines.title for lines in citable_lines("C3.1| on\nC3.2| and on")] == ["continuation 3"]


@pytest.mark.parametrize(
    ("label", "title"),
    [
        ("A1", "the agent's prefix"),
        ("P1", "the previous summary"),
        ("N1", "the summary"),
        ("L1", "the last turn, which stayed as it was"),
        ("F1", "missing facts"),
    ],
)
def test_every_letter_has_a_title(label: str, title: str) -> None:
    assert citable_lines(f"{label}| text") == (CitableLines(title, ((label, "text"),)),)


@pytest.mark.parametrize("text", ["", "no labels", "[2 lines cut here]", "</segment>", "s1| small", "S1 no bar"])
def test_what_has_no_label_is_not_citable(text: str) -> None:
    assert citable_lines(text) == ()
