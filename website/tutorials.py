"""A tutorial as what it does: the files that it has its reader write, and the commands with the output that it shows.

python website/tutorials.py docs/tutorials/compare-methods.md     # writes the notebook of the same name beside it
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```\n?', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A command, and the lines of its output that the page shows: an excerpt, in order."""

    line: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class File:
    name: str
    text: str


def steps(page: str) -> list[File | Command]:
    """What a reader of the page does, in order.

    >>> steps('```python title="a.py"\\nx = 1\\n```\\n\\n```console\\n$ python a.py\\n1\\n```\\n')
    [File(name='a.py', text='x = 1\\n'), Command(line='python a.py', shown=('1',))]
    """
    found: list[File | Command] = []
    for language, name, text in BLOCK.findall(page):
        if name:
            found.append(File(name, text))
        elif language == "console":
            found += _commands(text)
    return found


def _commands(text: str) -> list[Command]:
    parts = [part.splitlines() for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    return [Command(line, tuple(shown)) for line, *shown in parts]


def notebook(page: str) -> dict[str, Any]:
    """The page as a Jupyter notebook: prose, files to write, and commands to run."""
    cells: list[dict[str, Any]] = []
    end = 0
    for block in BLOCK.finditer(page):
        cells += _prose(page[end : block.start()])
        language, name, text = block.groups()
        if name:
            cells.append(_code(f"%%writefile {name}\n{text}"))
        elif language == "console":
            cells += [_code(f"!{command.line}") for command in _commands(text)]
        end = block.end()
    cells += _prose(page[end:])
    numbered = [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells, 1)]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": numbered, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def _prose(text: str) -> list[dict[str, Any]]:
    return [{"cell_type": "markdown", "metadata": {}, "source": text.strip()}] if text.strip() else []


def _code(text: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"execution_count": None, "metadata": {}, "outputs": []}
    return {"cell_type": "code", **empty, "source": text.rstrip("\n")}


def notebook_text(page: str) -> str:
    return json.dumps(notebook(page), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.with_suffix(".ipynb").write_text(notebook_text(path.read_text(encoding="utf-8")), encoding="utf-8")
