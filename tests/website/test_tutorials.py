"""The tutorials do what they say: their files and commands in order, with the numbers that they show."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commands import Done, recompact
from sentences import numbers_in

import pages
import pictures
import tutorials

TUTORIALS = pages.DOCS / "tutorials"


def follow(name: str, place: Path) -> list[tuple[tutorials.Command, Done]]:
    """Do in a directory what the page has its reader do."""
    outcomes = []
    for step in tutorials.steps((TUTORIALS / f"{name}.md").read_text(encoding="utf-8")):
        if isinstance(step, tutorials.File):
            (place / step.name).write_text(step.text, encoding="utf-8")
            continue
        program, *arguments = shlex.split(step.line)
        if program == "recompact":
            done = recompact(*arguments, cwd=place, columns=300)
        else:
            assert program == "python"
            command = [sys.executable, *arguments]
            result = subprocess.run(command, cwd=place, capture_output=True, text=True, env={**os.environ, "TZ": "UTC"})
            done = Done(result.returncode, result.stdout, result.stderr)
        assert done.returncode == 0, (step.line, done.stdout, done.stderr)
        outcomes.append((step, done))
    return outcomes


def is_excerpt(shown: tuple[str, ...], printed: str) -> bool:
    """Whether the numbers of each shown line stand in a printed line, in order."""
    lines = iter(printed.splitlines())
    return all(any(_within(numbers_in(line), numbers_in(each)) for each in lines) for line in shown)


def _within(few: list[str], many: list[str]) -> bool:
    rest = iter(many)
    return all(number in rest for number in few)


def test_an_excerpt_has_the_numbers_of_the_output_in_order() -> None:
    assert is_excerpt(("a 1 of 2", "b 3"), "x 0\n1 found of 2\nother\nnow 3")
    assert not is_excerpt(("b 3", "a 1 of 2"), "1 of 2\n3")
    assert not is_excerpt(("a 1 of 3",), "1 of 2")


SLOW = ("compare-methods",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in pictures.FROM_TUTORIALS]
)
def test_a_tutorial_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    outcomes = follow(name, tmp_path)
    assert sum(len(command.shown) for command, _ in outcomes) >= 6
    for command, done in outcomes:
        assert is_excerpt(command.shown, done.stdout), (command, done.stdout)
    for picture in pictures.FROM_TUTORIALS[name]:
        made = picture.source(tmp_path)
        assert ElementTree.fromstring(made).tag.endswith("svg")
        assert (pages.DOCS / "images" / f"{picture.name}.svg").exists()


def test_the_notebook_is_the_page() -> None:
    page = (TUTORIALS / "compare-methods.md").read_text(encoding="utf-8")
    assert (TUTORIALS / "compare-methods.ipynb").read_text(encoding="utf-8") == tutorials.notebook_text(page)
