"""The words for verdicts, the same on the terminal, in the report and in the viewer: a label, a symbol and a meaning
for each kind, and the sentence that counts them all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from recompact.engine.store.verdicts import Kind, Reason, Verdict
from recompact.values.texts import quantity


@dataclass(frozen=True)
class Entry:
    """One kind of verdict as people are shown it."""

    symbol: str
    label: str
    meaning: str


LEGEND: Mapping[Kind, Entry] = {
    "harmful": Entry("◆", "harmful", "reached a threshold, and still did after all its draws"),
    "suspected": Entry("◇", "looks harmful", "reaches a threshold, but on too few draws to be kept"),
    "harmless": Entry("○", "not harmful", "reaches no threshold"),
    "helped": Entry("△", "helped", "the agent succeeded more often with the summary"),
    "open": Entry("·", "no verdict", "left out, or draws are missing"),
}

REASONS: Mapping[Reason, str] = {
    "retained": "It reached a threshold, still did after all its draws, and was retained.",
    "stopped early": "It reaches a threshold, but the allocation stopped giving it draws before it had enough to be"
    " retained.",
    "not by the rule": "It reaches a threshold by all its draws, but was not retained by the rule of the allocation.",
    "harmful so far": "It reaches a threshold so far, but the verification is not finished.",
    "not harmful": "It reaches no threshold.",
    "helped": "The agent succeeded more often with the summary, so it is not harmful, whatever the steps.",
    "left out": "It was left out",
    "no draws": "There is no verdict: an arm has no draw.",
    "unfinished": "There is no verdict yet: the verification is not finished.",
}


def entry_of(verdict: Verdict) -> Entry:
    return LEGEND[verdict.kind]


def why(verdict: Verdict) -> str:
    """Why a boundary is judged as it is, in one sentence."""
    words = REASONS[verdict.reason]
    return f"{words}: {verdict.left_out.rstrip('.')}." if verdict.left_out else words


def legend_text(kinds: Collection[Kind] = tuple(LEGEND)) -> str:
    """What the symbols of these kinds mean, on one line."""
    return "; ".join(
        f"{LEGEND[kind].symbol} {LEGEND[kind].label}: {LEGEND[kind].meaning}" for kind in LEGEND if kind in kinds
    )


def headline(kinds: Mapping[Kind, int], settled: bool = True) -> str:
    """All verdicts of a run in one sentence.

    >>> headline({"harmful": 2, "suspected": 4})
    '6 of 6 compactions look harmful; 2 of them have enough draws to diagnose.'
    >>> headline({"harmless": 20, "helped": 1, "open": 3})
    'None of 24 compactions look harmful; 20 are not harmful, 1 helped, 3 have no verdict.'
    >>> headline({"suspected": 1, "open": 4}, settled=False)
    'The verification is not finished: 1 of 5 compactions looks harmful so far.'
    """
    number = {kind: kinds.get(kind, 0) for kind in LEGEND}
    total, looks = sum(number.values()), number["harmful"] + number["suspected"]
    first = f"{f'{looks:,}' if looks else 'none'} of {quantity(total, 'compaction')} look{'s' * (looks == 1)} harmful"
    if not settled:
        return f"The verification is not finished: {first} so far."
    parts = [f"{first[0].upper()}{first[1:]}{_diagnosis_words(number['harmful'], looks)}"]
    others = [
        f"{number['harmless']:,} {'is' if number['harmless'] == 1 else 'are'} not harmful" * bool(number["harmless"]),
        f"{number['helped']:,} helped" * bool(number["helped"]),
        f"{number['open']:,} {'has' if number['open'] == 1 else 'have'} no verdict" * bool(number["open"]),
    ]
    parts += [", ".join(filter(None, others))] if any(others) else []
    return f"{'; '.join(parts)}."


def _diagnosis_words(harmful: int, looks: int) -> str:
    if not looks:
        return ""
    if harmful == looks:
        return f", {'all ' * (looks > 1)}with enough draws to diagnose"
    if looks == 1:
        return ", with too few draws to diagnose"
    return f"; {harmful or 'none'} of them {'has' if harmful == 1 else 'have'} enough draws to diagnose"
