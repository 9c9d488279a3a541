"""Real boundaries beside placebo ones: what separates them, and how unusual each compaction is by that measure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from statistics import fmean

from recompact.audit.auditing import OWN, Audit
from recompact.audit.findings import AuditedCompaction, Session
from recompact.audit.measures import CHARACTERS_PER_TOKEN, MEASURES, PER, Measure, Point
from recompact.values.stats import bootstrap

RESAMPLES = 4_000
LEAST = 5  # sessions below which an interval would claim too much


@dataclass(frozen=True)
class SessionMean:
    """A mean over sessions; the ends of its 95 % interval are None where there are too few sessions for one."""

    value: float
    low: float | None
    high: float | None
    sessions: int

    @property
    def positive(self) -> bool:
        """Whether the interval lies above zero."""
        return self.low is not None and self.low > 0


def mean_of_sessions(values: Sequence[float]) -> SessionMean | None:
    """The mean of one value per session. Whole sessions are resampled: their compactions are not independent."""
    if not values:
        return None
    if len(values) < LEAST:
        return SessionMean(fmean(values), None, None, len(values))
    (estimate,) = bootstrap([values], RESAMPLES)
    return SessionMean(estimate.value, estimate.low, estimate.high, len(values))


@dataclass(frozen=True)
class Contrast:
    """One measure after compactions and at placebo points, as means of the sessions that have both."""

    measure: Measure
    real: float
    placebo: float
    difference: SessionMean
    higher: int  # sessions in which it is higher after compactions
    unequal: int  # sessions in which it differs at all
    real_points: int
    placebo_points: int

    @property
    def separates(self) -> bool:
        """Whether it tells compactions from placebo points. Only then is it shown as harm."""
        return self.difference.positive

    @property
    def ratio(self) -> float | None:
        return self.real / self.placebo if self.placebo > 0 else None


@dataclass(frozen=True)
class RankedCompaction:
    """A compaction with its excess over the control, and its score."""

    session: Session
    compaction: AuditedCompaction
    point: Point | None
    control: str  # whose placebo points: the session's "own", its "harness"'s, "pooled" over all; "" without any
    excess: Mapping[str, float]  # by measure, in that measure's unit
    score: float | None

    @property
    def excess_chars(self) -> float | None:
        """Characters fetched again in the whole window, beyond the control."""
        if self.point is None or "refetched" not in self.excess:
            return None
        return self.excess["refetched"] * self.point.calls / PER


@dataclass(frozen=True)
class Proportion:
    """Tokens that compactions took out of the context, and how many of them were fetched again, as means of those
    compactions for which both are known."""

    dropped: float
    fetched_again: float
    compactions: int

    @property
    def share(self) -> float:
        return self.fetched_again / self.dropped


@dataclass(frozen=True)
class Group:
    """Totals of a project, a harness, or a version of one."""

    name: str
    sessions: int
    compactions: int
    scored: int
    excess_chars: SessionMean | None  # per compaction
    failures: int
    needed: int
    covered: int


@dataclass(frozen=True)
class Assessment:
    """An audit's result."""

    findings: Audit
    contrasts: tuple[Contrast, ...]
    ranked: tuple[RankedCompaction, ...]  # the worst first
    excess_chars: SessionMean | None  # per compaction
    harnesses: tuple[Group, ...]
    versions: tuple[Group, ...]
    projects: tuple[Group, ...]
    placebo_points: int

    def contrast(self, name: str) -> Contrast | None:
        return next((each for each in self.contrasts if each.measure.name == name), None)

    @property
    def latest(self) -> RankedCompaction | None:
        """The last compaction in the file that was changed last."""
        with_time = (each for each in self.ranked if each.session.modified)
        return max(with_time, key=lambda each: (each.session.modified, each.compaction.ordinal), default=None)

    @property
    def scored(self) -> tuple[RankedCompaction, ...]:
        return tuple(each for each in self.ranked if each.score is not None)


def assess(findings: Audit) -> Assessment:
    """Compare and rank everything that was found."""
    contrasts = tuple(filter(None, (contrast(each, findings.sessions) for each in MEASURES)))
    ranked = tuple(rank(findings.sessions))
    return Assessment(
        findings,
        contrasts,
        ranked,
        _excess(ranked),
        tuple(_groups(ranked, lambda session: session.harness)),
        tuple(_groups(ranked, lambda session: f"{session.harness} {session.info.version}".strip())),
        tuple(_groups(ranked, lambda session: session.info.project)),
        sum(len(session.placebos[session.scheme]) for session in findings.sessions if _real(session)),
    )


def _real(session: Session) -> list[Point]:
    return [
        compaction.points[session.scheme]
        for compaction in session.compactions
        if compaction.kind == "summary" and session.scheme in compaction.points
    ]


def contrast(measure: Measure, sessions: Sequence[Session]) -> Contrast | None:
    """One measure at real and at placebo boundaries; within the same phase where the measure depends on it."""
    reals, placebos, reals_used, placebos_used = [], [], 0, 0
    for session in sessions:
        pairs = list(_pairs(measure, _real(session), session.placebos[session.scheme]))
        if pairs:
            reals.append(fmean(real for real, _, _ in pairs))
            placebos.append(fmean(placebo for _, placebo, _ in pairs))
            reals_used += len(pairs)
            placebos_used += max(count for _, _, count in pairs)
    differences = [real - placebo for real, placebo in zip(reals, placebos, strict=True)]
    difference = mean_of_sessions(differences)
    if difference is None:
        return None
    return Contrast(
        measure,
        fmean(reals),
        fmean(placebos),
        difference,
        sum(each > 0 for each in differences),
        sum(each != 0 for each in differences),
        reals_used,
        placebos_used,
    )


