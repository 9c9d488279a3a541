"""What happens while Recompact works, for whoever wants to know: `on` registers a listener, the work calls `emit`.

A listener can slow the work down and nothing else: what it raises is logged, and the work goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from recompact.values.chat import Usage
from recompact.values.context import Context
from recompact.values.receipt import Receipt

Event = TypeVar("Event")
_listeners: dict[type, list[Callable[[Any], object]]] = {}
_log = logging.getLogger("recompact")


@dataclass(frozen=True)
class ContextCompacted:
    """A `Compactor` has replaced a part of a conversation; `template` is the hash of the one that it used."""

    pre: Context
    post: Context
    model: str
    template: str
    usage: Usage
    seconds: float
    receipt: Receipt


def on(event: type[Event], listener: Callable[[Event], object]) -> Callable[[], None]:
    """Call the listener with every event of this type from now on. The function that is returned ends that."""
    listeners = _listeners.setdefault(event, [])
    listeners.append(listener)

    def end() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return end


def emit(event: object) -> None:
    """Tell the listeners of an event's type, in the order in which they came."""
    for listener in tuple(_listeners.get(type(event), ())):
        tell(listener, event)


def tell(listener: Callable[[Any], object], event: object) -> None:
    """Tell one listener."""
    try:
        listener(event)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        _log.warning("a listener of %s failed, and the work goes on: %s", type(event).__name__, reason)
