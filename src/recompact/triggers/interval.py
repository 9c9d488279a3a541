"""Every so many calls, whatever the size: the fixed schedule that others are measured against."""

from __future__ import annotations

from dataclasses import dataclass

from recompact.triggers.protocol import Moment


@dataclass(frozen=True)
class Interval:
    calls: int

    def __call__(self, moment: Moment) -> bool:
        return moment.since >= self.calls
