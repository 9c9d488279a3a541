"""Draws that are copies of each other because decoding is deterministic: they are one draw, made several times."""

from __future__ import annotations

from collections.abc import Sequence

from recompact.attribution.divergence import actions_of
from recompact.attribution.records import Purpose, further_rows, summary_text
from recompact.engine.config import Config
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import ContinuationRow, TrajectoryRow, continuation_rows
from recompact.engine.store.store import Store
from recompact.values.chat import canonical
from recompact.values.outcome import BoundaryId, CopiedArms


def decoding_note(config: Config) -> str | None:
    """What to warn about before a token is spent: at temperature 0, further draws may only repeat the first."""
    if config.agent.temperature != 0:
        return None
    return (
        "[agent] temperature = 0: draws of one arm may be copies of each other. Copies count as one draw, so intervals"
        " stay wide however many are made; set the temperature that the agent is used with, or --draws 1"
    )


def copied_arms(store: Store, purpose: Purpose | None = None) -> CopiedArms:
    """The boundaries and arms, at temperature 0, whose draws all took the same actions to the same end, and where they
    have fresh summaries, from the same words. The draws are those of the verification or, with a `purpose`, of that."""
    if store.metadata.identity.get("agent", {}).get("temperature") != 0:
        return frozenset()
    arms: dict[tuple[BoundaryId, str], list[_Draw]] = {}
    if purpose is None:
        for row in continuation_rows(store):
            arms.setdefault((BoundaryId(row.unit, row.index), row.arm), []).append(_draw(row.name, row))
    else:
        for draw, beside in further_rows(store, purpose):
            arms.setdefault((draw.boundary, draw.arm), []).append(_draw(beside.unit, beside))
    return frozenset(arm for arm, draws in arms.items() if len(draws) > 1 and _alike(store, draws))


_Draw = tuple[str, tuple[float, int, str]]
"""The name of a draw, and what came out of it."""


def _draw(name: str, row: ContinuationRow | TrajectoryRow) -> _Draw:
    return name, (row.value, row.steps, row.ending)


def _alike(store: Store, draws: Sequence[_Draw]) -> bool:
    if len({outcome for _, outcome in draws}) > 1:
        return False
    continuations = (read_trajectory(store, name) for name, _ in draws)
    return len({(summary_text(c), canonical([a.to_json() for a in actions_of(c)])) for c in continuations}) == 1
