"""What can be asked of a development world without any method: what room takes, what each kind contributes, how much a
good set of clauses would win, and how much chance alone moves the figures.

Every analysis is a function of a directory, where it keeps its figures, and of the world's number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean, variance
from typing import Any

from acceptance import ORIGINAL
from adaptations import MORE_CLAUSES
from arena import NONE, SUITE, Arm, Outcome, accuracy, play, play_boundaries
from planted_truth import lost_facts
from random_effects import random_effects
from recompact.adaptation.facts import CLAUSES, ENTRIES, SPARING, with_clauses
from recompact.adaptation.missing_facts import Kind as FactKind
from recompact.adaptation.placement import without_absolutes
from recompact.errors import InputError
from recompact.simulation.judgement import suspects
from recompact.simulation.parameters import KINDS, Habits, Kind, World, draw_world
from recompact.values.stats import t_quantile
from recompact.values.tables import Number, Table, columns
from recompact.values.template import Template, default_template

ASKING: Mapping[Kind, tuple[Any, str]] = {
    "predicate": ("wording", MORE_CLAUSES[0]),
    "set": ("result", CLAUSES["result"]),
    "identifier": ("identifier", CLAUSES["identifier"]),
    "token": ("secret", CLAUSES["secret"]),
    "signature": ("interface", CLAUSES["interface"]),
    "page": ("page", CLAUSES["page"]),
    "mutation": ("done", CLAUSES["done"]),
    "open": ("wording", MORE_CLAUSES[1]),
    "error": ("wording", MORE_CLAUSES[2]),
}
"""A clause that demands each kind, and where it goes."""
PLACEBO = "Write plainly, one thought to a line, and put what belongs together side by side."
SEARCH_RUNS, CHECK_RUNS, OTHER_RUNS = (10,), (11, 12), (0, 1)
"""Runs on which sets of clauses are searched for, fresh ones on which the best is estimated, and those of the rest."""
PATIENCE = 2
"""How many more clauses may win nothing before the search for a set of them ends."""
Figures = dict[str, Any]


def asking_for(kinds: Sequence[Kind], template: Template | None = None) -> Template:
    """The template with a clause for each of the kinds, and no evidence."""
    return with_clauses(template or default_template(), [ASKING[kind] for kind in kinds])


KEPT = Path(__file__).with_name("world_figures.json")
"""The figures that were worked out, by analysis and number."""


def keep_figures(name: str) -> Callable[[Callable[[int], Figures]], Callable[[Path | None, int], Figures]]:
    """An analysis whose figures are kept in a directory and not worked out twice; without one, those of `KEPT`."""

    def keep(analysis: Callable[[int], Figures]) -> Callable[[Path | None, int], Figures]:
        def read_or_run(cache: Path | None, number: int) -> Figures:
            if cache is None:
                return read_kept(name, number)
            record = cache / f"{name}-{number}.json"
            if not record.exists():
                cache.mkdir(parents=True, exist_ok=True)
                figures = json.dumps(analysis(number))
                record.write_text(figures)
            return dict(json.loads(record.read_text()))

        return read_or_run

    return keep


def read_kept(name: str, number: int, path: Path = KEPT) -> Figures:
    """The figures of an analysis as they are kept in the repository."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    try:
        return dict(kept[name][str(number)])
    except KeyError:
        raise InputError(
            f"{path.name} has no figures of {name} for {number}: work them out with --cache DIR, and add --write to"
            " keep them"
        ) from None


def kept_numbers(name: str, path: Path = KEPT) -> frozenset[int]:
    """The numbers whose figures of an analysis are kept."""
    return frozenset(map(int, json.loads(path.read_text()).get(name, {}))) if path.exists() else frozenset()


