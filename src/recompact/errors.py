"""Mistakes that the person at the keyboard can mend: shown as one or two sentences, exit code 2, no traceback."""

from __future__ import annotations


class InputError(Exception):
    """The text names the file, the key and the fix."""
