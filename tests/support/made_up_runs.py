"""Runs written by hand, without an agent: trajectories, continuations and further draws with the figures that a test
wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from recompact.attribution.continuations import continuation_unit
from recompact.attribution.records import Purpose, further_unit
from recompact.engine.config import VerifyConfig
from recompact.engine.store.records import write_continuation, write_trajectory
from recompact.engine.store.store import Store
from recompact.models.journal import JournaledReply
from recompact.values.chat import Reply, ToolCall, Usage, assistant, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.outcome import ContinuationArm
from recompact.values.trajectory import Action, Boundary, Ending, Score, Trajectory

STEP_LIMIT = 40
PREFIX = (user("Read the book."),)


def begin(store: Store, *, temperature: float = 0.7, verified: VerifyConfig | None = None) -> None:
    """What a run says about itself before anything is recorded in it."""
    identity: dict[str, Any] = {"run": {"step_limit": STEP_LIMIT, "seed": 3}, "agent": {"temperature": temperature}}
    known = asdict(verified) if verified else None
    store.set_metadata(replace(store.metadata, identity=identity, verified=known))


def turn(page: int | str, tokens: int = 10, thought: str = "") -> Turn:
    """Looks at a page, or says something where no page is given."""
    if isinstance(page, str):
        return Turn(assistant(page), (), tokens)
    call = ToolCall(f"call_{page}", "look", f'{{"page": {page}}}')
    return Turn(assistant(thought, call), (user(f"page {page}"),), tokens)


def turns(number: int) -> tuple[Turn, ...]:
    return tuple(turn(n) for n in range(1, number + 1))


def boundary(index: int, step: int, summary: str | None = "Pages were read.") -> Boundary:
    """After so many steps, of which the last one stays: a context of 10 tokens for each step becomes one of 17."""
    pre = Context(PREFIX, None, turns(step))
    post = Context(PREFIX, None if summary is None else Summary(summary, 7), pre.turns[-1:])
    actions = tuple(Action("look", {"page": n}) for n in range(1, step + 1))
    return Boundary(index, step, pre, post, None, actions)


def collect(
    store: Store,
    task: str,
    boundaries: Sequence[int] = (5,),
    *,
    steps: int = 20,
    value: float = 1.0,
    ending: Ending = "finished",
    made: Sequence[Turn] | None = None,
    usage: Mapping[str, Usage] | None = None,
) -> None:
    """One collected trajectory with boundaries after so many steps each."""
    own = turns(steps) if made is None else tuple(made)
    found = tuple(boundary(n, step) for n, step in enumerate(boundaries, 1))
    trajectory = Trajectory(
        task, own, found, ending, Score(value >= 0.5, value), Context(PREFIX, None, own), usage=usage or {}
    )
    write_trajectory(store, f"collect/{task}", trajectory, phase="collect", run=0, groups={}, seconds=1.0)


def continuation(
    task: str,
    value: float,
    steps: int,
    *,
    tokens: int = 100,
    ending: Ending = "finished",
    error: str = "",
    made: Sequence[Turn] | None = None,
) -> Trajectory:
    own = turns(steps) if made is None else tuple(made)
    context = Context(PREFIX, None, own)
    usage = {"agent": Usage(tokens)}
    return Trajectory(task, own, (), ending, Score(value >= 0.5, value), context, usage=usage, error=error)


def draw(
    store: Store,
    task: str,
    index: int,
    arm: ContinuationArm,
    number: int,
    value: float = 1.0,
    steps: int = 5,
    *,
    tokens: int = 100,
    ending: Ending = "finished",
    error: str = "",
    made: Sequence[Turn] | None = None,
) -> str:
    """One continuation; returns its name."""
    name = continuation_unit(task, index, arm, number)
    whole = continuation(task, value, steps, tokens=tokens, ending=ending, error=error, made=made)
    write_continuation(store, name, f"collect/{task}", index, arm, number, whole, seconds=1.0)
    return name


def pair(store: Store, task: str, index: int, number: int, pre: tuple[float, int], post: tuple[float, int]) -> None:
    """A draw in both arms: value and steps of each."""
    draw(store, task, index, "PRE", number, *pre)
    draw(store, task, index, "POST", number, *post)


def further(
    store: Store,
    purpose: Purpose,
    task: str,
    index: int,
    arm: ContinuationArm,
    number: int,
    value: float = 1.0,
    steps: int = 5,
    *,
    summary: str | None = "Read on.",
) -> None:
    """One draw beside the verification."""
    whole = continuation(task, value, steps)
    if purpose == "resample":
        whole = replace(whole, boundaries=(boundary(index, 5, summary),))
    name = further_unit(purpose, task, index, arm, number)
    write_trajectory(store, name, whole, phase=purpose, run=number, groups={}, seconds=1.0)


def journal(
    store: Store, unit: str, ordinal: int, role: str, sent: int, written: int = 0, *, model: str = "local"
) -> None:
    """One call of a model."""
    store.journal(
        JournaledReply(
            unit, ordinal, role, model, "00" * 32, Reply(assistant("yes"), Usage(sent, written, calls=1)), 0.1
        )
    )
