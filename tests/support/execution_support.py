"""An executor that plays units here and writes nothing down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recompact.engine.execution.scheduler import InProcess
from recompact.values.chat import Reply


class NoJournal:
    """Knows of no call and keeps none."""

    def journaled(self, unit: str) -> Mapping[int, tuple[str, Reply]]:
        return {}

    def journal(self, *call: Any) -> None: ...

    def forget(self, unit: str, ordinal: int) -> None: ...

    def set_aside(self, unit: str, reason: str) -> None: ...


HERE = InProcess(NoJournal())
