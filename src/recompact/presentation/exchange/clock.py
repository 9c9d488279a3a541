"""Times for the formats that want them: a run records how long a call took, not when, so that it can be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

NOTE = "A run records durations and no times of day: times are counted from the last change of its file."


@dataclass
class Clock:
    """Seconds since 1970 that go on by the durations of calls, and by a little for what took none that is known."""

    now: float

    def spend(self, seconds: float) -> tuple[float, float]:
        """When something of this duration began and ended."""
        begin = self.now
        self.now += max(seconds, 1e-6)
        return begin, self.now


def iso(seconds: float) -> str:
    """
    >>> iso(0.5)
    '1970-01-01T00:00:00.500000+00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
