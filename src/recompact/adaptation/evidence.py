"""What the optimizer gets to see of a harmful boundary: what the compressor consumed and wrote, and what came of it.

It states settled facts of each continuation, not whole traces; long observations are cut with a mark. In scope
`history` the agent's prefix is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recompact.adaptation.lock import instances_in
from recompact.attribution.cases import Continuation, Evidence, evidence_of
from recompact.attribution.findings import Finding, findings
from recompact.chat import Message, canonical
from recompact.compressors.prompted import quoted_prefix
from recompact.compressors.protocol import Scope
from recompact.context import Turn, render_turn
from recompact.outcome import BoundaryId
from recompact.store.store import Store
from recompact.tokens import TokenCounter

LONG = 1600  # characters of one observation that are shown
ACTIONS = 40  # of one continuation that are shown
MARK = " [cut here]"


@dataclass(frozen=True)
class BoundaryEvidence:
    """The evidence about one boundary as text; the parts that diagnoses quote from stand by themselves too."""

    id: BoundaryId
    channel: str
    segment: str
    previous: str
    summary: str
    text: str
    tokens: int
    instances: frozenset[str]


def gather(store: Store, scope: Scope, budget: int, count: TokenCounter) -> tuple[BoundaryEvidence, ...]:
    """The evidence of all retained boundaries that fit into so many tokens."""
    retained = [finding for finding in findings(store).boundaries if finding.retained]
    every = [described(evidence_of(store, finding.id, finding), scope, count) for finding in _ordered(retained)]
    kept: list[BoundaryEvidence] = []
    spent = 0
    for evidence in every:
        if kept and spent + evidence.tokens > budget:
            continue
        kept.append(evidence)
        spent += evidence.tokens
    return tuple(kept)


def _ordered(retained: Sequence[Finding]) -> list[Finding]:
    """Most harmful first, but the first of each channel before all others, so that both are present."""
    firsts: dict[str, Finding] = {}
    for finding in retained:
        if finding.effect is not None:
            firsts.setdefault("burden" if finding.effect.channel == "burden" else "error", finding)
    return [*firsts.values(), *(f for f in retained if f not in firsts.values())]


def described(evidence: Evidence, scope: Scope, count: TokenCounter) -> BoundaryEvidence:
    """One boundary as text."""
    boundary = evidence.boundary
    consumed = boundary.pre.before_last()
    segment = "\n\n".join(shown_turn(turn) for turn in consumed.turns)
    previous = boundary.pre.summary.text if boundary.pre.summary else ""
    summary = boundary.post.summary.text if boundary.post.summary else ""
    parts = [_block("prefix", quoted_prefix(boundary.pre.prefix))] if scope == "prefix" else []
    parts.append(_block("segment", segment))
    if previous:
        parts.append(_block("previous-summary", previous))
    parts.append(_block("summary", summary))
    parts.append(_block("effect", _effect(evidence)))
    parts += [_continuation(continuation) for continuation in evidence.continuations]
    text = "\n".join(parts)
    effect = evidence.finding.effect
    return BoundaryEvidence(
        id=evidence.finding.id,
        channel=effect.channel if effect else "none",
        segment=segment,
        previous=previous,
        summary=summary,
        text=text,
        tokens=count(text),
        instances=instances_in((segment, previous, summary)),
    )


def shown_turn(turn: Turn, long: int = LONG) -> str:
    """A turn as the compressor read it, with long observations cut."""
    results = tuple(
        Message(r.role, r.content[:long] + MARK, r.calls, r.call_id) if len(r.content) > long else r
        for r in turn.results
    )
    return render_turn(turn.message, results)


def _effect(evidence: Evidence) -> str:
    effect = evidence.finding.effect
    if effect is None:
        return "not known"
    h, b = effect.hazard_estimate, effect.burden_estimate
    return (
        f"channel: {effect.channel}\n"
        f"success lost (H): {effect.hazard:.2f}, 95% interval {h.low:.2f} to {h.high:.2f}\n"
        f"steps added (B): {effect.burden:.1f}, 95% interval {b.low:.1f} to {b.high:.1f}\n"
        f"continuations: {effect.pre} from the context before, {effect.post} from the context after"
    )


def _continuation(continuation: Continuation) -> str:
    """The settled facts of one continuation."""
    row = continuation.row
    lines = [f"ended: {row.ending} after {row.steps} steps; the task was {'done' if row.success else 'not done'}"]
    if answer := continuation.trajectory.score.details.get("answer"):
        lines.append(f"submitted: {str(answer)[:200]}")
    errors = sum(m.content.startswith(("Error", '{"error"')) for t in continuation.trajectory.turns for m in t.results)
    if errors:
        lines.append(f"errors met: {errors}")
    if continuation.repeated:
        lines.append(f"did again what had been done before the compaction: {len(continuation.repeated)} actions")
    lines.append("actions:")
    again = set(continuation.repeated)
    for number, action in enumerate(continuation.actions[:ACTIONS]):
        arguments = canonical(dict(action.arguments)) if action.name else action.text[:200]
        lines.append(f"{'(again) ' if number in again else ''}-> {action.name}({arguments[:400]})")
    if len(continuation.actions) > ACTIONS:
        lines.append(f"{len(continuation.actions) - ACTIONS} more{MARK}")
    body = "\n".join(lines)
    return f'<continuation arm="{row.arm}" draw="{row.draw}">\n{body}\n</continuation>'


def _block(tag: str, text: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>"
