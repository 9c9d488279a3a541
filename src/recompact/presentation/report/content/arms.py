"""The arms of an evaluation explained: what each of them is, what the columns mean, and what to be careful about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from recompact.evaluation.arms import PROMPTING, built_in_arms
from recompact.evaluation.summary import SIMULATED, Evaluation, notes
from recompact.values.tables import Table

KINDS = {
    "fifo": "fifo, by dropping the oldest turns",
    PROMPTING: "prompting, by a summary that is written with the original prompt",
}
SCOPES = {
    "history": "history, what came after the fixed messages at the beginning",
    "prefix": "prefix, those as well",
}


def cautions(evaluation: Evaluation) -> tuple[str, ...]:
    """What to be careful about: the notes of the evaluation except the first, which says what it is."""
    return tuple(text for text in notes(evaluation)[1:] if text != SIMULATED)


def without_notes(table: Table, elsewhere: Collection[str]) -> Table:
    """A table without the notes that are elsewhere on the page."""
    return replace(table, notes=tuple(note for note in table.notes if note not in (*elsewhere, SIMULATED)))


def legend(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """Arms, scopes and columns in words, as far as they occur."""
    arms = [arm for evaluation in evaluations for arm in evaluation.arms]
    bases = {arm.base for arm in arms}
    kinds = ["none, not at all"] if any(evaluation.none for evaluation in evaluations) else []
    kinds += [words for name, words in KINDS.items() if name in bases]
    if kinds and bases - set(built_in_arms()):
        kinds.append("any other, with a prompt of its own")
    lines = [f"An arm is a way to compact the history: {'; '.join(kinds)}."] if kinds else []
    scopes = [words for scope, words in SCOPES.items() if any(arm.scope == scope for arm in arms)]
    lines += [f"The scope is what the compressor gets to see: {'; '.join(scopes)}."] if scopes else []
    accuracy = "Acc is the share of runs that succeed"
    if any(evaluation.shared.runs > 1 for evaluation in evaluations):
        accuracy += ", Pass^k that of tasks which succeed in all of k runs, Pass@k in at least one of them"
    return (*lines, f"{accuracy}. Steps and compactions are means per task and run, Peak is the agent's largest input.")
