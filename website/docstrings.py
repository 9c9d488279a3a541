"""Lets mkdocstrings show docstrings as they are meant: doctests as code, and lists that follow a line of text."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLES = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
LIST = re.compile(r"^(?![-\s]).+\n(?=- )", re.MULTILINE)


class Docstrings(griffe.Extension):  # type: ignore[misc]  # where griffe is not installed
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = LIST.sub(r"\g<0>\n", obj.docstring.value)
            obj.docstring.value = EXAMPLES.sub(r"```pycon\n\g<0>\n```", text)
