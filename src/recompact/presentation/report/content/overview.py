"""Runs, trajectories and boundaries at a glance: as tables, and as lines with their compactions on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from recompact.attribution.judgement import Verification
from recompact.attribution.means import counts, unequal_note
from recompact.attribution.registry import describe_allocation
from recompact.attribution.statement import entry_of
from recompact.engine.store.runs import Overview, TrajectoryRow
from recompact.engine.store.verdicts import Kind, Verdict, effect_numbers
from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.values.outcome import BoundaryId, Effect
from recompact.values.tables import Column, Number, Row, Table, columns, format_signed
from recompact.values.texts import quantity
from recompact.values.trajectory import why_none_succeeded


def overview_table(runs: Sequence[Overview]) -> Table:
    """Runs with means over their trajectories. Simulated ones are marked."""
    titles = ("trajectories", "success, %", "steps", "compactions", "peak, k", "tokens, M")
    heads = (Column("run", "run", fold=True), Column("settings", "suite, compressor", fold=True))
    return Table("", (*heads, *columns(*titles)), tuple(map(_overview_row, runs)), overview_notes(runs))


def overview_notes(runs: Sequence[Overview]) -> tuple[str, ...]:
    """What belongs below a table of runs: the mark of simulated ones, and what runs continue without."""
    notes = ["* simulated models"] if any(run.simulated for run in runs) else []
    for run in runs:
        notes += [f"{run.name} skips {', '.join(run.skipped)}"] if run.skipped else []
        notes += [f"{run.name}: {why_none_succeeded(run.endings)}"] if run.trajectories and not run.success else []
        notes += [f"{run.name}: {quantity(run.set_aside, 'unit')} set aside"] if run.set_aside else []
        if run.suite_changes:
            changes = quantity(run.suite_changes, "change")
            notes.append(f"{run.name} mixes results from before and after {changes} of its suite (--accept-changes)")
    return tuple(notes)


def _overview_row(run: Overview) -> Row:
    n = run.trajectories
    totals = ((100 * run.success, 1), (run.steps, 1), (run.compactions, 1), (run.peak * n / 1000, 2))
    means = (Number(total / n, digits) if n else None for total, digits in totals)
    tokens = Number(sum(run.tokens.values()) / 1e6, 2)
    return run.name + "*" * run.simulated, f"{run.suite}, {run.compressor}", n, *means, tokens


def trajectory_table(rows: Sequence[TrajectoryRow]) -> Table:
    """One row for each collected trajectory."""
    heads = columns("outcome", "steps", "compactions", "peak", "tokens", "ending")
    return Table("", (Column("task", "task", fold=True), *heads), tuple(map(_trajectory_row, rows)))


def _trajectory_row(row: TrajectoryRow) -> Row:
    tokens = sum(usage.total for usage in row.usage.values())
    ending = row.ending + (f", {quantity(row.incidents, 'incident')}" if row.incidents else "")
    return row.task, outcome(row.success), row.steps, row.compactions, row.peak, tokens, ending


def outcome(success: bool) -> str:
    return "success" if success else "failure"


def arm_progress_table(arms: Sequence[ArmRuns]) -> Table:
    """What the arms of an evaluation are and how far each has got."""
    titles = ("arm", "compresses", "trajectories", "success, %", "steps", "compactions")
    return Table("", columns(*titles), tuple((arm.label, _compresses(arm), *_means(arm)) for arm in arms))


def _compresses(arm: ArmRuns) -> str:
    budget, template = arm.settings["budget"], arm.settings["template"]
    words = (
        arm.settings["kind"],
        f"{budget:,} tokens" if budget else "",
        f"template {template[:8]}" if template else "",
    )
    return ", ".join(filter(None, words))


def _means(arm: ArmRuns) -> Row:
    if not arm.rows:
        return 0, None, None, None
    success, steps, compactions = (
        fmean(values) for values in zip(*((r.success, r.steps, r.compactions) for r in arm.rows), strict=True)
    )
    return len(arm.rows), Number(100 * success), Number(steps), Number(compactions, 2)


def task_table(arms: Sequence[ArmRuns]) -> Table:
    """A row for each task, a column for each arm: which runs succeeded, and in how many steps."""
    by_arm = [arm.by_task() for arm in arms]
    rows = tuple(
        (task, *(_runs_text(arm.runs, runs.get(task, {})) for arm, runs in zip(arms, by_arm, strict=True)))
        for task in sorted({task for runs in by_arm for task in runs})
    )
    note = "Runs in order: + success, - failure, . not finished; mean steps; compactions in all runs after /."
    return Table("", columns("task", *(arm.label for arm in arms)), rows, (note,))


def _runs_text(count: int, runs: dict[int, TaskRun]) -> str:
    marks = "".join("." if n not in runs else "+" if runs[n].success else "-" for n in range(count))
    if not runs:
        return marks
    compactions = sum(run.compactions or 0 for run in runs.values())
    return f"{marks} {fmean(run.steps for run in runs.values()):.0f}" + (f"/{compactions}" if compactions else "")


def run_table(task: str, runs: Sequence[tuple[ArmRuns, TaskRun]]) -> Table:
    """The trajectories of one task in an evaluation, one to a row."""
    heads = columns("arm", "run", "outcome", "steps", "compactions", "peak", "ending")
    rows = tuple(
        (arm.label, run.run + 1, outcome(run.success), run.steps, run.compactions, run.peak, run.ending)
        for arm, run in runs
    )
    return Table(task, heads, rows)


BOUNDARY_COLUMNS = (
    Column("boundary", "boundary", fold=True),
    *columns("step", "H", "H_interval", "B", "B_interval", "draws", "channel", H_interval="95 %", B_interval="95 %"),
)
LISTED = 300  # boundaries in the list of a page


def counts_table(
    verification: Verification, success: Mapping[str, bool], endings: Mapping[str, int] | None = None
) -> Table:
    """The paper's counts, for all trajectories, the failed and the successful ones; `success` is by unit. With
    `endings`, a note says how they ended if none succeeded."""
    effects = {f.id: f.effect for f in verification.verdicts if f.effect is not None}
    limits = verification.settings.thresholds
    heads = columns(
        *("group", "trajectories", "boundaries", "reduced", "severe_hazard", "longer", "severe_burden", "harmful"),
        "trajectories_with_harmful",
        group="outcome",
        reduced="H > 0",
        severe_hazard=f"H ≥ {limits.hazard:g}",
        longer="B > 0",
        severe_burden=f"B ≥ {limits.burden:g}",
        harmful="either",
        trajectories_with_harmful="trajectories with either",
    )
    rows = tuple(tuple(getattr(row, column.key) for column in heads) for row in counts(effects, success, limits))
    notes = ["By the estimates of all draws; an allocation that gives some boundaries fewer draws can retain fewer."]
    if endings and not any(success.values()):
        notes.insert(0, why_none_succeeded(endings))
    if unequal := unequal_note(effects.values()):
        notes.append(unequal)
    if helped := sum(e.helped and e.burden >= limits.burden for e in effects.values()):
        notes.append(f"Not under “either”, since the compaction clearly helped: {helped:,} with B ≥ {limits.burden:g}.")
    return Table("Boundaries by the outcome of their trajectories", heads, rows, tuple(notes))


def boundary_table(verification: Verification) -> Table:
    """Every boundary with an effect, most harmful first, for a page."""
    known = verification.examined
    rows = tuple(
        (
            *_boundary_row(f),
            Number(f.effect.p_harmful, 2) if f.effect else None,
            entry_of(f).label,
        )
        for f in known[:LISTED]
    )
    notes = [f"The first {LISTED:,} of {len(known):,}."] * (len(known) > LISTED)
    notes.append("Draws are PRE + POST.")
    if any(f.confirmed for f in known[:LISTED]):
        notes.append("H, B and draws of a boundary that has fresh pairs are of those alone, its P(harmful) is not.")
    meaning = "P(harmful) is the probability, after the draws of the verification, that H or B reaches its threshold."
    if describe_allocation(verification.settings).by_probability:
        notes.append(f"{meaning} The verdict goes by it.")
    else:
        notes.append(
            f"{meaning} The verdict goes by the estimates, so with few draws a boundary can count as harmful although"
            " P(harmful) is low."
        )
    heads = (*BOUNDARY_COLUMNS, *columns("P(harmful)", "verdict"))
    return Table("All boundaries, most harmful first", heads, rows, tuple(notes))


def brief_boundary_table(boundaries: Sequence[Verdict]) -> Table:
    """Boundaries in 80 columns, including those without draws, each with the symbol of its verdict."""
    rows = (_boundary_row(verdict, brief=True) for verdict in boundaries)
    marked = ((f"{row[0]} {entry_of(f).symbol}", *row[1:]) for row, f in zip(rows, boundaries, strict=True))
    return Table("", BOUNDARY_COLUMNS, tuple(marked))


def _boundary_row(verdict: Verdict, *, brief: bool = False) -> Row:
    """A brief row has one digit less in its intervals."""
    effect, outcomes = verdict.reported_effect, verdict.outcomes
    if effect is None:
        draws = f"{len(outcomes.pre)}+{len(outcomes.post)}"
        return str(verdict.id), verdict.row.step, None, "", None, "", draws, "left out" if verdict.left_out else None
    h, b = effect.hazard_estimate, effect.burden_estimate
    return (
        str(verdict.id),
        verdict.row.step,
        Number(effect.hazard, 2, signed=True),
        _interval(h.low, h.high, 1 if brief else 2, brief),
        Number(effect.burden, 1, signed=True),
        _interval(b.low, b.high, 0 if brief else 1, brief),
        f"{effect.pre}+{effect.post}",
        effect.channel if effect.channel != "none" else None,
    )


def _interval(low: float, high: float, digits: int, brief: bool) -> str:
    text = f"{format_signed(low, digits)} to {format_signed(high, digits)}"
    return text.replace("−", "-") if brief else text  # a terminal's numbers have a hyphen


def exact_boundary_table(verification: Verification) -> Table:
    """Every boundary with all its numbers, for programs; there is at least one. H and B are those of the verification;
    what fresh pairs say comes last."""
    rows = [{"boundary": str(f.id), **f.flat(), **_confirmation(f.confirmed)} for f in verification.verdicts]
    cells = tuple(tuple(Number(v) if isinstance(v, float) else v for v in row.values()) for row in rows)
    return Table("boundary-effects", columns(*rows[0]), cells)


def _confirmation(effect: Effect | None) -> dict[str, Any]:
    """The effect of fresh pairs alone, for a row of numbers."""
    return {
        **effect_numbers(effect, "confirmed_"),
        "confirmed_pre_draws": effect and effect.pre,
        "confirmed_post_draws": effect and effect.post,
    }


TRACKS = 8  # trajectories at most, so that the picture fits on the first screen of a report


@dataclass(frozen=True)
class Mark:
    """One compaction on the line of its trajectory: after which step, its verdict, and both in words."""

    id: BoundaryId
    step: int
    kind: Kind
    title: str


@dataclass(frozen=True)
class Track:
    """One trajectory: its length, how it ended, and its compactions in order."""

    task: str
    steps: int
    success: bool
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Timeline:
    """The trajectories of the first boundaries by harm; `hidden` counts those that are not shown."""

    tracks: tuple[Track, ...]
    hidden: int

    @property
    def longest(self) -> int:
        return max(track.steps for track in self.tracks)


def timeline(verification: Verification) -> Timeline | None:
    """None where nothing was compacted."""
    by_unit: dict[str, list[Verdict]] = {}
    for verdict in verification.verdicts:
        by_unit.setdefault(verdict.id.unit, []).append(verdict)
    tracks = []
    for verdicts in list(by_unit.values())[:TRACKS]:
        row = verdicts[0].row
        marks = marks_of(sorted(verdicts, key=lambda verdict: verdict.row.step))
        tracks.append(Track(row.task, row.trajectory_steps, row.trajectory_success, marks))
    return Timeline(tuple(tracks), len(by_unit) - len(tracks)) if tracks else None


def marks_of(verdicts: Iterable[Verdict]) -> tuple[Mark, ...]:
    """Verdicts as marks, in the same order."""
    return tuple(Mark(each.id, each.row.step, each.kind, _title(each)) for each in verdicts)


def _title(verdict: Verdict) -> str:
    """Where the compaction was, the verdict, and its numbers."""
    effect, words = verdict.effect, f"{verdict.id}, after step {verdict.row.step}: {entry_of(verdict).label}"
    if effect is None:
        return words
    return f"{words}, H {format_signed(effect.hazard, 2)}, B {format_signed(effect.burden, 1)}"
