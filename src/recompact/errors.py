"""What Recompact raises: all its errors have one base, so that a caller can catch them all. And what others raise."""

from __future__ import annotations

import opcode


class RecompactError(Exception):
    """Any error that Recompact raises on purpose."""


class InputError(RecompactError):
    """A mistake that the person at the keyboard can fix. The text names the file, the key and the fix; no traceback."""


class OptionError(InputError):
    """A plug-in does not take an option, or not with this value. `key` is None if it is about options in general."""

    def __init__(self, text: str, key: str | None = None) -> None:
        super().__init__(text)
        self.key = key


def was_pressed(error: BaseException) -> bool:
    """Whether a signal made this KeyboardInterrupt, rather than a `raise` in the code that it comes from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or trace.tb_frame.f_code.co_code[trace.tb_lasti] != opcode.opmap["RAISE_VARARGS"]
