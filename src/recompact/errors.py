"""What Recompact raises: everything of ours has one base, so that a caller can catch it all."""

from __future__ import annotations


class RecompactError(Exception):
    """Any error that Recompact raises on purpose."""


class InputError(RecompactError):
    """A mistake that the person at the keyboard can fix. The text names the file, the key and the fix; no traceback."""


class OptionError(InputError):
    """A plug-in does not take an option, or not with this value. `key` is None where it is about the options at all."""

    def __init__(self, text: str, key: str | None = None) -> None:
        super().__init__(text)
        self.key = key