def write_kept(name: str, by_number: Mapping[int, Figures], path: Path = KEPT) -> None:
    """Keep the figures of an analysis, one line a number, beside those of the others."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept[name] = {str(number): figures for number, figures in by_number.items()}
    blocks = []
    for each in sorted(kept):
        lines = ",\n".join(f'"{number}": {json.dumps(figures)}' for number, figures in kept[each].items())
        blocks.append(f'"{each}": {{\n{lines}\n}}')
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


@keep_figures("room")
def room(number: int) -> Figures:
    """Tokens of a summary, facts displaced and compactions, under the plain prompt and one that asks for everything."""
    arms = {"plain": ORIGINAL, "everything": Arm("prompted", asking_for(KINDS))}
    results = play(draw_world(number), SUITE.tasks("test"), arms, OTHER_RUNS[:1])
    figures: Figures = {}
    for name in arms:
        every = [outcome for row in results[name] for outcome in row]
        compactions = max(1, sum(outcome.compactions for outcome in every))
        figures |= {
            f"{name}_tokens": sum(outcome.summary_tokens for outcome in every) / compactions,
            f"{name}_bound": sum(outcome.bound for outcome in every) / compactions,
            f"{name}_displaced": sum(outcome.displaced for outcome in every) / compactions,
            f"{name}_compactions": compactions / len(every),
        }
    return figures


@keep_figures("kinds")
def kinds(number: int) -> Figures:
    """Points and steps won if a kind were never lost, or room never bound: the compressor's doing, not a prompt's."""
    world = draw_world(number)
    arms = {"plain": ORIGINAL, "none": NONE}
    arms |= {kind: replace(ORIGINAL, habits=never_losing(world.habits, kind)) for kind in KINDS}
    arms["room"] = replace(ORIGINAL, habits=replace(world.habits, room=100_000))
    results = play(world, SUITE.tasks("test"), arms, OTHER_RUNS[:1])
    return {name: _against(results["plain"], results[name]) for name in arms if name != "plain"}


def never_losing(habits: Habits, kind: Kind) -> Habits:
    return replace(habits, loss={**habits.loss, kind: 0.0}, relapse=0.0 if kind == "predicate" else habits.relapse)


@keep_figures("ceiling")
def ceiling(number: int) -> Figures:
    """The best set of clauses among the nested ones in the order of what each clause wins alone, on fresh runs.

    The search sees one run and ends when two more clauses in turn have won nothing. The estimates are from other runs,
    so that they are not flattered by the choice. A better set may exist: this is a lower bound of what a prompt wins.
    """
    world, tasks = draw_world(number), SUITE.tasks("test")
    alone: dict[str, Arm] = {kind: Arm("prompted", asking_for([kind])) for kind in KINDS}
    results = play(world, tasks, {"plain": ORIGINAL, **alone}, SEARCH_RUNS)
    order = sorted(KINDS, key=lambda kind: _rank(results[kind]), reverse=True)
    ranks = {0: _rank(results["plain"]), 1: _rank(results[order[0]])}
    best = max(ranks, key=lambda size: (ranks[size], -size))
    for size in range(2, len(KINDS) + 1):
        if size > max(best, 1) + PATIENCE:
            break
        nested = Arm("prompted", asking_for(order[:size]))
        ranks[size] = _rank(play(world, tasks, {"nested": nested}, SEARCH_RUNS)["nested"])
        best = max(ranks, key=lambda size: (ranks[size], -size))
    arms = {
        "plain": ORIGINAL,
        "none": NONE,
        "best": Arm("prompted", asking_for(order[:best])),
        "everything": Arm("prompted", asking_for(KINDS)),
    }
    fresh = play(world, tasks, arms, CHECK_RUNS)
    gains = {name: _against(fresh["plain"], fresh[name]) for name in arms if name != "plain"}
    return {"kinds": order[:best], **gains}


def _rank(outcomes: Sequence[Sequence[Outcome]]) -> tuple[float, float]:
    """More successes first, then fewer steps."""
    return fmean(accuracy(outcomes)), -fmean(outcome.steps for row in outcomes for outcome in row)


@keep_figures("wording")
def wording(number: int) -> Figures:
    """What words alone win, with no evidence: each kind asked for sparingly, all of them, one of them demanded besides,
    and without the absolutes of the plain prompt."""
    results = play(draw_world(number), SUITE.tasks("test"), {"plain": ORIGINAL, **wordings()}, WORDING_RUNS)
    return {name: _against(results["plain"], own) for name, own in results.items() if name != "plain"}


WORDING_RUNS = (20, 21, 22)
DECIDING: Mapping[str, FactKind] = {"tokens": "secret", "signatures": "interface", "pages": "page", "sets": "result"}
"""The kinds that the plain prompt does not mention."""
MENTIONED: Mapping[str, FactKind] = {"conditions": "condition", "changes": "done", "open work": "open"}


def wordings() -> dict[str, Arm]:
    """Fixed prompts, and no compaction."""
    plain = default_template()
    softer, _ = without_absolutes(plain)
    sparing = list(SPARING.clauses.items())

    def demanding(kind: FactKind) -> Template:
        return with_clauses(
            plain, [(each, (ENTRIES if each == kind else SPARING).clauses[each]) for each, _ in sparing]
        )

    templates = {f"only {name}": with_clauses(plain, [(k, SPARING.clauses[k])]) for name, k in DECIDING.items()}
    templates |= {"sparing": with_clauses(plain, sparing), "softened": softer}
    templates["both"] = with_clauses(softer, sparing)
    templates |= {f"sparing, demand {name}": demanding(kind) for name, kind in {**DECIDING, **MENTIONED}.items()}
    return {"none": NONE, **{name: Arm("prompted", template) for name, template in templates.items()}}


@keep_figures("controls")
def controls(number: int) -> Figures:
    """The plain prompt once more with other chances (A/A), and with a clause that asks for nothing."""
    arms = {
        "plain": ORIGINAL,
        "again": replace(ORIGINAL, stream="again"),
        "placebo": Arm("prompted", with_clauses(default_template(), [("wording", PLACEBO)])),
    }
    results = play(draw_world(number), SUITE.tasks("test"), arms, OTHER_RUNS)
    return {name: _against(results["plain"], results[name]) for name in arms if name != "plain"}


@keep_figures("visible")
def visible(number: int) -> Figures:
    """Kinds of facts that a compaction lost, and how many of them an optimizer can see: in the segment alone, as in the
    second edition, and in the previous summary too. What was lost out of that summary is in no segment."""
    lost = segment = both = 0
    boundaries = play_boundaries(draw_world(number), SUITE.tasks("test"), ORIGINAL, OTHER_RUNS[0])
    for task, boundary in boundaries:
        previous, summary = (
            context.summary.text if context.summary else "" for context in (boundary.pre, boundary.post)
        )
        truth = {fact.kind for fact in lost_facts(boundary.pre, boundary.post, task.text)}
        texts = (boundary.pre.history, previous, summary, task.text)
        lost += len(truth)
        segment += len(truth & {kind for kind, *_ in suspects(*texts)})
        both += len(truth & {kind for kind, *_ in suspects(*texts, reads_previous=True)})
    return {"compactions": len(boundaries), "lost": lost, "in_segment": segment / lost, "in_both": both / lost}


@keep_figures("second-edition")
def second_edition(runs: int) -> Figures:
    """Prompts with fixed clauses on the frozen second edition, against the plain prompt on all test tasks."""
    sets: dict[str, Sequence[Kind]] = {
        "sets and pages": ("set", "page"),
        "everything": KINDS,
        "tokens, signatures, sets and pages": ("token", "signature", "set", "page"),
        "signatures": ("signature",),
    }
    arms = {"plain": ORIGINAL, "none": NONE}
    arms |= {name: Arm("prompted", asking_for(kinds)) for name, kinds in sets.items()}
    results = play(World(), SUITE.tasks("test"), arms, range(runs))
    return {name: _against(results["plain"], results[name]) for name in arms if name != "plain"}


# --- the paper's printed prompts: what they ask for, in our words


@dataclass(frozen=True)
class Printed:
    """What a prompt asks for. The paper prints its prompts; here are only the kinds of facts that they speak of."""

    demands: tuple[Kind, ...]
    forbids_tokens: bool = False
    orders: tuple[str, ...] = ()
    brevity: int = 0


PRINTED: Mapping[str, Printed] = {
    "start": Printed(("predicate", "identifier", "signature", "error"), brevity=1),
    "ACON-UT": Printed(
        tuple(kind for kind in KINDS if kind != "token"),
        forbids_tokens=True,
        orders=(
            "Before each change, double-check the data against the app.",
            "Before finishing, verify that every item was dealt with.",
        ),
        brevity=3,
    ),
    "PAIR": Printed(tuple(kind for kind in KINDS if kind != "token"), forbids_tokens=True, brevity=1),
}
"""Read from the AppWorld prompts with history-only compression. All three are checked, none is fitted."""


def printed_template(prompt: Printed) -> Template:
    template = asking_for(prompt.demands)
    lines = [("secret", "Never copy a password or token.")] if prompt.forbids_tokens else []
    lines += [("wording", order) for order in prompt.orders]
    lines += [("wording", "Keep it concise.")] * min(1, prompt.brevity)
    return with_clauses(template, lines)  # type: ignore[arg-type]


@keep_figures("printed")
def printed_prompts(number: int) -> Figures:
    """The gain over the paper's start prompt of the two prompts that the paper adapted from it."""
    arms = {name: Arm("prompted", printed_template(prompt)) for name, prompt in PRINTED.items()}
    results = play(draw_world(number), SUITE.tasks("test"), {**arms, "plain": ORIGINAL}, OTHER_RUNS)
    figures = {name: _against(results["start"], results[name]) for name in arms if name != "start"}
    return {"start_points": 100 * fmean(accuracy(results["start"])), **figures}


