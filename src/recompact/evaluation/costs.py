"""What arms cost where a server keeps a prompt cache: read, written and put out, and what a compaction cost and saved.

Where the server reported what it had cached, that counts; otherwise what was the same in the agent's call before does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.evaluation.evaluate import unit_of
from recompact.evaluation.summary import Evaluation
from recompact.values.chat import Usage
from recompact.values.receipt import PRICES, CompactionBill, cost, cost_of_summary, same_beginning
from recompact.values.stats import Estimate, bootstrap
from recompact.values.tables import Cell, Number, Table, estimate_cell, tabulate

# --- one trajectory


@dataclass(frozen=True)
class Compactions:
    """The compactions of one trajectory: how many, their sizes before and after together, and which share of all that
    the agent read was as in its call before, so that a server's cache has it."""

    number: int
    before: int
    after: int
    cached: float
    bills: tuple[CompactionBill, ...] = ()  # without what the summaries cost
    following: tuple[int, ...] = ()  # the agent's calls after each, up to the next one or the end


def compactions_of(store: Store, unit: str) -> Compactions:
    """From the record of a trajectory, by our own counter."""
    document = store.result(unit)
    boundaries = {each["step"]: each for key in document["boundaries"] for each in [store.document(bytes.fromhex(key))]}
    sizes, kept, size = [], [], 0
    for step, turn in enumerate(document["turns"]):
        boundary = boundaries.get(step)
        if boundary is not None:
            size = context_size(boundary["post"])
        kept.append(size if boundary is None else common_size(boundary["pre"], boundary["post"]))
        sizes.append(size)
        size += turn[2]
    fixed = document["peak"] - max(sizes, default=0)  # system prompt, tools and task, which every call has
    read = sum(fixed + (last if step not in boundaries else kept[step]) for step, last in enumerate(sizes[:-1], 1))
    total = sum(fixed + each for each in sizes)
    return Compactions(
        len(boundaries),
        sum(context_size(each["pre"]) for each in boundaries.values()),
        sum(context_size(each["post"]) for each in boundaries.values()),
        read / total if total else 0.0,
        tuple(_bill(each["pre"], each["post"]) for each in boundaries.values()),
        tuple(after - before for before, after in pairwise([*boundaries, len(sizes)])),
    )


def _bill(pre: Mapping[str, Any], post: Mapping[str, Any]) -> CompactionBill:
    before, after, common = context_size(pre), context_size(post), common_size(pre, post)
    return CompactionBill(common, after - common, before - after)


def context_size(context: Mapping[str, Any]) -> int:
    """The size of a recorded context."""
    summary, pinned = context["summary"], context.get("pinned", ())
    sizes = (*((summary[1],) if summary else ()), *(pin[1] for pin in pinned), *(turn[2] for turn in context["turns"]))
    return sum(map(int, sizes))


def common_size(pre: Mapping[str, Any], post: Mapping[str, Any]) -> int:
    """Of two recorded contexts, how much is the same from the beginning on: all that a cache still has."""

    def parts(context: Mapping[str, Any]) -> Iterator[tuple[Any, int]]:
        yield context["summary"], (context["summary"] or (0, 0))[1]
        yield from ((("pin", pin), pin[1]) for pin in context.get("pinned", ()))
        yield from ((("turn", turn), turn[2]) for turn in context["turns"])

    return same_beginning(parts(pre), parts(post))


# --- an arm


@dataclass(frozen=True)
class ArmCosts:
    """What an arm cost. Tokens are means per task; `bill` is the mean compaction's, `paid` the share of compactions
    after which the agent made as many calls as it takes to pay."""

    arm: str
    read: float
    written: float
    output: float
    summaries: float  # what the compressor cost, in tokens of uncached input
    cost: Estimate
    reported: bool  # whether the server said what it had cached
    compactions: int
    before: int
    after: int
    bill: CompactionBill | None
    paid: float | None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bill": self.bill.to_json() if self.bill else None}


