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
# Of JavaScript with Node and the browser, of PowerShell, and of Go: names that are written without being known.
_OTHER_LANGUAGES = """
    addEventListener appendChild charAt charCodeAt className clearInterval clearTimeout createElement
    createReadStream createServer dataTransfer decodeURIComponent encodeURIComponent endsWith execFileSync execSync
    existsSync fileURLToPath findIndex flatMap forEach fromEntries getAttribute getElementById getOwnPropertyNames
    hasOwn hasOwnProperty includes indexOf innerHTML innerText isArray isDirectory isFile isInteger isNaN
    lastIndexOf localStorage mkdirSync mkdtempSync nextTick padEnd padStart parseFloat parseInt preventDefault
    querySelector querySelectorAll readFile readFileSync readdirSync removeEventListener replaceAll rmSync
    setAttribute setInterval setTimeout spawnSync startsWith statSync stopPropagation stringify textContent toEqual
    toFixed toHaveBeenCalled toISOString toLowerCase toString toUpperCase unlinkSync writeFile writeFileSync
    BaseName BaseURI CreationTime DirectoryName ErrorAction ErrorActionPreference FullName GetEnumerator
    IsNullOrEmpty LastAccessTime LastWriteTime LineNumber MatchInfo NoNewline NoTypeInformation PSItem PSObject
    PSPath PSScriptRoot ProcessName ReadAllText SilentlyContinue SimpleMatch SubString WriteAllText ConvertFromJson
    ConvertToJson Errorf Fatalf HasPrefix HasSuffix NewReader Printf Println ReadAll ReadFile Sprintf TrimSpace
    WriteFile
"""


@cache
def built_in_names() -> frozenset[str]:
    """Names that languages define, which nobody has to be told.

    >>> {"FullName", "read_text", "readFileSync"} <= built_in_names()
    True
    """
    python = {name for owner in (*_PYTHON, unittest.TestCase) for name in dir(owner)}
    return frozenset(python | set(_OTHER_LANGUAGES.split()))


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
