"""The templates of a run as a view: what adaptation changed, section by section, and what selection saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recompact.engine.store.adaptations import AdaptationRecord, read_adaptations
from recompact.engine.store.calls import count_calls
from recompact.engine.store.store import Store
from recompact.presentation.report.changes import PromptChange
from recompact.presentation.report.content.prompts import prompt_changes
from recompact.presentation.report.content.runs import evaluated_run
from recompact.presentation.view.runs import RunLine
from recompact.values.texts import command_line


@dataclass(frozen=True)
class Export:
    """A template that is in a directory, and the command that makes each harness use it."""

    name: str
    directory: str
    there: bool  # still exists
    commands: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TemplatesPage:
    """Original against adapted, and the candidates of each method."""

    line: RunLine
    changes: tuple[PromptChange, ...]
    adaptations: tuple[AdaptationRecord, ...]
    exports: tuple[Export, ...]
    units: Mapping[str, str]  # that asked for each candidate, by its name


def templates_page(store: Store, line: RunLine, harnesses: Sequence[str]) -> TemplatesPage:
    """What a run says about templates."""
    if line.evaluation:
        report = evaluated_run(store, line.place.name, False)
        arms = [(arm.label, arm.settings.get("directory")) for arm in report.evaluation.arms]
        exports = _exports([(label, where) for label, where in arms if isinstance(where, str) and where], harnesses)
        return TemplatesPage(line, prompt_changes(None, [(report.evaluation, report.templates)], []), (), exports, {})
    adapted = read_adaptations(store)
    places = [(each.winner.name, each.path) for each in adapted if each.winner and each.path]
    asking = [unit for unit in sorted(store.finished("candidate")) if count_calls(store, unit)]
    units = {unit.rsplit("/", 1)[-1].partition("~")[0]: unit for unit in asking}
    changes = prompt_changes(None, [], list(adapted))
    return TemplatesPage(line, changes, adapted, _exports(places, harnesses), units)


def _exports(places: Sequence[tuple[str, str]], harnesses: Sequence[str]) -> tuple[Export, ...]:
    return tuple(
        Export(
            name,
            where,
            Path(where).is_dir(),
            tuple((each, command_line("export", where, "--to", each)) for each in harnesses),
        )
        for name, where in places
    )