# --- differences between arms, and over worlds


def _against(
    plain: Sequence[Sequence[Outcome]], other: Sequence[Sequence[Outcome]], scale: float = 100.0
) -> dict[str, float]:
    """Points and steps of an arm minus the plain one, task by task, with the variance of the mean of the points."""
    points = [scale * (b - a) for a, b in zip(accuracy(plain), accuracy(other), strict=True)]
    steps = [fmean(o.steps for o in b) - fmean(o.steps for o in a) for a, b in zip(plain, other, strict=True)]
    return {"points": fmean(points), "variance": variance(points) / len(points), "steps": fmean(steps)}


def table_of(command: str, rows: Sequence[Figures]) -> Table:
    """The figures of some worlds, and of all of them together where they are differences."""
    names = [name for name in rows[0] if name != "world"]
    cells = [(row["world"], *(_cell(row[name]) for name in names)) for row in rows]
    if len(rows) > 1:
        cells.append(("over worlds", *(_over(name, rows) for name in names)))
    titles = {name: name.replace("_", " ") for name in names}
    notes = ("168 test tasks, simulated models; differences in points, steps after the stroke.",)
    return Table(f"{command}: development worlds", columns("world", *names, **titles), tuple(cells), notes)


def second_edition_table(figures: Figures, runs: int) -> Table:
    """Gains with intervals over tasks."""
    rows = []
    for name, each in figures.items():
        error = 1.96 * sqrt(each["variance"])
        interval = (each["points"] - error, each["points"] + error)
        rows.append((name, Number(each["points"], interval=interval, signed=True), Number(each["steps"], signed=True)))
    titles = {"prompt": "asks for", "gain": "gain over the plain prompt [95%]"}
    notes = (f"Second edition, 168 test tasks, {runs} runs, simulated models; intervals over tasks.",)
    return Table(
        "Fixed prompts on the second edition", columns("prompt", "gain", "steps", **titles), tuple(rows), notes
    )


