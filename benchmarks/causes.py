"""How well bisecting names the cause of a harmful compaction, against planted truth at the level of pieces.

    python benchmarks/causes.py --kept                           # what was measured, in seconds
    python benchmarks/causes.py --cache DIR --write              # the development worlds, one adaptation each
    python benchmarks/causes.py --worlds 110 --draws 16 --cache DIR

The truth: every piece that a compaction dropped is put back alone, and so is everything, with many draws of their own.
A piece is a cause if it closes half of what everything closes. A search finds the cause if what it names closes that
much on such draws. Beside it stand the optimizer's first suspicion, the search with 15 % of outcomes flipped, and
searches at harmless compactions, where any cause is false. Simulated models only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from acceptance import DEVELOPMENT
from adaptations import Plan, prepare
from arena import COUNT, STEP_LIMIT, SUITE, Player
from recompact.adaptation.adapt import inputs_of
from recompact.adaptation.cause_kinds import form_kinds
from recompact.adaptation.missing_facts import kinds_named
from recompact.adaptation.pair import diagnose_boundaries
from recompact.attribution.bisection.bisect import suspects_in
from recompact.attribution.bisection.cause import Cause
from recompact.attribution.bisection.pieces import (
    Intervention,
    added_lines,
    context_with,
    dropped_pieces,
    statements_in,
)
from recompact.attribution.bisection.search import NOTHING, Search, search
from recompact.attribution.divergence import literals
from recompact.attribution.judgement import read_verdicts
from recompact.engine.assembly import open_study
from recompact.engine.rollout import OBSERVATION_TOKENS, Agent, run_episode
from recompact.engine.store.records import read_boundary
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Verdict
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import Task
from recompact.simulation.parameters import draw_world
from recompact.values.outcome import BoundaryId, Outcome
from recompact.values.tables import Number, Table, columns, render
from recompact.values.trajectory import Boundary

FLIPPED = 0.15
KEPT = Path(__file__).with_name("cause_figures.json")
HARMLESS = 10  # compactions at which a search ought to find nothing


@dataclass(frozen=True)
class Accuracy:
    """What was found at the harmful compactions of one loss in one world."""

    world: int
    loss: str
    compactions: int
    with_cause: int  # some single piece closes half of the loss
    suspected: int  # the kind that the optimizer names first is that of such a piece
    found: int  # what the search names closes half of the loss
    found_flipped: int
    wrong: int  # what the search names does not
    draws: float


@dataclass(frozen=True)
class Place:
    """A compaction, with all that a search needs to be played at it."""

    world: int
    task: Task
    boundary: Boundary
    given: Search

    def play(self, intervention: Intervention, number: int, purpose: str) -> Outcome:
        """One continuation, with chances of its own."""
        unit = f"{purpose}/{self.given.boundary}/{intervention.key}/{number}"
        context = context_with(self.boundary, self.given.every, intervention, COUNT)
        trajectory = asyncio.run(
            run_episode(
                self.task,
                InProcessEpisode(SUITE.environment(self.task), self.task.id),
                Agent(Player(draw_world(self.world).traits, unit)),
                count=COUNT,
                step_limit=STEP_LIMIT - self.boundary.step,
                snapshot=self.boundary.snapshot,
                context=context,
                actions=self.boundary.actions,
                observation_tokens=OBSERVATION_TOKENS,
            )
        )
        return Outcome(trajectory.score.value, trajectory.steps)

    def search(self, flipped: float = 0.0) -> Cause:
        """The search, with a share of outcomes turned round."""
        chance, conversation, number = Random(f"flip/{self.given.boundary}"), search(self.given), 0
        try:
            asked = next(conversation)
            while True:
                outcome, number = self.play(asked, number, "search"), number + 1
                if chance.random() < flipped:
                    outcome = replace(outcome, value=1 - outcome.value)
                asked = conversation.send(outcome)
        except StopIteration as ended:
            result: Cause = ended.value
            return result

    def level(self, intervention: Intervention, draws: int) -> float:
        """What continuations come to in the terms of the loss: success, or steps saved."""
        outcomes = [self.play(intervention, number, "truth") for number in range(draws)]
        return fmean(o.value if self.given.loss == "success" else -o.steps for o in outcomes)


def place_of(store: Store, world: int, verdict: Verdict, tasks: dict[str, Task]) -> Place:
    boundary = read_boundary(store, verdict.id)
    task = tasks[verdict.id.unit]
    pieces, lines = dropped_pieces(boundary, COUNT), added_lines(boundary, COUNT)
    said = statements_in(boundary, lines, task.text, COUNT)
    suspects = suspects_in(store, verdict.id, boundary, pieces)
    given = Search(verdict.id, pieces, lines, verdict.outcomes, statements=said, suspects=suspects)
    return Place(world, task, boundary, given)


def suspicions(plan: Plan, path: Path) -> dict[BoundaryId, tuple[str, ...]]:
    """The kinds that the optimizer's first finding at each retained compaction names."""

    async def ask(store: Store) -> dict[BoundaryId, tuple[str, ...]]:
        async with open_study(plan.config(0, "pair", plan.train_tasks(0)), store) as study:
            diagnoses = await diagnose_boundaries(await inputs_of(study))
        return {each.id: kinds_named(each.causes[0].kind)[:1] for each in diagnoses if each.causes}

    with Store.open(path) as store:
        return asyncio.run(ask(store))


