"""How a report was made: the run files with their models, settings and versions, and the commands behind the numbers.

Comes in: a run, or the path of released records. Goes out: facts as pairs of words, the commands that print the numbers
of the page, and those that answer what the page does not.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recompact.attribution.findings import Findings
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.metrics import group_keys
from recompact.evaluation.summary import Evaluation, counted
from recompact.report.content.harm import rule_of
from recompact.report.content.next_steps import Next
from recompact.store.runs import overview
from recompact.store.store import Store


@dataclass(frozen=True)
class Made:
    """One run: its name as a command takes it, what it is, its facts, and what can be asked of it."""

    name: str
    kind: str
    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]  # which print numbers of the page
    more: tuple[Next, ...] = ()  # what the page does not say


def evaluation_made(store: Store, name: str, shown: Evaluation) -> Made:
    arms = "; ".join(_arm(arm) for arm in shown.arms)
    facts = (*_common(store), ("Tasks", _tasks(shown)), ("Arms", arms), *_spent(store))
    more = [Next("What the agent does after a compaction, arm by arm:", _command("behaviour", name))]
    if len(shown.arms) > 1:
        two = shown.arms[-1].label, shown.arms[0].label
        more.append(Next("Two arms in every metric:", _command("compare", name, *two)))
    groups = [word for key in group_keys(shown.arms) for word in ("--by", key)]
    return Made(name, "an evaluation", facts, (_command("compare", name, "--details", *groups),), tuple(more))


def released_made(name: str, shown: Evaluation) -> Made:
    facts = (("Tasks", _tasks(shown)), ("Arms", "; ".join(arm.label for arm in shown.arms)))
    return Made(name, "released run records", facts, (_command("compare", name),))


def verified_made(store: Store, name: str, found: Findings, worst: str, *, adapted: bool) -> Made:
    """`worst` is the boundary that is shown first; `adapted`: the run holds candidates too."""
    settings = found.settings
    facts = (*_common(store), ("Compressor", overview(store).compressor), ("Allocation", settings.allocation))
    facts = (*facts, ("Harmful", rule_of(settings)), *_spent(store))
    commands = [_command("boundaries", name)] + [_command("boundary", name, worst)] * bool(worst)
    asked = _command("replay", name, worst, "--template", "NAME=DIRECTORY")
    more = [Next("Whether the harm is gone with another template:", asked)] * bool(worst)
    kind = "a verified and adapted run" if adapted else "a verified run"
    return Made(name, kind, facts, tuple(commands), tuple(more))


def adapted_made(store: Store, name: str) -> Made:
    facts = (*_common(store), ("Compressor", overview(store).compressor), *_spent(store))
    return Made(name, "an adapted run", facts, (_command("show", name),))


def _common(store: Store) -> tuple[tuple[str, str], ...]:
    """What every run of ours knows of itself; a fact that is missing is left out."""
    identity = store.metadata.identity
    suite, run = identity.get("suite", {}), identity.get("run", {})
    template = str(identity.get("template", ""))[:16]
    split = f"{suite.get('use', '?')}, split {suite.get('split', '?')}"
    limit = f", the first {suite['limit']} tasks" if suite.get("limit") else ""
    facts = (
        ("Suite", f"{split}{limit}"),
        ("Models", "; ".join(_models(store, identity))),
        ("Seed", str(run.get("seed", ""))),
        ("Step limit", str(run.get("step_limit", ""))),
        ("Tokens counted by", str(run.get("counter", ""))),
        ("Template", f"{template} (hash)" if template else ""),
        ("Recompact", store.metadata.version),
    )
    return tuple((name, value) for name, value in facts if value)


def _models(store: Store, identity: Mapping[str, Any]) -> list[str]:
    settings = identity.get("models", {})
    found = []
    for model, role in sorted(store.spent(), key=lambda entry: (entry[1], entry[0])):
        id = settings.get(model, {}).get("id", model)
        found.append(f"{role} {model}" + (f" ({id})" if id != model else ""))
    return found


def _spent(store: Store) -> tuple[tuple[str, str], ...]:
    tokens = overview(store).tokens
    shown = ", ".join(f"{role} {count:,}" for role, count in tokens.items())
    return (("Tokens spent", shown),) if shown else ()


def _arm(arm: ArmRuns) -> str:
    budget = arm.settings.get("budget")
    return f"{arm.label} (budget {budget:,})" if isinstance(budget, int) else arm.label


def _tasks(shown: Evaluation) -> str:
    return f"{counted(len(shown.shared.tasks), 'task')}, {counted(shown.shared.runs, 'run')} of each arm"


def _command(name: str, *arguments: str) -> str:
    return shlex.join(["recompact", name, *arguments])
