"""Which draws of the prior are worlds to measure on: those whose figures without any method are like the paper's.

The rules were written down before they were applied. A draw is accepted by no compaction, FIFO and the plain prompt
alone; the first ten accepted ones, by number, are for development, the next ten are held out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from arena import FIFO, NONE, SUITE, Arm, Outcome, play
from recompact.simulation.parameters import Traits, World, draw_world
from recompact.values.tables import Number, Table, columns
from recompact.values.template import default_template

ORIGINAL = Arm("prompted", default_template())
Outcomes = Sequence[Sequence[Outcome]]
RUNS = range(3)
SCREEN = 6.0
"""Points: a draw whose first run of the plain prompt is further off than that is not measured any further."""


@dataclass(frozen=True)
class Rule:
    """A figure of the paper's AppWorld rows with history-only compression, and how far a world may be off."""

    figure: str
    aim: float
    distance: float


RULES = (
    Rule("none", 84.1, 3.0),
    Rule("none_pass3", 78.6, 5.0),
    Rule("fifo", 53.2, 5.0),  # one run
    Rule("prompted", 78.6, 3.0),
    Rule("prompted_pass3", 68.5, 6.0),
    Rule("lost", 5.5, 3.0),  # what the plain prompt loses against no compaction
    Rule("steps_ratio", 1.2, 0.25),  # of prompted to no compaction: 1.03, 1.06 and 1.40 in the paper's benchmarks
)


@dataclass(frozen=True)
class Figures:
    """A draw as it was measured, in points and steps; None where the screening had rejected it already."""

    world: int
    screened: float  # accuracy of the plain prompt in the first run
    none: float | None = None
    none_pass3: float | None = None
    fifo: float | None = None
    prompted: float | None = None
    prompted_pass3: float | None = None
    none_steps: float | None = None
    prompted_steps: float | None = None
    compactions: float | None = None
    bound: float | None = None  # share of compactions at which a fact had to go for want of room
    dispersion: float | None = None  # variance of a prompted task's steps over its runs, of their mean
    shared: float | None = None  # share of the prompted arm's steps that come before the first compaction

    @property
    def lost(self) -> float | None:
        return None if self.none is None or self.prompted is None else self.none - self.prompted

    @property
    def steps_ratio(self) -> float | None:
        return None if not self.none_steps or self.prompted_steps is None else self.prompted_steps / self.none_steps

    @property
    def broken(self) -> tuple[str, ...]:
        """The rules that it breaks."""
        if self.none is None:
            return ("screening",)
        return tuple(rule.figure for rule in RULES if abs(getattr(self, rule.figure) - rule.aim) > rule.distance)

    @property
    def accepted(self) -> bool:
        return not self.broken


def measure(number: int) -> Figures:
    """The figures of a draw on the 168 test tasks."""
    world, tasks = draw_world(number), SUITE.tasks("test")
    first = play(world, tasks, {"prompted": ORIGINAL}, RUNS[:1])["prompted"]
    screened = _points(first)
    if abs(screened - 78.6) > SCREEN:
        return Figures(number, screened)
    later = play(world, tasks, {"prompted": ORIGINAL}, RUNS[1:])["prompted"]
    none, fifo = _without_summaries(world.traits.wander, world.traits.wander_on)
    prompted = [[*a, *b] for a, b in zip(first, later, strict=True)]
    every = [outcome for row in prompted for outcome in row]
    steps = [[float(outcome.steps) for outcome in row] for row in prompted]
    compactions = sum(outcome.compactions for outcome in every)
    return Figures(
        number,
        screened,
        none=_points(none),
        none_pass3=_pass3(none),
        fifo=_points(fifo),
        prompted=_points(prompted),
        prompted_pass3=_pass3(prompted),
        none_steps=fmean(outcome.steps for row in none for outcome in row),
        prompted_steps=fmean(outcome.steps for outcome in every),
        compactions=compactions / len(every),
        bound=sum(outcome.bound for outcome in every) / max(1, compactions),
        dispersion=sum(variance(row) for row in steps) / sum(fmean(row) for row in steps),
        shared=sum(outcome.shared for outcome in every) / sum(outcome.steps for outcome in every),
    )


