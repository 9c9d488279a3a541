"""The prior over worlds: how the simulated models might behave, as ranges with their reasons, and a draw by number.

What was repaired in the third edition holds in every world; everything else is a range. A world is a value that its
number fixes, and each parameter has its own stream of chance, so that none depends on the others' order. Which of the
worlds are in use is decided by the figures of no compaction, FIFO and plain prompting alone (docs/pocket.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, log
from random import Random

from recompact.errors import InputError
from recompact.simulation.parameters import KINDS, Habits, Judgement, Kind, Traits


@dataclass(frozen=True)
class Between:
    """A range in which every value is as likely; with `by_factor` every ratio is, as for rates and sizes."""

    low: float
    high: float
    by_factor: bool = False

    def draw(self, rng: Random) -> float:
        if self.by_factor:
            return exp(rng.uniform(log(self.low), log(self.high)))
        return rng.uniform(self.low, self.high)


@dataclass(frozen=True)
class Prior:
    """What is not known about a world, by parameter; what is not here stays as in the second edition."""

    # How an agent takes a summary: from one that mostly checks against the task to one that mostly goes by its notes.
    traits: Mapping[str, Between] = field(
        default_factory=lambda: {
            "believe_answer": Between(0.3, 0.9),
            "believe_goal": Between(0.3, 0.9),
            "believe_completion": Between(0.2, 0.8),
            "obey": Between(0.3, 0.9),
            "doubt": Between(0.05, 0.3),
        }
    )
    # How far steps disperse: within a task their variance is 0.42 of their mean in the released tau2 runs (0.30 and
    # 0.55 by scope). Runs of needless look-ups, rare and short or frequent and long, in three steps: an agent without a
    # summary depends on nothing else here, so worlds of one step share what comes before the first compaction.
    wandering: tuple[tuple[float, float], ...] = ((0.02, 0.4), (0.035, 0.6), (0.05, 0.75))
    # How easily a kind is lost at one compaction. Nobody has measured this for a real compressor. The ranges span a
    # factor of eight, so that any of the kinds that decide success (conditions, pages, changes made, open work) may be
    # the one that matters most, and any of those that cost steps may be lost often or hardly ever.
    loss: Mapping[Kind, Between] = field(
        default_factory=lambda: {
            "predicate": Between(0.02, 0.16, by_factor=True),
            "set": Between(0.01, 0.08, by_factor=True),
            "identifier": Between(0.01, 0.08, by_factor=True),
            "token": Between(0.01, 0.08, by_factor=True),
            "signature": Between(0.05, 0.4, by_factor=True),
            "page": Between(0.003, 0.024, by_factor=True),
            "mutation": Between(0.008, 0.064, by_factor=True),
            "open": Between(0.04, 0.32, by_factor=True),
            "error": Between(0.1, 0.5, by_factor=True),
        }
    )
    # What a kind counts for when room is short, against what it counts for in the second edition.
    worth: Between = field(default_factory=lambda: Between(0.5, 2.0, by_factor=True))
    # How a compressor works and how far it does what it is told.
    habits: Mapping[str, Between] = field(
        default_factory=lambda: {
            # With nothing lost otherwise, room for 1,300 tokens (by the compressor's rough idea of length) binds at a
            # third of the plain prompt's compactions and for 1,500 at one in twelve; 900 ends most long tasks.
            "room": Between(1300, 1650),
            "unevenness": Between(1.0, 4.0),
            "carried": Between(0.2, 1.0),  # lost again as easily as at first, or hardly
            "relapse": Between(0.3, 0.9),
            "rivalry": Between(0.0, 0.7),  # below 1: asking for everything is not asking for nothing
            "detail": Between(0.5, 1.0),
            "forbidden": Between(0.02, 0.3),
            "passes_on": Between(0.4, 1.0),
            "claims": Between(0.2, 0.6),
            "completes": Between(0.1, 0.4),
            "reopens": Between(0.1, 0.5),
        }
    )
    demanded: Between = field(default_factory=lambda: Between(1.5, 3.0))  # attention to a kind that is demanded
    mentioned: Between = field(default_factory=lambda: Between(0.2, 0.6))  # of that, what a mere mention earns
    # How well an optimizer reads and words. It can be fitted to nothing: around the second edition's assumptions.
    judgement: Mapping[str, Between] = field(
        default_factory=lambda: {
            "attention_span": Between(50_000, 400_000, by_factor=True),
            "imagination": Between(100_000, 800_000, by_factor=True),
            "noise": Between(0.1, 0.5),
            "blame": Between(0.2, 0.8),
            "takes_up": Between(0.6, 0.95),
            "weak_clause": Between(0.1, 0.4),
            "steers_agent": Between(0.05, 0.3),
            "restructures": Between(0.1, 0.5),
        }
    )


@dataclass(frozen=True)
class World:
    """How the three simulated models behave; `number` is None for the second edition."""

    number: int | None = None
    traits: Traits = field(default_factory=Traits)
    habits: Habits = field(default_factory=Habits)
    judgement: Judgement = field(default_factory=Judgement)


@lru_cache(maxsize=64)
def draw_world(number: int) -> World:
    """The world of a number."""
    prior = Prior()

    def value(name: str, between: Between) -> float:
        return between.draw(Random(f"world {number}/{name}"))

    def values(ranges: Mapping[str, Between]) -> dict[str, float]:
        return {name: value(name, between) for name, between in ranges.items()}

    wander, wander_on = Random(f"world {number}/wandering").choice(prior.wandering)
    habits = values(prior.habits)
    demanded = value("demanded", prior.demanded)
    return World(
        number,
        Traits(**values(prior.traits), wander=wander, wander_on=wander_on, even_belief=True),
        Habits(
            **{**habits, "room": round(habits["room"])},  # type: ignore[arg-type]
            loss={kind: value(f"loss {kind}", prior.loss[kind]) for kind in KINDS},
            worth={kind: value(f"worth {kind}", prior.worth) for kind in KINDS},
            attention=(1.0, 1 + value("mentioned", prior.mentioned) * (demanded - 1), demanded),
        ),
        Judgement(**values(prior.judgement), reads_previous=True),
    )


def world_of(edition: int | None = None, world: int | None = None) -> World:
    """The world that the options of a simulated model name: the second edition, or a draw of the third."""
    if edition not in (None, 2, 3):
        raise InputError(f"there is no edition {edition} of the embedded world; there are 2 and 3")
    if edition == 3 and world is None:
        raise InputError("edition 3 of the embedded world is drawn: say which world, as in world = 1")
    if edition == 2 and world is not None:
        raise InputError("edition 2 is one world: leave `world` out, or set edition = 3")
    return World() if world is None else draw_world(world)