def measure(cache: Path, world: int, draws: int) -> tuple[list[Accuracy], int, int]:
    """The accuracy for each loss in a world, then causes found at harmless compactions, and how many those were."""
    plan = Plan(world=world)
    prepare(cache, plan, ["causes"], 0)
    path = plan.directory(cache, 0) / "verified.db"
    suspected = suspicions(plan, path)
    tasks = {f"collect/{task.id}": task for task in SUITE.tasks("train")}
    rows: dict[str, list[Finding]] = {"success": [], "steps": []}
    with Store.read(path) as store:
        verification = read_verdicts(store)
        for verdict in verification.retained:
            place = place_of(store, world, verdict, tasks)
            rows[place.given.loss].append(_judge(place, suspected.get(verdict.id, ()), draws))
        harmless = [verdict for verdict in verification.examined if verdict.kind == "harmless"]
        drawn = Random(world).sample(harmless, min(HARMLESS, len(harmless)))
        false = sum(place_of(store, world, verdict, tasks).search().ending == "found" for verdict in drawn)
    figures = [_accuracy(world, loss, own) for loss, own in rows.items() if own]
    return figures, false, len(drawn)


@dataclass(frozen=True)
class Finding:
    """What holds at one compaction."""

    with_cause: bool
    suspected: bool
    found: bool
    found_flipped: bool
    wrong: bool
    draws: int


def _accuracy(world: int, loss: str, own: Sequence[Finding]) -> Accuracy:
    return Accuracy(
        world,
        loss,
        len(own),
        with_cause=sum(each.with_cause for each in own),
        suspected=sum(each.suspected for each in own),
        found=sum(each.found for each in own),
        found_flipped=sum(each.found_flipped for each in own),
        wrong=sum(each.wrong for each in own),
        draws=fmean(each.draws for each in own),
    )


def _judge(place: Place, suspected: Sequence[str], draws: int) -> Finding:
    """Whether one piece is a cause, was suspected by kind, was found, was found with flips, or was named wrongly."""
    lost, whole = (place.level(each, draws) for each in (NOTHING, place.given.whole))
    enough = (lost + whole) / 2 if whole > lost else float("inf")
    causes = [p for p in place.given.pieces if place.level(Intervention.of([p.name]), draws) >= enough]
    kinds = {kind for piece in causes for kind in form_kinds(piece, literals(piece.text))}
    results = [place.search(), place.search(FLIPPED)]
    closes = [
        result.ending == "found" and place.level(Intervention.of(p.name for p in result.pieces), draws) >= enough
        for result in results
    ]
    wrong = results[0].ending == "found" and not closes[0]
    return Finding(bool(causes), bool(kinds & set(suspected)), closes[0], closes[1], wrong, results[0].draws)


def figures_of(cache: Path, world: int, draws: int) -> list[Any]:
    """Rows, false causes and harmless compactions of one world, from the cache where it has them."""
    record = cache / f"causes-{world}-{draws}.json"
    if not record.exists():
        figures, *harmless = measure(cache, world, draws)
        record.write_text(json.dumps([[asdict(each) for each in figures], *harmless]))
    known: list[Any] = json.loads(record.read_text())
    return known


def total(loss: str, rows: Sequence[Accuracy]) -> Accuracy:
    """All worlds together; draws are the mean over compactions."""
    own = [row for row in rows if row.loss == loss]
    counts = {
        name: sum(getattr(row, name) for row in own)
        for name in ("compactions", "with_cause", "suspected", "found", "found_flipped", "wrong")
    }
    draws = sum(row.draws * row.compactions for row in own) / max(1, counts["compactions"])
    return Accuracy(0, loss, **counts, draws=draws)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default="", help="some of the development worlds")
    parser.add_argument("--draws", type=int, default=8, help="of each piece that is put back, for the truth")
    parser.add_argument("--cache", type=Path, default=Path("causes-cache"), help="where work is kept and resumed")
    parser.add_argument("--kept", action="store_true", help="run nothing: print what the repository keeps")
    parser.add_argument("--write", action="store_true", help="keep the figures in the repository")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    worlds = [int(n) for n in args.worlds.split(",")] if args.worlds else DEVELOPMENT
    if args.kept:
        known = {int(world): each for world, each in json.loads(KEPT.read_text()).items()}
    else:
        known = {world: figures_of(args.cache, world, args.draws) for world in worlds}
    if args.write:
        KEPT.write_text(json.dumps(known, indent=1) + "\n")
    rows = [Accuracy(**each) for world in worlds for each in known[world][0]]
    false, tried = (sum(known[world][place] for world in worlds) for place in (1, 2))
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "false_causes": false, "harmless": tried}, indent=2))
        return
    rows += [total(loss, rows) for loss in ("success", "steps")]
    keys = tuple(Accuracy.__dataclass_fields__)
    titles = {
        "with_cause": "one piece closes it",
        "suspected": "suspected first",
        "found_flipped": "found, 15 % flipped",
    }
    table = Table(
        "Causes against planted truth",
        columns(*keys, **titles),
        tuple((row.world or "all", *(getattr(row, key) for key in keys[1:-1]), Number(row.draws)) for row in rows),
        (f"False causes at harmless compactions: {false} of {tried}. Simulated models.",),
    )
    print(render(table, "markdown"))


if __name__ == "__main__":
    main()