def _pairs(measure: Measure, reals: Sequence[Point], placebos: Sequence[Point]) -> Iterator[tuple[float, float, int]]:
    """Each real value with the mean of the placebo values that it may be compared with, and their number."""
    controls: dict[bool | None, list[float]] = defaultdict(list)
    for point in placebos:
        if measure.name in point.values:
            controls[point.starts_turn if measure.within_phase else None].append(point.values[measure.name])
    means = {phase: fmean(values) for phase, values in controls.items()}
    for real in reals:
        phase = real.starts_turn if measure.within_phase else None
        if measure.name in real.values and phase in means:
            yield real.values[measure.name], means[phase], len(controls[phase])


def proportion(ranked: Sequence[RankedCompaction]) -> Proportion | None:
    """What was fetched again beyond placebo, beside what compactions took out of the context."""
    pairs = [
        (each.compaction.before - each.compaction.after, each.excess_chars / CHARACTERS_PER_TOKEN)
        for each in ranked
        if each.excess_chars is not None and each.compaction.before and each.compaction.after is not None
    ]
    dropped = fmean(tokens for tokens, _ in pairs) if pairs else 0.0
    return Proportion(dropped, fmean(tokens for _, tokens in pairs), len(pairs)) if dropped > 0 else None


def rank(sessions: Sequence[Session]) -> list[RankedCompaction]:
    """All compactions, the worst first; those that cannot be scored come last."""
    controls = {scheme: _Control(scheme, sessions) for scheme in {session.scheme for session in sessions}}
    ranked = []
    for session in sessions:
        control = controls[session.scheme]
        for compaction in session.compactions:
            point = compaction.points.get(session.scheme)
            # Only a summary removes the rest of the history; a clearing is listed but not scored.
            if point is None or compaction.kind != "summary" or not control.values:
                ranked.append(RankedCompaction(session, compaction, point, "", {}, None))
                continue
            kind, excess = control.excess(session, point)
            ranked.append(RankedCompaction(session, compaction, point, kind, excess, control.score(excess)))
    return sorted(ranked, key=_badness)


def _badness(each: RankedCompaction) -> tuple[bool, float, float, str, int]:
    raw = sum(refetch.chars for refetch in each.compaction.refetches if refetch.reading)
    excess = each.excess.get("refetched", float(raw))
    return (each.score is None, -(each.score or 0.0), -excess, str(each.session.path), each.compaction.line)


class _Control:
    """The placebo points of all sessions measured with one scheme."""

    def __init__(self, scheme: str, sessions: Sequence[Session]) -> None:
        with_real = [session for session in sessions if session.scheme == scheme and _real(session)]
        by_harness: dict[str, list[Point]] = defaultdict(list)
        for session in with_real:
            by_harness[session.harness] += session.placebos[scheme]
        self.values = _means([point for points in by_harness.values() for point in points])
        self._harnesses = {harness: _means(points) for harness, points in by_harness.items() if len(points) >= OWN}
        self._own = {
            id(session): _means(session.placebos[scheme])
            for session in with_real
            if len(session.placebos[scheme]) >= OWN
        }
        self._residuals: dict[str, list[float]] = defaultdict(list)
        for session in with_real:
            for point in session.placebos[scheme]:
                for name, value in self.excess(session, point)[1].items():
                    self._residuals[name].append(value)
        for values in self._residuals.values():
            values.sort()

    def excess(self, session: Session, point: Point) -> tuple[str, dict[str, float]]:
        """A point's measures beyond those of the session's own placebo points, or of its harness's, or of all."""
        if id(session) in self._own:
            kind, means = "own", self._own[id(session)]
        elif session.harness in self._harnesses:
            kind, means = "harness", self._harnesses[session.harness]
        else:
            kind, means = "pooled", self.values
        return kind, {name: value - means[name] for name, value in point.values.items() if name in means}

    def score(self, excess: Mapping[str, float]) -> float:
        """How rare such an excess is at placebo points: for each scored measure, one in ten counts 1, one in 100 2."""
        total = 0.0
        for each in MEASURES:
            if each.scored and each.name in excess:
                residuals = self._residuals[each.name]
                # With a tolerance, so that a mean of thirds does not decide a tie.
                as_large = len(residuals) - bisect_left(residuals, excess[each.name] - 1e-9)
                total -= log10((1 + as_large) / (1 + len(residuals)))
        return total


def _means(points: Sequence[Point]) -> dict[str, float]:
    return {
        each.name: fmean(values)
        for each in MEASURES
        if (values := [point.values[each.name] for point in points if each.name in point.values])
    }


def _excess(ranked: Sequence[RankedCompaction]) -> SessionMean | None:
    """Characters fetched again per compaction, beyond the control: the mean of the sessions' means."""
    by_session: dict[int, list[float]] = defaultdict(list)
    for each in ranked:
        if (chars := each.excess_chars) is not None:
            by_session[id(each.session)].append(chars)
    return mean_of_sessions([fmean(values) for values in by_session.values()])


def _groups(ranked: Sequence[RankedCompaction], name_of: Callable[[Session], str]) -> Iterator[Group]:
    members: dict[str, list[RankedCompaction]] = defaultdict(list)
    for each in ranked:
        members[name_of(each.session)].append(each)
    for name, group in sorted(members.items(), key=lambda item: (-len(item[1]), item[0])):
        readable = [need for each in group if each.compaction.readable for need in each.compaction.needs]
        yield Group(
            name,
            len({id(each.session) for each in group}),
            len(group),
            sum(each.score is not None for each in group),
            _excess(group),
            sum(len(each.compaction.failures) for each in group),
            len(readable),
            sum(need.covered for need in readable),
        )