def arm_costs(store: Store, evaluation: Evaluation, arm: ArmRuns) -> ArmCosts:
    """What an arm cost in the tasks that all arms have finished."""
    rows = [
        (row, compactions_of(store, unit_of(arm.settings["key"], row.task, row.run)))
        for row in arm.on(evaluation.shared)
    ]
    shares = [_cached_share(row, compactions) for row, compactions in rows]
    spent = [cost(row.usage, share) for (row, _), share in zip(rows, shares, strict=True)]
    runs = evaluation.shared.runs
    [estimate] = bootstrap([[fmean(spent[n : n + runs]) for n in range(0, len(spent), runs)]])
    agents = [row.usage.get("agent", Usage()) for row, _ in rows]
    bills = [pair for row, compactions in rows for pair in _full_bills(row, compactions)]
    number = len(bills)
    mean = (
        CompactionBill(
            round(fmean(bill.read for bill, _ in bills)),
            round(fmean(bill.written for bill, _ in bills)),
            round(fmean(bill.saved for bill, _ in bills)),
            fmean(bill.summary for bill, _ in bills),
        )
        if bills
        else None
    )
    return ArmCosts(
        arm.label,
        fmean(share * agent.input for agent, share in zip(agents, shares, strict=True)),
        fmean((1 - share) * agent.input for agent, share in zip(agents, shares, strict=True)),
        fmean(agent.output for agent in agents),
        fmean(cost_of_summary(row.usage.get("compressor", Usage())) for row, _ in rows),
        estimate,
        all(_is_reported(row) for row, _ in rows),
        number,
        sum(compactions.before for _, compactions in rows),
        sum(compactions.after for _, compactions in rows),
        mean,
        sum(bill.payback is not None and calls >= bill.payback for bill, calls in bills) / number if number else None,
    )


def _is_reported(row: TaskRun) -> bool:
    agent = row.usage.get("agent", Usage())
    return 0 < agent.input <= agent.cache_reported


def _cached_share(row: TaskRun, compactions: Compactions) -> float:
    share = row.usage["agent"].cached_share if _is_reported(row) else None
    return compactions.cached if share is None else share


def _full_bills(row: TaskRun, compactions: Compactions) -> Iterator[tuple[CompactionBill, int]]:
    """Each compaction's bill with its share of what the trajectory's summaries cost, and the calls after it."""
    each = cost_of_summary(row.usage.get("compressor", Usage())) / compactions.number if compactions.number else 0.0
    for bill, calls in zip(compactions.bills, compactions.following, strict=True):
        yield CompactionBill(bill.read, bill.written, bill.saved, each), calls


def costs_of(store: Store, evaluation: Evaluation) -> tuple[ArmCosts, ...]:
    """What each arm cost; none where no task has been finished by all, or trajectories are not on record."""
    if not evaluation.shared.tasks or not all("key" in arm.settings for arm in evaluation.arms):
        return ()
    return tuple(arm_costs(store, evaluation, arm) for arm in evaluation.arms)


def cost_table(costs: Sequence[ArmCosts]) -> Table:
    """Arms by what they cost; empty where nobody counted tokens."""
    source = (
        "What was read from the cache is what the server reported"
        if all(each.reported for each in costs)
        else "What was the same in the agent's call before counts as read from the cache, the rest as written to it"
    )
    notes = (
        f"Thousand tokens per task. {source}. Cost and summaries: {PRICES}.",
        "A compaction costs its summary and what the next call writes instead of reading; each later call reads so much"
        " less, so it pays after that many calls. Paid: compactions after which the agent made that many calls.",
    )
    cells: dict[str, tuple[str, Callable[[ArmCosts], Cell]]] = {
        "arm": ("arm", lambda each: each.arm),
        "read": ("read", lambda each: Number(each.read / 1000)),
        "written": ("written", lambda each: Number(each.written / 1000)),
        "output": ("output", lambda each: Number(each.output / 1000)),
        "summaries": ("summaries", lambda each: Number(each.summaries / 1000)),
        "cost": ("Cost", lambda each: estimate_cell(each.cost, 1, scale=1 / 1000)),
        "each": ("a compaction", lambda each: Number(each.bill.cost / 1000, 2) if each.bill else None),
        "saved": ("saves a call", lambda each: Number(each.bill.saved / 1000, 2) if each.bill else None),
        "payback": ("pays after", lambda each: each.bill.payback if each.bill else None),
        "paid": ("paid, %", lambda each: None if each.paid is None else Number(100 * each.paid, 0)),
    }
    return tabulate("Cost with a prompt cache", [each for each in costs if each.cost.value], cells, notes)
