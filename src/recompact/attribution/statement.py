"""What a verification may claim, in one wording for terminal, report, viewer and JSON: retained is not harmful.

Each kind of verdict has a label, a symbol and a meaning, and one sentence counts them all. Some boundaries are retained
by chance, so three numbers are kept apart: how many were retained and by which rule, how many reach a threshold by
their estimates, and how many are probably harmful. Where there are fresh summaries, harm that the prompt tends to do is
distinguished from harm that one summary did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recompact.attribution.chained import without_chaining
from recompact.attribution.judgement import Verification, priors_of
from recompact.attribution.posterior import probability_none
from recompact.attribution.records import copied_arms, further_outcomes, outcomes_in, settings_of
from recompact.attribution.registry import allocation_of, describe_allocation
from recompact.engine.config import VerifyConfig
from recompact.engine.store.records import NONE_FAILED, FailedCompactions
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Kind, Reason, Verdict
from recompact.values.outcome import Effect, Outcomes
from recompact.values.stats import Estimate, mean_of, newcombe, probable_count, wilson
from recompact.values.texts import quantity


@dataclass(frozen=True)
class FalseRetention:
    """The A/A control of an allocation: of boundaries whose arms are both PRE, the share that it retains by chance."""

    allocation: str
    boundaries: int
    rate: Estimate


@dataclass(frozen=True)
class TwoHazards:
    """The mean H at some boundaries, of two kinds: of the summary that the run recorded, and of the prompt, with a
    fresh summary for each POST draw."""

    boundaries: int
    summary: Estimate
    prompt: Estimate
    confirmed: bool  # whether it rests on fresh pairs, and not on the draws that retained the boundaries
    same: int  # boundaries at which every fresh summary has the same words

    def sentences(self) -> Iterator[str]:
        mean = "" if self.boundaries == 1 else "on average "
        yield (
            f"At {quantity(self.boundaries, 'boundary')} with fresh summaries, H is {mean}{_hazard(self.summary)} for"
            f" the summary that was recorded, and {_hazard(self.prompt)} for the prompt, which wrote a fresh summary"
            " for each POST draw."
        )
        if not self.confirmed:
            yield (
                "Both compare with the PRE draws that retained the boundaries, and tend to be too large, the first more"
                " so; fresh pairs (verify --confirm N) are free of that."
            )
        if self.same:
            yield (
                f"At {quantity(self.same, 'boundary')} every fresh summary has the same words, so the second number,"
                " too, is about one summary."
            )


@dataclass(frozen=True)
class Statement:
    """The numbers behind the sentences. `control` is there where the run has an A/A control."""

    settings: VerifyConfig
    settled: bool
    kinds: Mapping[Kind, int]  # how many verdicts there are of each
    boundaries: int
    examined: int  # with draws in both arms
    left_out: int
    retained: int
    by_estimate: int
    probably_harmful: Estimate  # of the retained ones: their expected number, with its interval
    confirmed: int | None  # of the retained ones with fresh pairs: how many reach a threshold by those alone
    confirmable: int
    copies: int  # boundaries whose draws in an arm are copies
    two_hazards: TwoHazards | None = None  # where there are fresh summaries
    control: FalseRetention | None = None
    none_harmful: float = 0.0  # the probability that the run has no harmful compaction at all
    most_draws: int = 0  # that an arm of an examined boundary has
    failed: FailedCompactions = NONE_FAILED  # compactions that would have been boundaries

    @property
    def draws_of_rule(self) -> int | None:
        """How many draws of each arm decide; None where all do."""
        return describe_allocation(self.settings).deciding_draws

    @property
    def rests_on_more(self) -> bool:
        """Whether the run has draws that had no part in retaining anything, but are in the effects that are shown."""
        return self.draws_of_rule is not None and self.most_draws > self.draws_of_rule

    @property
    def rule(self) -> str:
        """The rule by which a boundary is retained."""
        allocation = describe_allocation(self.settings)
        return f"{allocation.rule(self.most_draws)}, {allocation.name}"

    @property
    def after_control(self) -> Estimate | None:
        """The number retained, less as many as the A/A control would retain by chance.

        Chance is in both, so the interval is that of a difference. At least none remain, and at most those retained.
        """
        if self.control is None or not self.examined:
            return None
        rest = newcombe(wilson(self.retained / self.examined, self.examined), self.control.rate)
        number = [min(max(0.0, share * self.examined), self.retained) for share in (rest.value, rest.low, rest.high)]
        return Estimate(*number)

    def sentences(self) -> tuple[str, ...]:
        """What may be said, the most important first."""
        if not self.examined:
            return (self._nothing(), *self._failures()) if self.boundaries else (self._nothing(),)
        sentences = [headline(self.kinds, self.settled)]
        if self.settled:
            sentences.append(
                f"{self.retained:,} of {quantity(self.examined, 'boundary')} {_were(self.retained)} retained"
                f" ({self.rule})."
            )
        if self.rests_on_more:
            sentences.append(f"All effects shown rest on up to {self.most_draws:,} draws of an arm.")
        if self.retained:
            sentences.append(self._probable())
        if self.retained > self.confirmable:
            sentences.append(self._selection_caveat())
        if (corrected := self.after_control) is not None and self.control is not None:
            sentences.append(
                f"With both arms from PRE (A/A), {self.control.rate.value:.1%} of"
                f" {quantity(self.control.boundaries, 'boundary')} are retained by chance; without that number,"
                f" {corrected.value:.1f} {'remains' if f'{corrected.value:.1f}' == '1.0' else 'remain'}"
                f" (95 % interval {corrected.low:.1f} to {corrected.high:.1f})."
            )
        if self.confirmed is not None:
            sentences.append(
                f"Of {quantity(self.confirmable, 'retained boundary')} with fresh pairs, {self.confirmed:,}"
                f" {'reaches' if self.confirmed == 1 else 'reach'} a threshold by those alone; the effects shown for"
                f" {'it' if self.confirmable == 1 else 'them'} are of the fresh pairs."
            )
        if self.two_hazards is not None:
            sentences += self.two_hazards.sentences()
        if self.copies:
            sentences.append(
                f"At {quantity(self.copies, 'boundary')} the draws of an arm are copies of each other (temperature 0):"
                " they count as one draw, and the intervals are as wide as one draw makes them."
            )
        if self.left_out:
            sentences.append(
                f"{quantity(self.left_out, 'boundary')} {_were(self.left_out)} left out: no verdict is possible there."
            )
        return (*sentences, *self._failures())

    def _probable(self) -> str:
        count = self.probably_harmful
        but = "" if self.confirmed is None else " but the fresh pairs"
        none = self.none_harmful
        doubt = f"; with a probability of {none:.2g} the run has no harmful compaction at all" if none >= 0.005 else ""
        return (
            f"Retained does not mean harmful: of the {self.retained:,}, {count.value:.1f} are expected to be harmful"
            f" (95 % interval {count.low:.0f} to {count.high:.0f}), by P(harmful) after all draws{but}{doubt}."
        )

    def _selection_caveat(self) -> str:
        number = self.retained - self.confirmable
        return (
            f"The effects shown for {quantity(number, 'retained boundary')} rest on the draws that retained"
            f" {'it' if number == 1 else 'them'}: they tend to be too large, and their 95 % intervals hold less often"
            " than that. verify --confirm N estimates them from fresh pairs."
        )

    def _failures(self) -> tuple[str, ...]:
        return (f"{self.failed.words}.",) if self.failed.number else ()

    def _nothing(self) -> str:
        if not self.boundaries:
            if self.failed.number:
                return f"There is nothing to verify, since {self.failed.nothing_compacted}."
            return "Nothing was compacted, so there is nothing to verify."
        if self.left_out == self.boundaries:
            return f"None of {quantity(self.boundaries, 'boundary')} could be verified; all were left out."
        return f"None of {quantity(self.boundaries, 'boundary')} has draws in both arms yet."

    def to_json(self) -> dict[str, Any]:
        corrected = self.after_control
        return {
            "settled": self.settled,
            "verdicts": {kind: self.kinds.get(kind, 0) for kind in LEGEND},
            "rule": self.rule,
            "boundaries": self.boundaries,
            "examined": self.examined,
            "left_out": self.left_out,
            "retained": self.retained,
            "by_estimate": self.by_estimate,
            "most_draws": self.most_draws,
            "probably_harmful": asdict(self.probably_harmful),
            "none_harmful": self.none_harmful,
            "after_control": corrected and asdict(corrected),
            "control": self.control and asdict(self.control),
            "confirmed": self.confirmed,
            "confirmable": self.confirmable,
            "copies": self.copies,
            "failed_compactions": asdict(self.failed),
            "two_hazards": self.two_hazards and asdict(self.two_hazards),
            "sentences": list(self.sentences()),
        }


def statement_of(verification: Verification, control: FalseRetention | None = None) -> Statement:
    """What the verdicts of a run may claim, corrected by its A/A control where it has one (`control_of`)."""
    examined = [f for f in verification.verdicts if f.effect is not None and not f.left_out]
    retained = [f for f in examined if f.retained]
    confirmed = [f.confirmed for f in retained if f.confirmed is not None]
    none = probability_none({f.id: f.outcomes for f in examined}, verification.settings.thresholds) if retained else 0.0
    return Statement(
        settings=verification.settings,
        settled=verification.settled,
        kinds=verification.kinds,
        boundaries=len(verification.verdicts),
        examined=len(examined),
        left_out=sum(bool(f.left_out) for f in verification.verdicts),
        retained=len(retained),
        by_estimate=sum(f.effect is not None and f.effect.selected for f in examined),
        probably_harmful=probable_count((f.effect.p_harmful for f in retained if f.effect is not None), none=none),
        none_harmful=none,
        confirmed=sum(effect.selected for effect in confirmed) if confirmed else None,
        confirmable=len(confirmed),
        copies=sum(f.copies for f in examined),
        two_hazards=two_hazards(examined),
        control=control,
        failed=verification.failed,
        most_draws=max((max(f.effect.pre, f.effect.post) for f in examined if f.effect is not None), default=0),
    )


def two_hazards(verdicts: Sequence[Verdict]) -> TwoHazards | None:
    """The hazard of the recorded summaries beside that of the prompt, at the boundaries that have fresh summaries."""
    both = [(f, effect, f.resampled) for f in verdicts if (effect := f.reported_effect) is not None and f.resampled]
    if not both:
        return None
    return TwoHazards(
        boundaries=len(both),
        summary=_mean_hazard([recorded for _, recorded, _ in both]),
        prompt=_mean_hazard([fresh for _, _, fresh in both]),
        confirmed=all(f.confirmed is not None for f, _, _ in both),
        same=sum(f.wordings == 1 and (fresh.post > 1 or f.copied_summaries) for f, _, fresh in both),
    )


def _mean_hazard(effects: Sequence[Effect]) -> Estimate:
    mean = mean_of([each.hazard_estimate for each in effects], [each.hazard_variance for each in effects])
    return Estimate(mean.value, max(-1.0, mean.low), min(1.0, mean.high))


def control_of(store: Store, settings: VerifyConfig | None = None) -> FalseRetention | None:
    """The A/A control that a run has (`recompact verify RUN --control aa`), if it is complete."""
    draws = further_outcomes(store, "control")
    if not draws:
        return None
    outcomes = {id: draws.get(id, Outcomes()) for id in outcomes_in(store).outcomes}
    if not outcomes:  # all have been left out since
        return None
    settings = settings or settings_of(store)
    allocation = without_chaining(allocation_of(store, settings))
    if allocation.due(outcomes):
        return None
    # The control is judged by the rule of the verification, which may have a prior in it.
    priors = priors_of(store, settings) if allocation.by_probability else None
    rate = len(allocation.retained(outcomes, copied_arms(store, "control"), priors)) / len(outcomes)
    return FalseRetention(allocation.name, len(outcomes), wilson(rate, len(outcomes)))


def _hazard(estimate: Estimate) -> str:
    return f"{estimate.value:+.2f} (95 % interval {estimate.low:+.2f} to {estimate.high:+.2f})"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


@dataclass(frozen=True)
class Entry:
    """One kind of verdict as people are shown it."""

    symbol: str
    label: str
    meaning: str


LEGEND: Mapping[Kind, Entry] = {
    "harmful": Entry("◆", "harmful", "reached a threshold, and still did after all its draws"),
    "suspected": Entry("◇", "looks harmful", "reaches a threshold, but on too few draws to be retained"),
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
