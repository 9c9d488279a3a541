"""The templates of a run as a view: what adaptation changed, section by section, and what selection saw."""

from __future__ import annotations

from dataclasses import dataclass

from recompact.report.changes import PromptChange
from recompact.report.content.adaptation import Adaptation, adaptations
from recompact.report.content.prompts import prompt_changes
from recompact.report.content.runs import evaluated_run
from recompact.store.store import Store
from recompact.view.runs import RunLine


@dataclass(frozen=True)
class TemplatesPage:
    """Original against adapted, and the candidates of each method."""

    line: RunLine
    changes: tuple[PromptChange, ...]
    adaptations: tuple[Adaptation, ...]


def templates_page(store: Store, line: RunLine) -> TemplatesPage:
    """What a run says about templates."""
    if line.evaluation:
        report = evaluated_run(store, line.place.name, False)
        return TemplatesPage(line, prompt_changes(None, [(report.evaluation, report.templates)], []), ())
    adapted = adaptations(store)
    return TemplatesPage(line, prompt_changes(None, [], list(adapted)), adapted)
