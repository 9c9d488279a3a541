"""What a suite knows about the actions and texts of its own environments: which action is for what, which words count.

In go actions and texts, out comes what the suite's hooks say of each; None where the suite has no such hook. The hooks
are written by whoever connects an environment, so what they return is checked here, in whichever process they run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from recompact.environments.protocol import Behaviour, Literals
from recompact.trajectory import Action

BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)


def behaviours_of(suite: object, actions: Sequence[Action]) -> list[Behaviour | None] | None:
    """What each action is for, by the suite's `behaviour`."""
    hook = getattr(suite, "behaviour", None)
    if hook is None:
        return None
    found: list[Behaviour | None] = []
    for action in actions:
        said = hook(action)
        if said is not None and said not in BEHAVIOURS:
            raise ValueError(f"behaviour of {action.name!r} is {said!r}: return {', '.join(BEHAVIOURS)} or None")
        found.append(said)
    return found


def literals_of(suite: object, texts: Sequence[str]) -> list[Literals] | None:
    """The literals of each text by kind, by the suite's `literals`."""
    hook = getattr(suite, "literals", None)
    if hook is None:
        return None
    return [as_literals(hook(text)) for text in texts]


def as_literals(said: Any) -> Literals:
    """What a suite named in a text, each once.

    >>> as_literals({"tokens": ["a1", "a1"], "signatures": ()})
    {'tokens': ('a1',), 'signatures': ()}
    """
    if not isinstance(said, Mapping) or not all(isinstance(named, list | tuple) for named in said.values()):
        raise ValueError(f"literals must be a mapping of lists, like {{'tokens': [...]}}, not {type(said).__name__}")
    return {str(kind): tuple(dict.fromkeys(map(str, named))) for kind, named in said.items()}
