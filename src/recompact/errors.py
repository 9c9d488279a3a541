"""What Recompact raises: all its errors have one base, so that a caller can catch them all."""

from __future__ import annotations


class RecompactError(Exception):
    """Any error that Recompact raises on purpose."""


class InputError(RecompactError):
    """A mistake that the person at the keyboard can fix. The text names the file, the key and the fix; no traceback."""


class OptionError(InputError):
    """A plug-in does not take an option, or not with this value. `key` is None if it is about options in general."""

    def __init__(self, text: str, key: str | None = None) -> None:
        super().__init__(text)
        self.key = key
