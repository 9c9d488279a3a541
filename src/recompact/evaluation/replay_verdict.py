"""The verdict on a replay, as in the paper: is the harm of a boundary gone with another template, or what is missing?

It compares the effects of the original summary, of the control's summaries and of the template's, each against PRE, and
how many of the needed facts the summaries keep.
"""

from __future__ import annotations

from dataclasses import dataclass

from recompact.values.outcome import Channel, Effect

CHANNELS: dict[Channel, frozenset[str]] = {
    "error": frozenset({"error"}),
    "burden": frozenset({"burden"}),
    "both": frozenset({"error", "burden"}),
    "none": frozenset(),
}


@dataclass(frozen=True)
class Facts:
    """How many of the needed facts a draw's summary keeps, on average: with the control, and with the template."""

    needed: int
    control: float
    template: float


@dataclass(frozen=True)
class ReplayVerdict:
    """The verdict on one template. A condition is None where it could not be judged."""

    template: str
    closed: bool
    recurs: bool | None  # the defect recurs when the same history is compressed with the original template
    gone: bool | None  # with this template neither channel reaches its threshold
    shown: bool | None  # its summaries keep more of the needed facts than the control's
    words: str


def verdict(
    name: str,
    original: Effect | None,
    control: Effect | None,
    template: Effect | None,
    facts: Facts | None,
    *,
    hopeless: bool = False,
) -> ReplayVerdict:
    """Closed if the defect recurs with the control, is gone with the template, and the template's summaries show why.

    `original` is None where the recorded summary was never continued: then any channel of the control is the defect.
    Without needed facts (`facts` is None) the third condition is not judged, and the words say so. `hopeless` says that
    PRE never succeeds.
    """
    if control is None or template is None:
        lacking = "the control" if control is None else name
        words = f"not judged: {lacking} has no draw to compare with PRE."
        return ReplayVerdict(name, False, None, None, None, words)
    doubt = " No PRE draw succeeds, so a loss of success cannot show here." if hopeless else ""
    shown = None if facts is None else facts.template > facts.control
    gone = template.channel == "none"
    if original is not None and original.channel == "none":
        words = f"not closed: there is no defect here, the original summary stays below both ({_figures(original)})."
        return ReplayVerdict(name, False, None, gone, shown, f"{words}{doubt}")
    defect = CHANNELS[original.channel] if original is not None else CHANNELS["both"]
    recurs = bool(CHANNELS[control.channel] & defect)
    closed = recurs and gone and shown is not False
    objections = [] if recurs else [_not_recurring(original, control)]
    objections += [] if gone else [f"the harm is still there with {name} ({_figures(template)})"]
    objections += [] if facts is None or shown else [_not_shown(name, facts)]
    words = _closure(name, control, template, facts) if closed else f"not closed: {'; '.join(objections)}."
    if facts is None:
        words += " Whether the summaries show the change is not judged: PRE used no fact that the original dropped."
    return ReplayVerdict(name, closed, recurs, gone, shown, f"{words}{doubt}")


def _closure(name: str, control: Effect, template: Effect, facts: Facts | None) -> str:
    recurring = f"the defect recurs with the control ({_figures(control)})"
    words = f"closed: {recurring} and is gone with {name} ({_figures(template)})"
    if facts is None:
        return f"{words}."
    kept = f"{facts.template:.1f} of {facts.needed} needed facts instead of {facts.control:.1f}"
    return f"{words}, whose summaries keep {kept}."


def _not_recurring(original: Effect | None, control: Effect) -> str:
    if original is None:
        return f"no harm shows with the control ({_figures(control)}), and the recorded summary was never continued"
    if control.channel == "none":
        return (
            f"the defect did not recur with the control ({_figures(control)}):"
            " the summary was an unlucky sample of the prompt"
        )
    return (
        f"with the control another defect appeared, not the same one ({_figures(control)}, channel {control.channel})"
    )


def _not_shown(name: str, facts: Facts) -> str:
    kept = f"{facts.template:.1f} of {facts.needed}, the control's {facts.control:.1f}"
    return f"the summaries of {name} keep no more of the needed facts than the control's ({kept})"


def _figures(effect: Effect) -> str:
    return f"H {effect.hazard:+.2f}, B {effect.burden:+.1f}"
