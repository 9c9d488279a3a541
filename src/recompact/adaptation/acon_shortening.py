"""ACON's second half, compression maximisation: what summaries of successful runs could do without.

An analysis of a compaction says what in its summary can be removed or shortened and what must be kept; candidates made
from analyses ask for shorter summaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from recompact.adaptation.acon_feedback import read_list
from recompact.adaptation.diagnosis import occurs
from recompact.adaptation.excerpts import Excerpt, block, segments, shown_turns, summaries, without_middle
from recompact.adaptation.optimizer import TEXT, Optimizer, ask, list_schema, object_schema
from recompact.environments.protocol import Task
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Trajectory

PROMPT = """\
An agent did its task although its history was compacted: a compressor read the segment (and the previous summary, if
there was one) and wrote the summary, and the agent went on from there, as the last block shows.

{evidence}

The summary did its work; now it should cost less. Judge by what the agent did next:
- remove: what it did without, so that it can be removed or put in fewer words; each with its kind (in a few words, what
  kind of information it is) and how to treat it
- keep: what it relied on and must stay; each with its kind, a quote from the summary, copied exactly (empty if the
  summary does not have it), and the reason

Answer with one JSON object: {{"remove": [{{"kind": …, "how": …}}, …], "keep": [{{"kind": …, "quote": …, "reason": …}},
…]}}"""

INTRODUCTION = """\
An agent works with a history that a compressor summarizes now and then. With the prompt below it does many of its
tasks, and summaries have {length:.0f} characters on average. Those of successful runs were looked at for what they
could do without; here is what was found, one JSON object a line.

<analyses>
{{entries}}
</analyses>
"""
AIM = """\
Rewrite both parts so that summaries become shorter and the runs still succeed: ask for less of what could be removed,
leave what must be kept, and be shorter yourself where you can. Add no rule that the findings do not bear out."""

SCHEMA = object_schema(
    {
        "remove": list_schema(object_schema({"kind": TEXT, "how": TEXT})),
        "keep": list_schema(object_schema({"kind": TEXT, "quote": TEXT, "reason": TEXT})),
    },
    title="analysis",
)


@dataclass(frozen=True)
class Spare:
    """What a summary can do without."""

    kind: str
    how: str


@dataclass(frozen=True)
class Needed:
    """What a summary must keep."""

    kind: str
    quote: str
    reason: str


@dataclass(frozen=True)
class Analysis:
    """What one compaction of a successful run teaches; empty where there was no usable answer."""

    name: str  # task#index
    length: int  # of the summary, in characters
    remove: tuple[Spare, ...] = ()
    keep: tuple[Needed, ...] = ()
    objections: tuple[str, ...] = ()  # why drafts were redrawn

    def reduced(self) -> dict[str, Any]:
        keep = [{"kind": one.kind, "reason": one.reason} for one in self.keep]
        return {"compaction": self.name, "remove": [asdict(one) for one in self.remove], "keep": keep}

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return {**{key: data[key] for key in ("name", "length", "remove", "keep")}, "refused": list(self.objections)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Analysis:
        remove, keep = tuple(Spare(**one) for one in data["remove"]), tuple(Needed(**one) for one in data["keep"])
        return Analysis(data["name"], data["length"], remove, keep, tuple(data["refused"]))


@dataclass(frozen=True)
class CompactionText:
    """One compaction as text, with its summary separately, since analyses quote from it."""

    name: str
    summary: str
    text: str
    cuts: int = 0
    left_out: int = 0


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
        whole = Excerpt("\n".join(blocks)).counting(previous, segment, following)
        texts.append(CompactionText(f"{task.id}#{number + 1}", summary, whole.text, whole.cuts, whole.left_out))
    return tuple(texts)


async def analyse(optimizer: Optimizer, compaction: CompactionText) -> Analysis:
    """One compaction's analysis."""

    def check(value: Any) -> Analysis:
        remove = tuple(Spare(str(one["kind"]), str(one["how"])) for one in read_list(value, "remove"))
        keep = tuple(_read_needed(one, compaction.summary) for one in read_list(value, "keep"))
        if not remove and not keep:
            raise ValueError("it names nothing to remove and nothing to keep")
        return Analysis(compaction.name, len(compaction.summary), remove, keep)

    answer = await ask(optimizer, PROMPT.format(evidence=compaction.text), SCHEMA, check)
    analysis: Analysis = answer.value or Analysis(compaction.name, len(compaction.summary))
    return replace(analysis, objections=answer.objections)


def _read_needed(entry: Any, summary: str) -> Needed:
    """A quote that is not in the summary is dropped; kind and reason still say what must be kept."""
    quote = str(entry["quote"])
    return Needed(str(entry["kind"]), quote if occurs(quote, summary) else "", str(entry["reason"]))


def introduction(analyses: Sequence[Analysis]) -> str:
    """The text before the entries, with the current length of summaries."""
    return INTRODUCTION.format(length=fmean(analysis.length for analysis in analyses))
