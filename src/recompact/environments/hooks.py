"""What a suite says about its own actions and texts: what an action is for, and which literals a text holds.

The hooks are written by whoever connects an environment, so their answers are checked here, in whichever process they
run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from recompact.environments.protocol import Behaviour, Literals
from recompact.values.trajectory import Action

BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)


def behaviours_of(suite: object, actions: Sequence[Action]) -> list[Behaviour | None] | None:
    """What each action is for, by the suite's `behaviour`."""
    hook = getattr(suite, "behaviour", None)
    if hook is None:
        return None
    behaviours: list[Behaviour | None] = []
    for action in actions:
        behaviour = hook(action)
        if behaviour is not None and behaviour not in BEHAVIOURS:
            raise ValueError(f"behaviour of {action.name!r} is {behaviour!r}: return {', '.join(BEHAVIOURS)} or None")
        behaviours.append(behaviour)
    return behaviours


def literals_of(suite: object, texts: Sequence[str]) -> list[Literals] | None:
    """The literals of each text by kind, by the suite's `literals`."""
    hook = getattr(suite, "literals", None)
    if hook is None:
        return None
    return [as_literals(hook(text)) for text in texts]


def as_literals(answer: Any) -> Literals:
    """The answer of a suite's `literals`, with each literal once.

    >>> as_literals({"tokens": ["a1", "a1"], "signatures": ()})
    {'tokens': ('a1',), 'signatures': ()}
    """
    if not isinstance(answer, Mapping) or not all(isinstance(values, list | tuple) for values in answer.values()):
        raise ValueError(f"literals must be a mapping of lists, like {{'tokens': [...]}}, not {type(answer).__name__}")
    return {str(kind): tuple(dict.fromkeys(map(str, values))) for kind, values in answer.items()}