def _cell(value: Any) -> Any:
    if isinstance(value, dict):
        return f"{value['points']:+.1f} / {value['steps']:+.1f}"
    return ", ".join(value) or "no clause" if isinstance(value, list) else Number(float(value), 2)


def _over(name: str, rows: Sequence[Figures]) -> Any:
    if not isinstance(rows[0][name], dict):
        return None if isinstance(rows[0][name], list) else Number(fmean(row[name] for row in rows), 2)
    estimate, _ = random_effects(*([row[name][key] for row in rows] for key in ("points", "variance")))
    steps = fmean(row[name]["steps"] for row in rows)
    return f"{estimate.value:+.1f} ({estimate.low:+.1f} to {estimate.high:+.1f}) / {steps:+.1f}"


# --- power

ADAPTATION_SD = 3.0
"""Points between adaptations of one method beyond the noise of its test runs: on the second edition PAIR's adaptations
differ by 3.6 and the unadapted prompt's runs by 1.9 (docs/benchmarks.md), so by 3.1."""
WORLD_SDS = (0.0, 2.0, 3.0)
"""Points between worlds of a method's true gain: an assumption, nobody has measured it."""


def noise(cache: Path | None, number: int) -> Figures:
    """How far two test runs of the plain prompt differ, in points, from the A/A control."""
    again = controls(cache, number)["again"]
    return {"world": number, "difference_sd": sqrt(again["variance"] * len(OTHER_RUNS))}


def power(
    noise_sd: float, worlds: int, adaptations: int, world_sd: float, gain: float = 3.0, trials: int = 4000
) -> float:
    """How often an average gain over worlds comes out above zero, by simulation of the protocol's analysis."""
    chance = Random(f"power {noise_sd} {worlds} {adaptations} {world_sd} {gain}")
    quantile = t_quantile(0.975, worlds - 1)
    sd = sqrt(world_sd**2 + (ADAPTATION_SD**2 + noise_sd**2) / adaptations)
    trials, seen = 4000, 0
    for _ in range(trials):
        means = [chance.gauss(gain, sd) for _ in range(worlds)]
        seen += fmean(means) - quantile * sqrt(variance(means) / worlds) > 0
    return seen / trials


def power_report(rows: Sequence[Figures]) -> Figures:
    noise_sd = sqrt(fmean(row["difference_sd"] ** 2 for row in rows))
    return {
        "noise": list(rows),
        "noise_sd": noise_sd,
        "power": {
            f"{world_sd:g}": {str(n): power(noise_sd, len(rows), n, world_sd) for n in range(1, 9)}
            for world_sd in WORLD_SDS
        },
    }


def power_text(rows: Sequence[Figures]) -> str:
    report = power_report(rows)
    lines = [
        f"A/A of the plain prompt: two test runs of 168 tasks differ by {report['noise_sd']:.2f} points (SD,"
        f" {len(rows)} worlds). Adaptations are taken to differ by {ADAPTATION_SD:g}.",
        "Power for +3 points on average over these worlds, by adaptations in each:",
    ]
    for world_sd, powers in report["power"].items():
        cells = "  ".join(f"{n}: {value:.2f}" for n, value in powers.items())
        lines.append(f"  SD of the gain between worlds {world_sd}:  {cells}")
    return "\n".join(lines)
