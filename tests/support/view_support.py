"""What the tests of the viewer share: runs with their calls, with a diagnosis that cites lines, and with a plan."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from report_support import add_boundary

from recompact.adaptation.evidence import EvidenceText, describe_boundary
from recompact.adaptation.optimizer import SYSTEM
from recompact.adaptation.revision import DIAGNOSIS, FORM, MECHANISMS, Diagnosis, Finding
from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.continuations import continuation_unit
from recompact.engine.store.plan import StagePlan
from recompact.engine.store.records import read_boundary
from recompact.engine.store.store import Store
from recompact.models.journal import UnitCalls
from recompact.values.chat import Reply, Request, ToolSpec, Usage, assistant, canonical, system, user
from recompact.values.outcome import BoundaryId


class Says:
    """A model that always gives the same answer."""

    name = "says"

    def __init__(self, text: str) -> None:
        self.text = text

    async def reply(self, request: Request) -> Reply:
        return Reply(assistant(self.text), Usage(100, 10, 0, 0, 1), model="says-1")


def ask(store: Store, unit: str, requests: Sequence[tuple[str, Request]], answer: str = "Done.") -> None:
    """Journal these requests as the calls of a unit."""
    calls = UnitCalls(store, unit, store.metadata.seed)

    async def play() -> None:
        for role, request in requests:
            await calls.bound(Says(answer), role).reply(request)

    asyncio.run(play())


def add_case(store: Store, text: str) -> tuple[BoundaryId, EvidenceText]:
    """A task as in `add_boundary`, with the calls behind it and a diagnosis that cites lines; `text` is everywhere."""
    add_boundary(store, text)
    task = f"task {text}".replace("\ud800", "")
    id = BoundaryId(f"collect/{task}", 1)
    boundary = read_boundary(store, BoundaryId(id.unit, 1))
    tools = (ToolSpec("look", f"Looks. {text}"),)
    turns, prefix = boundary.pre.turns, boundary.pre.prefix
    steps = [Request((*prefix, *(m for turn in turns[:n] for m in turn.messages)), tools) for n in range(len(turns))]
    summary = Request((system("Summarize."), user(boundary.pre.before_last().history)))
    ask(store, id.unit, [*(("agent", step) for step in steps), ("compressor", summary)], f"reply {text}")
    ask(store, continuation_unit(task, 1, "PRE", 0), [("agent", Request(boundary.pre.messages, tools))], text)
    evidence = describe_boundary(boundary_view(store, id), f"Do it. {text}", "history", 20_000, lambda t: len(t) // 4)
    unit = f"diagnose/{id}~2"
    prompt = DIAGNOSIS.format(evidence=evidence.text, mechanisms=", ".join(MECHANISMS), labels=FORM)
    ask(store, unit, [("optimizer", Request((system(SYSTEM), user(prompt))))], f"finding {text}")
    lines = ("S2", "N2", "C1.1", "Z9", text)
    cause = Finding("omitted state", f"kind {text}", f"said {text}", f"seen {text}", f"because {text}", lines=lines)
    with store.transaction():
        store.finish(unit, "diagnosis", canonical(Diagnosis(id, "both", (cause,)).to_json()), 0.0)
    return id, evidence


def note_plan(store: Store, stage: str = "collect", total: int | None = 90, done: int = 0, **changes: object) -> None:
    """A plan that began a minute ago, when the run had as many units as it has now less those that are new."""
    units = len(store.finished())
    values = {**asdict(StagePlan(stage, total, done, units, time.time() - 60)), **changes}
    store.set_metadata(replace(store.metadata, planned=values))
