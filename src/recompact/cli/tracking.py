"""`recompact --track NAME`: while a command works, another tool is told what happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from recompact.registry import Registry

TRACKERS = Registry(
    "tracker",
    "recompact.trackers",
    {name: f"recompact.integrations.{name}:start" for name in ("otel", "mlflow", "wandb")},
)


@contextmanager
def track(names: Sequence[str]) -> Iterator[None]:
    """Start trackers by name; each returns what ends it. What they hear of is in `recompact.values.events`."""
    with ExitStack() as stack:
        for name in dict.fromkeys(names):
            stack.callback(TRACKERS.find(name, Path.cwd())())
        yield
