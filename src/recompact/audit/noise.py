"""What harnesses and languages put into every session: no facts that could be lost, and no text to fetch again."""

from __future__ import annotations

import builtins
import datetime
import json
import logging
import os
import re
import subprocess
import sys
import unittest
from functools import cache
from importlib.resources import files
from pathlib import Path

_REMINDERS = (("<system-reminder>", "</system-reminder>"), ("<system_reminder>", "</system_reminder>"))
_WRAPPER = re.compile(
    r"[\[<(]?(?:the )?(?:command|process|script|bash|shell(?:id)?)\b.{0,60}?\b(?:completed|finished|exited)\b.{0,60}$"
    r"|[\[<(]?exited with (?:exit )?code -?\d+.{0,3}$"
    r"|\[?(?:current working directory|python interpreter|wall time|chunk id|original token count|total output lines"
    r"|exit code|process group pgid|background pids): .{0,300}$",
    re.IGNORECASE,
)
_PYTHON = (builtins, str, bytes, dict, set, list, Path, os, os.path, sys, re, json, subprocess, logging, datetime)


@cache
def built_in_names() -> frozenset[str]:
    """Names that languages define, which nobody has to be told.

    >>> {"FullName", "read_text", "readFileSync"} <= built_in_names()
    True
    """
    python = {name for owner in (*_PYTHON, unittest.TestCase) for name in dir(owner)}
    # Of JavaScript with Node and the browser, of PowerShell, and of Go: names that are written without being known.
    others = (files("recompact.audit") / "built_in_names.txt").read_text(encoding="utf-8")
    return frozenset(python | set(others.split()))


def without_reminders(text: str) -> str:
    """A result without what the harness itself added to it.

    >>> without_reminders("the file<system-reminder>Be careful.</system-reminder>\\n")
    'the file\\n'
    """
    for opening, closing in _REMINDERS:
        pieces, start = [], 0
        while (begin := text.find(opening, start)) >= 0 and (end := text.find(closing, begin)) >= 0:
            pieces.append(text[start:begin])
            start = end + len(closing)
        text = "".join((*pieces, text[start:])) if pieces else text
    return text


def is_wrapper(line: str) -> bool:
    """Whether a line only says how a command ended, or where it ran.

    >>> [is_wrapper(line) for line in ("[The command completed with exit code 0.]", "exit_code = process.run()")]
    [True, False]
    """
    return _WRAPPER.match(line) is not None
