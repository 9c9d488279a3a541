"""How many compactions were retained: what was examined, by which rule, and how many are probably harmful."""

from __future__ import annotations

from dataclasses import dataclass

from recompact.attribution.false_retention import FalseRetention
from recompact.attribution.findings import Finding, Findings
from recompact.attribution.registry import describe_allocation
from recompact.attribution.statement import Statement, statement_of
from recompact.engine.config import VerifyConfig
from recompact.presentation.report.content.answer import Claim
from recompact.values.texts import quantity


@dataclass(frozen=True)
class Harm:
    """How many compactions of a run were examined and how many of them were retained, by channel."""

    examined: int
    harmful: int
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


def with_effect(findings: Findings) -> list[Finding]:
    """The boundaries with draws in both arms, most harmful first."""
    return [finding for finding in findings.boundaries if finding.effect is not None]


def is_harmful(findings: Findings, finding: Finding) -> bool:
    """Whether a boundary counts as harmful: by the allocation, or by its estimate while draws are missing."""
    return finding.retained if findings.settled else finding.effect is not None and finding.effect.selected


def harm_of(findings: Findings, trajectories: int, control: FalseRetention | None = None) -> Harm:
    """The counts. Until a verification is finished, a boundary counts if its estimate reaches a threshold."""
    examined = with_effect(findings)
    harmful = [finding for finding in examined if is_harmful(findings, finding)]
    channels = [finding.effect.channel for finding in harmful if finding.effect]
    return Harm(
        examined=len(examined),
        harmful=len(harmful),
        error=channels.count("error"),
        burden=channels.count("burden"),
        both=channels.count("both"),
        neither=channels.count("none"),
        trajectories=trajectories,
        compacted=len({finding.id.unit for finding in examined}),
        without_verdict=len(findings.boundaries) - len(examined),
        settled=findings.settled,
        settings=findings.settings,
        statement=statement_of(findings, control),
    )


def harm_claim(harm: Harm) -> Claim:
    """How many compactions were retained, and how many of them are probably harmful: in the words of `verify`."""
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
    if harm.harmful:
        kinds = [
            f"{harm.error} lost success (error)" * bool(harm.error),
            f"{harm.burden} added steps (burden)" * bool(harm.burden),
            f"{harm.both} did both" * bool(harm.both),
            f"{harm.neither} reached neither threshold" * bool(harm.neither),
        ]
        which = "retained ones" if harm.settled else "ones that reach a threshold"
        sentences.append(f"Of the {which}, {', '.join(filter(None, kinds))}.")
    if not harm.settled:
        sentences.append("The verification is not finished: these counts may still change.")
    if harm.without_verdict:
        are = "boundary has" if harm.without_verdict == 1 else "boundaries have"
        sentences.append(f"{harm.without_verdict:,} more {are} no verdict: an arm without a draw, or left out.")
    sentences.append(
        "The interval of the expected number treats boundaries as independent, even those of one trajectory."
    )
    return tuple(sentences)


def _meaning(harm: Harm) -> str:
    """What H, B and harmful are, and how draws were spent."""
    allocation = describe_allocation(harm.settings)
    surely = "more probably than not" if allocation.by_probability and harm.settled else "by its estimates"
    how = f": {allocation.description}" * bool(allocation.description)
    return (
        f"H is the success lost with POST, B the steps added. A boundary is retained if {surely} {harm.rule}."
        f" Draws were spent by {allocation.name}{how}."
    )