@cache
def _without_summaries(wander: float, wander_on: float) -> tuple[Outcomes, Outcomes]:
    """No compaction and FIFO. There is no summary, so of what is drawn only the agent's wandering matters."""
    world = World(0, replace(Traits(), wander=wander, wander_on=wander_on))
    tasks = SUITE.tasks("test")
    return play(world, tasks, {"none": NONE}, RUNS)["none"], play(world, tasks, {"fifo": FIFO}, RUNS[:1])["fifo"]


def _points(outcomes: Outcomes) -> float:
    return 100 * fmean(outcome.success for row in outcomes for outcome in row)


def _pass3(outcomes: Outcomes) -> float:
    return 100 * fmean(all(outcome.success for outcome in row) for row in outcomes)


def accept_worlds(cache: Path, first: int, number: int, report: Callable[[str], None]) -> list[Figures]:
    """Measure draws in the order of their numbers until enough are accepted; rejected ones are in the list too."""
    cache.mkdir(parents=True, exist_ok=True)
    figures: list[Figures] = []
    while sum(each.accepted for each in figures) < number:
        world = first + len(figures)
        record = cache / f"accept-{world}.json"
        if not record.exists():
            record.write_text(json.dumps(asdict(measure(world))))
        figures.append(Figures(**json.loads(record.read_text())))
        last = figures[-1]
        verdict = "accepted" if last.accepted else f"rejected by {', '.join(last.broken)}"
        report(f"world {world}: {verdict} ({sum(each.accepted for each in figures)} so far)")
    return figures


def acceptance_table(figures: Sequence[Figures]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for each in figures:
        if each.none is None:
            rows.append((each.world, *[None] * 10, f"screening ({each.screened:.1f})"))
            continue
        points = (each.none, each.none_pass3, each.fifo, each.prompted, each.prompted_pass3, each.lost)
        more = (each.steps_ratio, each.compactions, each.dispersion, each.bound)
        numbers = [None if value is None else Number(value) for value in points]
        numbers += [None if value is None else Number(value, 2) for value in more]
        rows.append((each.world, *numbers, "accepted" if each.accepted else ", ".join(each.broken)))
    own = ("none", "none3", "fifo", "prompted", "prompted3", "lost", "ratio", "compactions", "dispersion", "bound")
    keys = ("world", *own, "verdict")
    titles = {
        "none3": "none, Pass^3",
        "fifo": "FIFO",
        "prompted3": "prompted, Pass^3",
        "ratio": "steps, of none",
        "bound": "room binds",
    }
    rules = ", ".join(f"{rule.figure} {rule.aim:g} ± {rule.distance:g}" for rule in RULES)
    notes = (
        "168 test tasks, three runs (FIFO: one), budget 2,048, simulated models.",
        f"Accepted within: {rules}; screened at {SCREEN:g} points of the first prompted run.",
    )
    return Table("Draws of the prior", columns(*keys, **titles), tuple(rows), notes)


PLACE = Path(__file__).with_name("worlds.json")


def read_draws(path: Path = PLACE) -> tuple[Figures, ...]:
    """The draws as they were measured, which `worlds.py accept --write` wrote down; none before that."""
    return tuple(Figures(**each) for each in json.loads(path.read_text())) if path.exists() else ()


def write_draws(figures: Sequence[Figures], path: Path = PLACE) -> None:
    """One line a draw."""
    lines = ",\n".join(json.dumps(asdict(each)) for each in figures)
    path.write_text(f"[\n{lines}\n]\n")


DRAWS = read_draws()
ACCEPTED = tuple(each.world for each in DRAWS if each.accepted)
DEVELOPMENT, HELD_OUT = ACCEPTED[:10], ACCEPTED[10:20]
"""The numbers of the worlds in use."""
