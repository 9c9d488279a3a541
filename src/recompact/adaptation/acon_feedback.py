"""ACON's evidence: tasks that were done without compaction and not with it, and an optimizer's feedback on each.

Unlike a diagnosis of one boundary, feedback is about whole trajectories, so whatever differs between two runs may end
up in it: lost information, another plan, or chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from recompact.adaptation.acon_texts import block, in_segments, shown_turns
from recompact.adaptation.diagnosis import occurs
from recompact.adaptation.lock import instances_in
from recompact.adaptation.optimizer import Optimizer, ask
from recompact.environments.protocol import Task
from recompact.store.runs import TrajectoryRow, trajectories
from recompact.store.store import Store
from recompact.tokens import TokenCounter
from recompact.trajectory import Trajectory

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

PROMPT = """\
The same agent worked twice on the same task. Once it kept its whole history. The other time its history was compacted
now and then: a compressor wrote a summary, and from there on the agent saw that summary instead of all segments before
it. Both runs are below, as far as they fit.

{evidence}

Compare them. Find the first point at which the run with compaction leaves the way that the other one took, and what
made it do so: a fact that no summary carried on, a fact that a summary changed, state that got lost, work that was done
again, an instruction that was forgotten, a wrong call, an early end. Stay with what the runs show.
- divergence: where the two runs part, in one or two sentences
- findings: what went wrong, each with its category (one of {categories}), its kind (in a few words, what kind of
  information it concerns), a quote that shows it, copied exactly from above (empty if nothing of it stands there), and
  an explanation in one sentence
- remedies: what the compression prompt should ask for so that such a run succeeds, one sentence each
- mechanism: how the run with compaction came to its end, in one sentence

Answer with one JSON object: {{"divergence": …, "findings": [{{"category": …, "kind": …, "quote": …, "explanation": …}},
…], "remedies": […], "mechanism": …}}"""

_TEXT = {"type": "string"}
SCHEMA = {
    "title": "feedback",
    "type": "object",
    "properties": {
        "divergence": _TEXT,
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "category": {"type": "string", "enum": list(CATEGORIES)},
                    "kind": _TEXT,
                    "quote": _TEXT,
                    "explanation": _TEXT,
                },
                "required": ["category", "kind", "quote", "explanation"],
                "additionalProperties": False,
            },
        },
        "remedies": {"type": "array", "items": _TEXT},
        "mechanism": _TEXT,
    },
    "required": ["divergence", "findings", "remedies", "mechanism"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Contrast:
    """Which tasks give feedback: the regressions, or all failures with compaction where there is no regression."""

    tasks: tuple[str, ...]
    regressions: bool
    failed: int  # with compaction
    of: int

    @property
    def statement(self) -> str:
        if not self.tasks:
            return f"None of {self.of} training tasks failed with compaction: there is nothing to learn from."
        if self.regressions:
            return f"{len(self.tasks)} of {self.of} training tasks were done without compaction and failed with it."
        return (
            "No training task was done without compaction and failed with it,"
            f" so all {len(self.tasks)} failures with compaction are used."
        )


def contrast(store: Store) -> Contrast:
    """The contrastive set of a run. A run that its environment broke says nothing about summaries."""
    alone = {row.task: row.success for row in trajectories(store, phase=BASELINE) if _counts(row)}
    rows = [row for row in trajectories(store) if _counts(row)]
    failed = [row.task for row in rows if not row.success and row.compactions]
    regressions = tuple(task for task in failed if alone.get(task))
    return Contrast(regressions or tuple(failed), bool(regressions), len(failed), len(rows))


def _counts(row: TrajectoryRow) -> bool:
    return row.ending != "environment error"


@dataclass(frozen=True)
class RunPair:
    """The two runs of a task as one text, and what in it belongs to that task only."""

    task: str
    text: str
    tokens: int
    instances: frozenset[str]


def run_pair(task: Task, alone: Trajectory, compacted: Trajectory, budget: int, count: TokenCounter) -> RunPair:
    """Both runs of a task; each may take half of the budget."""
    half = (budget - count(task.text)) // 2
    text = "\n".join(
        (
            block("task", task.text, name=task.id),
            block("without-compaction", shown_turns(alone.turns, half, count), **_facts(alone)),
            block(
                "with-compaction",
                in_segments(compacted, half, count),
                **_facts(compacted),
                compactions=len(compacted.boundaries),
            ),
        )
    )
    return RunPair(task.id, text, count(text), instances_in((text,)))


def _facts(trajectory: Trajectory) -> dict[str, object]:
    done = "yes" if trajectory.score.success else "no"
    return {"success": done, "steps": trajectory.steps, "ending": trajectory.ending}


@dataclass(frozen=True)
class Lapse:
    """One thing that went wrong in a run with compaction."""

    category: str
    kind: str
    quote: str
    explanation: str


@dataclass(frozen=True)
class Feedback:
    """What one task teaches; without remedies where no usable answer could be had."""

    task: str
    divergence: str = ""
    lapses: tuple[Lapse, ...] = ()
    remedies: tuple[str, ...] = ()
    mechanism: str = ""
    objections: tuple[str, ...] = ()  # why drafts were redrawn

    def reduced(self) -> dict[str, Any]:
        """What a candidate is made from: remedies, and what was missing, changed or wrong."""
        lapses = [{"category": x.category, "kind": x.kind, "explanation": x.explanation} for x in self.lapses]
        return {"task": self.task, "findings": lapses, "remedies": list(self.remedies)}

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "divergence": self.divergence,
            "findings": [asdict(lapse) for lapse in self.lapses],
            "remedies": list(self.remedies),
            "mechanism": self.mechanism,
            "refused": list(self.objections),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Feedback:
        lapses = tuple(Lapse(**lapse) for lapse in data["findings"])
        remedies, objections = tuple(data["remedies"]), tuple(data["refused"])
        return Feedback(data["task"], data["divergence"], lapses, remedies, data["mechanism"], objections)


async def give_feedback(optimizer: Optimizer, pair: RunPair) -> Feedback:
    """One task's feedback."""
    prompt = PROMPT.format(evidence=pair.text, categories=", ".join(CATEGORIES))

    def check(value: Any) -> Feedback:
        lapses = tuple(_lapse(entry, pair.text) for entry in value["findings"])
        remedies = tuple(str(r).strip() for r in listed(value, "remedies") if str(r).strip())
        if not remedies:
            raise ValueError("it has no remedies: give at least one")
        return Feedback(pair.task, str(value["divergence"]), lapses, remedies, str(value["mechanism"]))

    answer = await ask(optimizer, prompt, SCHEMA, check)
    feedback: Feedback = answer.value or Feedback(pair.task)
    return replace(feedback, objections=answer.objections)


def _lapse(entry: Any, text: str) -> Lapse:
    if entry["category"] not in CATEGORIES:
        raise ValueError(f"{entry['category']!r} is no category; choose one of {', '.join(CATEGORIES)}")
    quote = str(entry["quote"])
    if not occurs(quote, text):
        raise ValueError(f"the runs do not contain the quote {quote[:80]!r}")
    return Lapse(entry["category"], str(entry["kind"]), quote, str(entry["explanation"]))


def listed(value: Any, name: str) -> list[Any]:
    """A list in an answer, and nothing that merely can be gone through, such as a text."""
    entries = value[name]
    if not isinstance(entries, list):
        raise ValueError(f"{name} must be a list")
    return entries
