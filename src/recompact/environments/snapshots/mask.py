"""Masks for the volatile parts of observations: replayed and recorded texts are compared after masking.

An environment or its suite names patterns, or a function, in `mask`. Nothing is masked by default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Mask = Callable[[str], str]

TIMESTAMPS = (
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"  # 2020-05-01 10:00:00
    r"|\b\d{8}T\d{6}Z?\b"  # iCalendar: 20200501T100000Z
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2} +(?:\d{1,2}:\d{2}(?::\d{2})?|\d{4})\b"  # ls -l
)
LONG_HEX = (
    r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"  # a UUID
    r"|\b0x[0-9a-fA-F]{6,}\b|\b[0-9a-fA-F]{16,}\b"
)
INODES = r"(?i:\binode:?[ =]*)\d+|(?m:^ *\d{5,}(?= ))"  # stat, ls -i
PIDS = r"(?i:\bpid:?[ =]*)\d+"

VOLATILE = (TIMESTAMPS, LONG_HEX, INODES, PIDS)
"""All of them: `mask = VOLATILE` on an environment that shows a real shell or real files."""


def masker(mask: Mask | str | Iterable[str] | None) -> Mask | None:
    """A masking function, made from patterns unless it is one already."""
    if mask is None or callable(mask):
        return mask
    patterns = [re.compile(pattern) for pattern in ([mask] if isinstance(mask, str) else mask)]

    def masked(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub("…", text)
        return text

    return masked if patterns else None


def mask_of(environment: object, suite: object = None) -> Mask | None:
    """The environment's own `mask`, else its suite's."""
    own = getattr(environment, "mask", None)
    return masker(own if own is not None else getattr(suite, "mask", None))


def excerpts(one: str, other: str, width: int = 80) -> tuple[str, str]:
    """Both texts from shortly before the first difference, short enough for a message."""
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, same - width // 4)
    dots = "…" if start else ""
    return dots + one[start : start + width], dots + other[start : start + width]
