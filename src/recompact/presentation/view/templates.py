"""The templates of a run as a view: what adaptation changed, section by section, and what selection saw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.calls import count_calls
from recompact.engine.store.store import Store
from recompact.presentation.report.content.report import prompt_changes
from recompact.presentation.report.content.runs import evaluated_run
from recompact.presentation.view.runs import Page, Parameters, RunLine
from recompact.values.texts import command_line


def templates_page(harnesses: Sequence[str], store: Store, line: RunLine, parameters: Parameters) -> Page:
    """Original against adapted, and the candidates of each method; templates can be exported to `harnesses`."""
    adapted, units = read_adaptations(store) if not line.evaluation else (), {}
    if line.evaluation:
        report = evaluated_run(store, line.place.name, False)
        arms = [(arm.label, arm.settings.get("directory")) for arm in report.evaluation.arms]
        places = [(label, where) for label, where in arms if isinstance(where, str) and where]
        changes = prompt_changes(None, [(report.evaluation, report.templates)], [])
    else:
        places = [(each.winner.name, each.path) for each in adapted if each.winner and each.path]
        asking = [unit for unit in sorted(store.finished("candidate")) if count_calls(store, unit)]
        changes = prompt_changes(None, [], list(adapted))
        units = {unit.rsplit("/", 1)[-1].partition("~")[0]: unit for unit in asking}  # by the candidate's name
    exports = [
        (name, where, [(each, command_line("export", where, options=["--to", each])) for each in harnesses])
        for name, where in places
    ]
    missing_places = {where for _, where in places if not Path(where).is_dir()}
    page = {"changes": changes, "adaptations": adapted, "exports": exports, "gone": missing_places, "units": units}
    return "templates.html.jinja", page
