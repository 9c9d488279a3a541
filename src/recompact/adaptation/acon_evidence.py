"""What ACON asks an optimizer about whole trajectories: feedback on failures, analyses of successes.

Feedback compares two runs of a task, so whatever differs between them may end up in it: lost information, another plan,
or chance. An analysis of a compaction says what its summary could do without and what it must keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from recompact.adaptation.excerpts import Excerpt, block, in_segments, segments, shown_turns, summaries, without_middle
from recompact.adaptation.optimizer import TEXT, Optimizer, ask, list_schema, object_schema, prompt
from recompact.adaptation.revision import occurs
from recompact.engine.store.runs import TrajectoryRow, trajectories
from recompact.engine.store.store import Store
from recompact.environments.protocol import Task
from recompact.values.texts import all_of, quantity
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Trajectory

BASELINE = "baseline"  # the phase of the runs without compaction

CATEGORIES = (
    "missing fact",
    "distorted fact",
    "inaccurate summary",
    "lost state",
    "repeated work",
    "drift from the task",
    "wrong action",
    "ended too early",
    "went in circles",
)

DROP = 0.05
"""How much of a graded score must be lost with compaction for a task to count as a regression (ACON's value for QA)."""

FEEDBACK = prompt("acon-feedback")

_FINDING = {"category": {**TEXT, "enum": list(CATEGORIES)}, "kind": TEXT, "quote": TEXT, "explanation": TEXT}
FEEDBACK_SCHEMA = object_schema(
    {
        "divergence": TEXT,
        "timeline": list_schema(TEXT),
        "findings": list_schema(object_schema(_FINDING)),
        "wasted": list_schema(TEXT),
        "missed": list_schema(TEXT),
        "remedies": list_schema(TEXT),
        "mechanism": TEXT,
        "reliability": {"type": "number"},
    },
    title="feedback",
)


@dataclass(frozen=True)
class FeedbackTasks:
    """Which tasks give feedback: the regressions, or all failures with compaction where there is no regression."""

    tasks: tuple[str, ...]
    regressions: bool
    failed: int  # with compaction
    of: int

    @property
    def statement(self) -> str:
        of = quantity(self.of, "training task")
        if not self.tasks:
            return f"Of {of} none failed with compaction: there is nothing to learn from."
        if self.regressions:
            were = "was" if len(self.tasks) == 1 else "were"
            return f"{len(self.tasks)} of {of} {were} done without compaction and failed with it."
        return (
            "No training task was done without compaction and failed with it,"
            f" so {all_of(len(self.tasks), 'failure')} with compaction {'is' if len(self.tasks) == 1 else 'are'} used."
        )


def contrast(store: Store, step_ratio: float | None = None) -> FeedbackTasks:
    """ACON's contrastive set: done without compaction and not with it, or a graded score that fell by more than `DROP`.

    With a `step_ratio`, tasks that were done both ways but took that many times the steps belong to it too. Where there
    is no regression at all, all failures serve. A run that its environment broke says nothing about summaries.
    """
    alone = {row.task: row for row in trajectories(store, phase=BASELINE) if _counts(row)}
    rows = [row for row in trajectories(store) if _counts(row)]
    graded = any(0 < row.value < 1 for row in (*alone.values(), *rows))
    failed = [row.task for row in rows if not row.success]
    regressions = tuple(
        row.task for row in rows if row.task in alone and _is_regression(alone[row.task], row, graded, step_ratio)
    )
    return FeedbackTasks(regressions or tuple(failed), bool(regressions), len(failed), len(rows))


def _is_regression(alone: TrajectoryRow, compacted: TrajectoryRow, graded: bool, step_ratio: float | None) -> bool:
    lost = alone.value - compacted.value > DROP if graded else alone.success and not compacted.success
    slow = step_ratio is not None and alone.success and compacted.success
    return lost or (slow and compacted.steps >= (step_ratio or 0) * alone.steps)


def _counts(row: TrajectoryRow) -> bool:
    return row.ending != "environment error"


def run_pair(task: Task, alone: Trajectory, compacted: Trajectory, budget: int, count: TokenCounter) -> Excerpt:
    """Both runs of a task as one text; each may take half of the budget."""
    half = (budget - count(task.text)) // 2
    without, within = shown_turns(alone.turns, half, count), in_segments(compacted, half, count)
    text = "\n".join(
        (
            block("task", task.text, name=task.id),
            block("without-compaction", without.text, **_facts(alone)),
            block("with-compaction", within.text, **_facts(compacted), compactions=len(compacted.boundaries)),
        )
    )
    return Excerpt(text).counting(without, within)


def _facts(trajectory: Trajectory) -> dict[str, object]:
    done = "yes" if trajectory.score.success else "no"
    return {"success": done, "steps": trajectory.steps, "ending": trajectory.ending}


Remark = Mapping[str, str]
"""One thing that an answer says, in the fields of its schema."""


@dataclass(frozen=True)
class Feedback:
    """What one task teaches; without remedies where there was no usable answer."""

    task: str
    divergence: str = ""
    findings: tuple[Remark, ...] = ()  # what went wrong in the run with compaction
    remedies: tuple[str, ...] = ()
    mechanism: str = ""
    refused: tuple[str, ...] = ()  # why answers were
    timeline: tuple[str, ...] = ()
    wasted: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    reliability: float | None = None
    cuts: int = 0  # in the evidence
    left_out: int = 0

    def lesson(self) -> dict[str, Any]:
        """What a candidate is made from: remedies, waste, and what was missing, changed or wrong."""
        lapses = [{key: each[key] for key in ("category", "kind", "explanation")} for each in self.findings]
        return {"task": self.task, "findings": lapses, "wasted": list(self.wasted), "remedies": list(self.remedies)}


async def give_feedback(optimizer: Optimizer, task: str, pair: Excerpt) -> Feedback:
    """One task's feedback. A finding loses a quote that is not in the runs; the others keep theirs."""
    prompt = FEEDBACK.format(evidence=pair.text, categories=", ".join(CATEGORIES))

    def check(value: Any) -> Feedback:
        remedies = _texts(value, "remedies")
        if not remedies:
            raise ValueError("it has no remedies: give at least one")
        reliability = value.get("reliability")
        return Feedback(
            task,
            str(value["divergence"]),
            tuple(_remark(entry, tuple(_FINDING), pair.text) for entry in value["findings"]),
            remedies,
            str(value["mechanism"]),
            timeline=_texts(value, "timeline"),
            wasted=_texts(value, "wasted"),
            missed=_texts(value, "missed"),
            reliability=float(reliability) if isinstance(reliability, int | float) else None,
        )

    answer = await ask(optimizer, prompt, FEEDBACK_SCHEMA, check)
    feedback: Feedback = answer.value or Feedback(task)
    return replace(feedback, refused=answer.objections, cuts=pair.cuts, left_out=pair.left_out)


def _texts(value: Any, name: str) -> tuple[str, ...]:
    return tuple(str(one).strip() for one in read_list(value, name) if str(one).strip())


def _remark(entry: Any, keys: Sequence[str], text: str) -> Remark:
    """These fields of an entry, as texts. It loses a quote that is not in `text`, the runs or the summary."""
    if "category" in keys and entry["category"] not in CATEGORIES:
        raise ValueError(f"{entry['category']!r} is no category; choose one of {', '.join(CATEGORIES)}")
    remark = {key: str(entry[key]) for key in keys}
    return {**remark, "quote": ""} if "quote" in keys and not occurs(remark["quote"], text) else remark


def read_list(value: Any, name: str) -> list[Any]:
    """A list in an answer, not just anything that can be iterated over, such as a text."""
    entries = value[name]
    if not isinstance(entries, list):
        raise ValueError(f"{name} must be a list")
    return entries


ANALYSIS = prompt("acon-analysis")

INTRODUCTION = prompt("acon-length")
SHORTER = prompt("acon-shorter")

_REMOVE, _KEEP = ("kind", "how"), ("kind", "quote", "reason")
ANALYSIS_SCHEMA = object_schema(
    {
        key: list_schema(object_schema(dict.fromkeys(fields, TEXT)))
        for key, fields in (("remove", _REMOVE), ("keep", _KEEP))
    },
    title="analysis",
)


@dataclass(frozen=True)
class Analysis:
    """What one compaction of a successful run teaches; empty where there was no usable answer."""

    name: str  # task#index
    length: int  # of the summary, in characters
    remove: tuple[Remark, ...] = ()  # what the summary can do without
    keep: tuple[Remark, ...] = ()  # what it must keep
    refused: tuple[str, ...] = ()  # why drafts were redrawn

    def lesson(self) -> dict[str, Any]:
        keep = [{"kind": one["kind"], "reason": one["reason"]} for one in self.keep]
        return {"compaction": self.name, "remove": list(self.remove), "keep": keep}


@dataclass(frozen=True)
class CompactionText:
    """One compaction as text, with its summary separately, since analyses quote from it."""

    name: str
    summary: str
    text: str


def compactions(task: Task, trajectory: Trajectory, budget: int, count: TokenCounter) -> tuple[CompactionText, ...]:
    """The compactions of a trajectory, each with what the agent did next."""
    written, parts = summaries(trajectory), segments(trajectory)
    texts = []
    for number, summary in enumerate(written):
        previous = without_middle(written[number - 1], budget // 4, count) if number else Excerpt("")
        blocks = [block("task", task.text, name=task.id)]
        if previous.text:
            blocks.append(block("previous-summary", previous.text))
        room = max(0, budget - count(task.text) - count(previous.text) - count(summary)) // 2
        segment, following = (shown_turns(parts[at], room, count) for at in (number, number + 1))
        blocks.append(block("segment", segment.text))
        blocks.append(block("summary", summary))
        blocks.append(block("what-came-next", following.text))
        texts.append(CompactionText(f"{task.id}#{number + 1}", summary, "\n".join(blocks)))
    return tuple(texts)


async def analyse(optimizer: Optimizer, compaction: CompactionText) -> Analysis:
    """One compaction's analysis."""

    def check(value: Any) -> Analysis:
        remove = tuple(_remark(one, _REMOVE, compaction.summary) for one in read_list(value, "remove"))
        keep = tuple(_remark(one, _KEEP, compaction.summary) for one in read_list(value, "keep"))
        if not remove and not keep:
            raise ValueError("it names nothing to remove and nothing to keep")
        return Analysis(compaction.name, len(compaction.summary), remove, keep)

    answer = await ask(optimizer, ANALYSIS.format(evidence=compaction.text), ANALYSIS_SCHEMA, check)
    analysis: Analysis = answer.value or Analysis(compaction.name, len(compaction.summary))
    return replace(analysis, refused=answer.objections)


def length_introduction(analyses: Sequence[Analysis]) -> str:
    """The text before the entries, with the current length of summaries."""
    return INTRODUCTION.format(length=fmean(analysis.length for analysis in analyses))
