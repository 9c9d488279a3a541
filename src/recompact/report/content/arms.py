"""The arms of an evaluation for a reader who has never seen them: what each of them is, what the columns mean, and what
to be careful about.

Comes in: evaluations and their tables. Goes out: sentences, and tables that do not say them again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from recompact.evaluation.arms import PROMPTING, built_in_arms
from recompact.evaluation.intervals import none_of
from recompact.evaluation.summary import SIMULATED, Evaluation, notes
from recompact.tables import Table

SCOPES = {
    "history": "history, what came after the fixed messages at the beginning",
    "prefix": "prefix, those as well",
}


def cautions(shown: Evaluation) -> tuple[str, ...]:
    """What to be careful about: the notes of the evaluation but for the first, which says what it is."""
    return tuple(text for text in notes(shown)[1:] if text != SIMULATED)


def without(table: Table, elsewhere: Collection[str]) -> Table:
    """A table without the notes that stand elsewhere on the page."""
    return replace(table, notes=tuple(note for note in table.notes if note not in (*elsewhere, SIMULATED)))


def legend(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """Arms, scopes and columns in words, as far as they are there."""
    arms = [arm for shown in evaluations for arm in shown.arms]
    bases = {arm.base for arm in arms}
    kinds = ["none, not at all"] if any(none_of(shown) for shown in evaluations) else []
    kinds += ["fifo, by dropping the oldest turns"] if "fifo" in bases else []
    kinds += ["prompting, by a summary that is written with the original prompt"] if PROMPTING in bases else []
    if kinds and bases - set(built_in_arms()):
        kinds.append("any other, with a prompt of its own")
    said = [f"An arm is a way to compact the history: {'; '.join(kinds)}."] if kinds else []
    scopes = [SCOPES[scope] for scope in SCOPES if any(arm.scope == scope for arm in arms)]
    said += [f"The scope is what the compressor gets to see: {'; '.join(scopes)}."] if scopes else []
    meant = "Acc is the share of runs that succeed"
    if any(shown.shared.runs > 1 for shown in evaluations):
        meant += ", Pass^k that of tasks which succeed in all of k runs, Pass@k in at least one of them"
    return (*said, f"{meant}. Steps and compactions are means per task and run, Peak is the agent's largest input.")
