"""What a verification will take before it begins: continuations and tokens, at most and on average.

No model is asked: the allocation is played through with imagined outcomes. A PRE continuation is taken to be as long as
the rest of its trajectory without the steps that repeat earlier ones, since those are mostly what compaction costs; a
POST continuation has half of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from statistics import fmean

from recompact.attribution.allocation import Allocation, play_through
from recompact.attribution.records import outcomes_in
from recompact.attribution.verify import remaining_steps
from recompact.engine.forecast import Amount, UsageByRole, Work, add_usage, scale_usage
from recompact.engine.store.calls import first_agent_inputs
from recompact.engine.store.runs import BoundaryRow, boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.values.chat import Message, Usage, canonical
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes

WORLDS = 5
HARMFUL = 0.1  # the share of imagined boundaries that do harm


def forecast_draws(store: Store, allocation: Allocation) -> Work:
    """Play the allocation through on what the run knows."""
    now = outcomes_in(store).outcomes
    step_limit, seed = store.metadata.step_limit, store.metadata.seed
    rows = {row.id: row for row in boundary_rows(store)}
    habits = _habits(store)
    worlds = [
        play_through(allocation, now, imagined_outcomes(rows, step_limit, Random(f"forecast/{seed}/{world}")))[1]
        for world in range(WORLDS)
    ]

    def usage(draw: Draw, steps: int) -> UsageByRole:
        row = rows[draw.boundary]
        size = row.pre_tokens if draw.arm == "PRE" else row.post_tokens
        return habits[row.unit].usage(steps, size)

    def usual(draw: Draw) -> UsageByRole:
        row = rows[draw.boundary]
        return usage(draw, habits[row.unit].length(draw, row))

    average = scale_usage(add_usage(usual(draw) for world in worlds for draw in world), 1 / WORLDS)
    longest = _all_draws(allocation, now) or max(worlds, key=len)
    most = add_usage(usage(draw, step_limit - rows[draw.boundary].step) for draw in longest)
    recorded = sum(len(o.pre) + len(o.post) for o in now.values())
    expected = Amount(round(fmean(len(world) for world in worlds)), average)
    return Work("verify", "continuation", recorded, expected, Amount(len(longest), most))


BASIS = (
    "the collected trajectories; where the number of continuations depends on what comes out, on one boundary in ten"
    " being harmful"
)


def _all_draws(allocation: Allocation, outcomes: Mapping[BoundaryId, Outcomes]) -> list[Draw]:
    """The most draws possible where their number depends on outcomes, in the arm that costs more; none elsewhere."""
    if allocation.cap is None:
        return []
    return [
        Draw(boundary, "PRE", number)
        for boundary, own in outcomes.items()
        for number in range(allocation.cap - len(own.pre) - len(own.post))
    ]


def imagined_outcomes(
    rows: Mapping[BoundaryId, BoundaryRow], step_limit: int, chance: Random
) -> Callable[[Draw], Outcome]:
    """Plausible outcomes: mostly like the trajectory's own, and worse after a harmful compaction."""
    harmful = {id for id in sorted(rows) if chance.random() < HARMFUL}

    def outcome(draw: Draw) -> Outcome:
        row = rows[draw.boundary]
        hurt = draw.arm == "POST" and draw.boundary in harmful
        success = chance.random() < (0.2 if hurt else 0.9 if row.trajectory_success else 0.4)
        mean = remaining_steps(row) + 5 * hurt
        steps = round(chance.gauss(mean, (0.4 * mean) ** 0.5))
        return Outcome(float(success), max(1, min(step_limit - row.step, steps)))

    return outcome


@dataclass(frozen=True)
class _Habits:
    """How one trajectory used steps and tokens."""

    new: tuple[bool, ...]  # for each step, whether it was the first of its kind
    fixed: float  # tokens that every call sends
    turn: float  # tokens that a turn adds
    output: float  # tokens that the agent writes in a step
    others: UsageByRole  # of models other than agent and compressor, in the whole trajectory
    agent: int  # tokens of the agent in the whole trajectory

    def length(self, draw: Draw, row: BoundaryRow) -> int:
        """About how many steps a continuation takes."""
        needed = max(1, sum(self.new[row.step :]))
        return needed if draw.arm == "PRE" else round((needed + remaining_steps(row)) / 2)

    def usage(self, steps: int, size: int) -> UsageByRole:
        """What a continuation uses that begins with a context of this size; other models in proportion to the agent."""
        sent, written = steps * (self.fixed + size) + self.turn * steps * (steps - 1) / 2, steps * self.output
        own = Usage(round(sent), round(written), calls=steps)
        return {"agent": own, **scale_usage(self.others, (sent + written) / max(1, self.agent))}


def _habits(store: Store) -> dict[str, _Habits]:
    first = first_agent_inputs(store)
    out = {}
    for row in trajectories(store):
        agent = row.usage.get("agent", Usage())
        turns = store.result(row.unit)["turns"]
        out[row.unit] = _Habits(
            new=_first_of_kind([_calls(store, turn[0]) for turn in turns]),
            fixed=first.get(row.unit, 0),
            turn=fmean([turn[2] for turn in turns] or [0]),
            output=agent.output / max(1, agent.calls),
            others={role: used for role, used in row.usage.items() if role not in ("agent", "compressor")},
            agent=agent.total,
        )
    return out


def _calls(store: Store, key: str) -> str:
    """What a turn did, without the thought before it and the ids of its calls."""
    message = Message.from_json(json.loads(store.text(bytes.fromhex(key))))
    return canonical([[call.name, call.arguments] for call in message.calls]) if message.calls else message.content


def _first_of_kind(texts: list[str]) -> tuple[bool, ...]:
    seen: set[str] = set()
    out = []
    for text in texts:
        out.append(text not in seen)
        seen.add(text)
    return tuple(out)
