"""How many compactions did harm: what was examined, by which rule, and in which way."""

from __future__ import annotations

from dataclasses import dataclass

from recompact.attribution.false_retention import FalseRetention
from recompact.attribution.judgement import Verification
from recompact.attribution.registry import describe_allocation
from recompact.attribution.statement import Statement, statement_of
from recompact.engine.config import VerifyConfig
from recompact.presentation.report.content.answer import Claim
from recompact.values.texts import quantity


@dataclass(frozen=True)
class Harm:
    """How many compactions of a run were examined, how many of them are harmful, by channel, and how many look it."""

    examined: int
    harmful: int
    suspected: int  # look harmful, but were not retained
    error: int
    burden: int
    both: int
    neither: int  # retained by the allocation's own judgement, with estimates below both thresholds
    trajectories: int
    compacted: int  # trajectories with a boundary that was examined
    without_verdict: int
    settled: bool
    settings: VerifyConfig
    statement: Statement

    @property
    def rule(self) -> str:
        """The thresholds."""
        return rule_of(self.settings)


def rule_of(settings: VerifyConfig) -> str:
    """
    >>> rule_of(VerifyConfig())
    'H ≥ 0.5 or B ≥ 5'
    """
    return f"H ≥ {settings.hazard:g} or B ≥ {settings.burden:g}"


def harm_of(verification: Verification, trajectories: int, control: FalseRetention | None = None) -> Harm:
    """The counts. Until a verification is finished, channels are those of what looks harmful so far."""
    examined, kinds = verification.examined, verification.kinds
    channels = [verdict.effect.channel for verdict in verification.most_harmful if verdict.effect]
    return Harm(
        examined=len(examined),
        harmful=kinds.get("harmful", 0),
        suspected=kinds.get("suspected", 0),
        error=channels.count("error"),
        burden=channels.count("burden"),
        both=channels.count("both"),
        neither=channels.count("none"),
        trajectories=trajectories,
        compacted=len({verdict.id.unit for verdict in examined}),
        without_verdict=kinds.get("open", 0),
        settled=verification.settled,
        settings=verification.settings,
        statement=statement_of(verification, control),
    )


def harm_claim(harm: Harm) -> Claim:
    """What became of every compaction, and how many are probably harmful: in the words of `verify`."""
    first, *others = harm.statement.sentences()
    return Claim(first, tuple(others))


def harm_details(harm: Harm) -> tuple[str, ...]:
    """What else belongs to the counts."""
    sentences = [
        f"A boundary is where a compaction was made. From each, the same agent was continued with the context before it"
        f" (PRE) and with the one after it (POST); a continuation is a draw. {quantity(harm.examined, 'boundary')} in"
        f" {harm.compacted:,} of {quantity(harm.trajectories, 'trajectory')} have draws in both.",
        _meaning(harm),
    ]
    if harm.harmful or harm.suspected:
        kinds = [
            f"{harm.error} lost success (error)" * bool(harm.error),
            f"{harm.burden} added steps (burden)" * bool(harm.burden),
            f"{harm.both} did both" * bool(harm.both),
            f"{harm.neither} reached neither threshold" * bool(harm.neither),
        ]
        which = "retained ones" if harm.harmful else "ones that look harmful"
        sentences.append(f"Of the {which}, {', '.join(filter(None, kinds))}.")
    sentences.append(
        "The interval of the expected number treats boundaries as independent, even those of one trajectory."
    )
    return tuple(sentences)


def _meaning(harm: Harm) -> str:
    """What H, B and harmful are, and how draws were spent."""
    allocation = describe_allocation(harm.settings)
    how = f": {allocation.description}" * bool(allocation.description)
    return (
        f"H is the success lost with POST, B the steps added. A boundary is retained if {harm.statement.rule}."
        f" Draws were spent by {allocation.name}{how}."
    )
