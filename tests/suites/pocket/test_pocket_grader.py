"""The checker by itself: harmless forms of an answer, and changes that are paired off one by one."""

from __future__ import annotations

import pytest

from recompact.suites.pocket.grader import Answer, Change, Expected, accepts, problems


@pytest.mark.parametrize(
    ("answer", "given", "right"),
    [
        (Answer("money", "786.00"), "$786.00", True),
        (Answer("money", "786.00"), " 786 ", True),
        (Answer("money", "1676.50"), "1,676.5 USD", True),
        (Answer("money", "786.00"), "The total is 786.00.", True),
        (Answer("money", "786.00"), "786.01", False),
        (Answer("money", "786.00"), "786 or 1676", False),
        (Answer("money", "786.00"), "", False),
        (Answer("time", "09:05"), "9:05", True),
        (Answer("time", "09:05"), "9:05 AM", True),
        (Answer("time", "18:40"), "6:40 pm", True),
        (Answer("time", "09:05"), "21:05", False),
        (Answer("time", "09:05"), "from 09:05 to 10:00", False),
        (Answer("time", "09:05"), "nine", False),
        (Answer("phone", "555-201-3344"), "(555) 201 3344", True),
        (Answer("phone", "555-201-3344"), "555-201-3345", False),
        (Answer("text", "ada@post.example"), " Ada@Post.example. ", True),
        (Answer("text", "ada@post.example"), "ada@post.example or not", False),
    ],
)
def test_answers(answer: Answer, given: str, right: bool) -> None:
    assert accepts(answer, given) == right


def test_changes_are_paired_off_one_by_one() -> None:
    before = {"files": {"f1": ("f1", "x", "a", "", ""), "f2": ("f2", "x", "b", "", "")}}
    after = {"files": {"f1": ("f1", "y", "a", "", ""), "f3": ("f3", "x", "New  Name", "", "")}}
    moved = Change("files", "updated", {"folder": "y"}, "f1")
    deleted = Change("files", "deleted", {}, "f2")
    added = Change("files", "added", {"name": "new name"})
    assert problems(Expected(changes=(moved, deleted, added)), before, after, "") == []
    assert [p.split(":")[0] for p in problems(Expected(changes=(moved, deleted)), before, after, "")] == [
        "not asked for"
    ]
    assert len(problems(Expected(changes=(moved, deleted, added, added)), before, after, "")) == 1
    assert problems(Expected(changes=(moved, deleted, added)), before, after, None) == ["the task was not finished"]
    other = Change("files", "updated", {"folder": "z"}, "f1")
    assert len(problems(Expected(changes=(other, deleted, added)), before, after, "")) == 2
