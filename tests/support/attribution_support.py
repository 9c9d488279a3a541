"""Boundaries and outcomes made by hand or by chance, and a way to let them arrive in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from recompact.attribution.allocation import Allocation
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes

Pair = tuple[float, int, float, int]
"""Reward and steps of PRE, reward and steps of POST."""


def boundary(number: int) -> BoundaryId:
    return BoundaryId(f"collect/task-{number:03d}", 1)


def arm(*draws: tuple[float, int]) -> dict[int, Outcome]:
    return {number: Outcome(value, steps, tokens=10 * steps) for number, (value, steps) in enumerate(draws)}


def outcomes(*pairs: Pair) -> Outcomes:
    return Outcomes(arm(*((a, b) for a, b, _, _ in pairs)), arm(*((c, d) for _, _, c, d in pairs)))


def random_pool(boundaries: int, draws: int, seed: int, *, coarse: bool = False) -> dict[BoundaryId, Outcomes]:
    """Pools of chance; coarse ones have many ties."""
    chance = Random(seed)
    pool = {}
    for number in range(boundaries):
        p, q, base = chance.random(), chance.random(), chance.randint(2, 12)
        pairs = [
            (
                float(chance.random() < p),
                base + (0 if coarse else chance.randint(0, 3)),
                float(chance.random() < q),
                base + chance.choice([0, 0, 5] if coarse else [0, 1, 2, 4, 8]),
            )
            for _ in range(draws)
        ]
        pool[boundary(number)] = outcomes(*pairs)
    return pool


def arrive(
    allocation: Allocation, pool: Mapping[BoundaryId, Outcomes], chance: Random, start: Sequence[Draw] = ()
) -> tuple[list[Draw], dict[BoundaryId, Outcomes]]:
    """Run an allocation with outcomes coming back one by one in any order; asking twice for one is an error."""
    known = {b: Outcomes() for b in pool}
    pending: list[Draw] = list(start)
    made: list[Draw] = list(start)
    while True:
        due = allocation.due(known)
        assert len(set(due)) == len(due), "asked twice in one breath"
        for draw in due:
            assert draw.number not in known[draw.boundary].of(draw.arm), "asked for what is known"
            if draw not in pending:
                assert draw not in made, "asked again for what was made"
                pending.append(draw)
                made.append(draw)
        if not pending:
            return made, known
        draw = pending.pop(chance.randrange(len(pending)))
        old = known[draw.boundary]
        outcome = pool[draw.boundary].of(draw.arm)[draw.number]
        pre = {**old.pre, draw.number: outcome} if draw.arm == "PRE" else old.pre
        post = {**old.post, draw.number: outcome} if draw.arm == "POST" else old.post
        known[draw.boundary] = Outcomes(pre, post)
