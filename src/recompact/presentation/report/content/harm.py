"""How many compactions did harm: what was examined, by which rule, and in which way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from recompact.attribution.judgement import Verification
from recompact.attribution.registry import describe_allocation
from recompact.attribution.statement import FalseRetention, Statement, statement_of
from recompact.engine.config import VerifyConfig
from recompact.presentation.report.content.answer import Claim
from recompact.values.texts import quantity

CHANNELS = {
    "error": "lost success (error)",
    "burden": "added steps (burden)",
    "both": "did both",
    "none": "reached neither threshold",  # retained by the allocation's own judgement
}


@dataclass(frozen=True)
class Harm:
    """What a verified run says about harm, and in which way compactions did it."""

    statement: Statement
    channels: Mapping[str, int]  # of the harmful ones, or of those that look so where none is
    trajectories: int
    compacted: int  # trajectories with a boundary that was examined

    @property
    def harmful(self) -> int:
        return self.statement.kinds.get("harmful", 0)

    @property
    def suspected(self) -> int:
        """How many look harmful, but were not retained."""
        return self.statement.kinds.get("suspected", 0)


def rule_of(settings: VerifyConfig) -> str:
    """
    >>> rule_of(VerifyConfig())
    'H ≥ 0.5 or B ≥ 5'
    """
    return f"H ≥ {settings.hazard:g} or B ≥ {settings.burden:g}"


def harm_of(verification: Verification, trajectories: int, control: FalseRetention | None = None) -> Harm:
    """The counts. Until a verification is finished, channels are those of what looks harmful so far."""
    return Harm(
        statement_of(verification, control),
        Counter(verdict.effect.channel for verdict in verification.most_harmful if verdict.effect),
        trajectories,
        len({verdict.id.unit for verdict in verification.examined}),
    )


def harm_claim(harm: Harm) -> Claim:
    """What became of every compaction, and how many are probably harmful: in the words of `verify`."""
    first, *others = harm.statement.sentences()
    return Claim(first, tuple(others))


def harm_details(harm: Harm) -> tuple[str, ...]:
    """What else belongs to the counts."""
    examined = quantity(harm.statement.examined, "boundary")
    sentences = [
        "A boundary is the moment of a compaction. From each, the same agent went on with the context before it (PRE)"
        f" and with the context after it (POST); each such continuation is a draw. {examined} in {harm.compacted:,} of"
        f" {quantity(harm.trajectories, 'trajectory')} have draws in both arms.",
        _meaning(harm),
    ]
    if harm.channels:
        kinds = [f"{harm.channels[key]} {words}" for key, words in CHANNELS.items() if harm.channels.get(key)]
        which = "harmful ones" if harm.harmful else "ones that look harmful"
        sentences.append(f"Of the {which}, {', '.join(kinds)}.")
    sentences.append(
        "The interval of the expected number treats boundaries as independent, even those of one trajectory."
    )
    return tuple(sentences)


def _meaning(harm: Harm) -> str:
    """What H, B and harmful are, and how draws were spent."""
    allocation = describe_allocation(harm.statement.settings)
    how = f": {allocation.description}" * bool(allocation.description)
    return (
        f"H is the success lost with POST, B the steps added. A boundary is retained as harmful if"
        f" {harm.statement.rule}. {allocation.name} spent the draws{how}."
    )
