"""Where a report comes from: runs with their models, settings and versions, and the commands behind the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recompact.attribution.cached_input import cache_text, cached_input
from recompact.attribution.judgement import Verification
from recompact.engine.store.runs import overview
from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.metrics import group_keys
from recompact.evaluation.summary import Evaluation
from recompact.presentation.report.content.harm import rule_of
from recompact.presentation.report.content.next_steps import NextStep
from recompact.values.texts import command_line, quantity


@dataclass(frozen=True)
class Provenance:
    """One run: its name as a command takes it, what it is, its facts, and the commands that say more about it."""

    name: str
    kind: str
    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]  # that print numbers of the page
    more: tuple[NextStep, ...] = ()  # what the page does not say
    suite_changes: tuple[str, ...] = ()  # that the run continued with: a sentence each


def evaluation_provenance(store: Store, name: str, evaluation: Evaluation) -> Provenance:
    arms = "; ".join(_arm(arm) for arm in evaluation.arms)
    facts = (*_common(store), ("Tasks", _tasks(evaluation)), ("Arms", arms), *_spending(store))
    more = [NextStep("What the agent does after a compaction, arm by arm:", command_line("show", name, "--behaviour"))]
    if len(evaluation.arms) > 1:
        two = evaluation.arms[-1].label, evaluation.arms[0].label
        more.append(NextStep("Two arms in every metric:", command_line("compare", name, *two)))
    groups = [word for key in group_keys(evaluation.arms) for word in ("--by", key)]
    commands = (command_line("compare", name, "--details", *groups),)
    return Provenance(name, "an evaluation", facts, commands, tuple(more), suite_changes(store))


def released_provenance(name: str, evaluation: Evaluation) -> Provenance:
    facts = (("Tasks", _tasks(evaluation)), ("Arms", "; ".join(arm.label for arm in evaluation.arms)))
    return Provenance(name, "released run records", facts, (command_line("compare", name),))


def verified_provenance(
    store: Store, name: str, verification: Verification, worst: str, *, adapted: bool
) -> Provenance:
    """`worst` is the boundary that is shown first; `adapted`: the run holds candidates too."""
    settings = verification.settings
    facts = (*_common(store), ("Compressor", overview(store).compressor), ("Allocation", settings.allocation))
    facts = (*facts, ("Harmful", rule_of(settings)), *_spending(store))
    commands = [command_line("boundaries", name)] + [command_line("boundary", name, worst)] * bool(worst)
    replay = command_line("replay", name, worst, "--template", "NAME=DIRECTORY")
    more = [NextStep("Whether the harm is gone with another template:", replay)] * bool(worst)
    kind = "a verified and adapted run" if adapted else "a verified run"
    return Provenance(name, kind, facts, tuple(commands), tuple(more), suite_changes(store))


def adapted_provenance(store: Store, name: str) -> Provenance:
    facts = (*_common(store), ("Compressor", overview(store).compressor), *_spending(store))
    commands = (command_line("show", name),)
    return Provenance(name, "an adapted run", facts, commands, suite_changes=suite_changes(store))


def suite_changes(store: Store) -> tuple[str, ...]:
    """What changed in the suite while the run was under way, and was accepted: its numbers mix both."""
    return tuple(
        f"The suite changed after {quantity(change['finished'], 'unit')} of work ({', '.join(change['changed'])}), and"
        " the run went on with --accept-changes: its numbers mix what came before and after."
        for change in store.metadata.suite_changes
    )


def _common(store: Store) -> tuple[tuple[str, str], ...]:
    """What each of our runs records about itself; missing facts are left out."""
    identity: Mapping[str, Any] = store.metadata.identity
    suite, run = identity.get("suite", {}), identity.get("run", {})
    template = str(identity.get("template", ""))[:16]
    split = f"{suite.get('use', '?')}, split {suite.get('split', '?')}"
    limit = f", the first {quantity(suite['limit'], 'task')}" if suite.get("limit") else ""
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
    models = []
    for model, role in sorted(store.spent(), key=lambda entry: (entry[1], entry[0])):
        id = settings.get(model, {}).get("id", model)
        models.append(f"{role} {model}" + (f" ({id})" if id != model else ""))
    return models


def _spending(store: Store) -> tuple[tuple[str, str], ...]:
    run = overview(store)
    spent = ", ".join(f"{role} {count:,}" for role, count in run.tokens.items())
    if not spent:
        return ()
    facts = (("Tokens spent", spent),)
    return facts if run.simulated else (*facts, ("Cached input", cache_text(cached_input(store))))


def _arm(arm: ArmRuns) -> str:
    budget = arm.settings.get("budget")
    return f"{arm.label} (budget {budget:,})" if isinstance(budget, int) else arm.label


def _tasks(evaluation: Evaluation) -> str:
    return f"{quantity(len(evaluation.shared.tasks), 'task')}, {quantity(evaluation.shared.runs, 'run')} of each arm"
