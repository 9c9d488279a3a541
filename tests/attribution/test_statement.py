"""What a verification says: every number in its sentences is one of the findings, whatever those are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given, strategies as st

from recompact.attribution.effects import Effect, effect_of
from recompact.attribution.false_retention import FalseRetention
from recompact.attribution.findings import Finding, Findings
from recompact.attribution.statement import Statement, statement_of
from recompact.config import VerifyConfig
from recompact.outcome import BoundaryId, Outcome, Outcomes
from recompact.stats import wilson
from recompact.store.runs import BoundaryRow

ARM = st.lists(st.builds(Outcome, st.sampled_from([0.0, 0.25, 1.0]), st.integers(0, 40)), min_size=1, max_size=4).map(
    lambda outcomes: dict(enumerate(outcomes))
)
EFFECT = st.builds(Outcomes, ARM, ARM).map(effect_of)


@st.composite
def some_finding(draw: st.DrawFn, number: int) -> Finding:
    """A boundary with draws or without; only one with a verdict can be retained, and only such a one is confirmed."""
    row = BoundaryRow("collect/t", number, "t", 5, 2000, 900, 20, True)
    finding = Finding(BoundaryId("collect/t", number), row, Outcomes(), draw(st.none() | EFFECT))
    if finding.effect is None:
        return replace(finding, left_out=draw(st.sampled_from(["", "the disk is full"])))
    retained = draw(st.booleans())
    confirmed = draw(st.none() | EFFECT) if retained else None
    fresh = draw(st.none() | EFFECT) if retained else None
    return replace(
        finding,
        retained=retained,
        confirmed=confirmed,
        resampled=fresh,
        wordings=draw(st.integers(1, 3)) if fresh else 0,
        copies=draw(st.booleans()),
    )


@st.composite
def some_findings(draw: st.DrawFn) -> Findings:
    boundaries = tuple(draw(some_finding(number)) for number in range(1, draw(st.integers(0, 6)) + 1))
    settled = draw(st.booleans()) or any(finding.retained for finding in boundaries)
    allocation = draw(st.sampled_from(["halving", "uniform:3", "racing", "chained:racing"]))
    return Findings(VerifyConfig(allocation=allocation), settled, boundaries)


def control(falsely: int, boundaries: int) -> FalseRetention:
    return FalseRetention("halving", boundaries, 1, wilson(falsely / boundaries, boundaries))


CONTROL = st.none() | st.integers(1, 30).flatmap(lambda n: st.integers(0, n).map(lambda k: control(k, n)))


def numbers(statement: Statement, pattern: str) -> tuple[float, ...] | None:
    """The numbers in the one sentence that has this form; `N` stands for a number."""
    form = re.escape(pattern).replace("N", r"([+-]?[\d,]+(?:\.\d+)?)")
    hits = [hit for sentence in statement.sentences() if (hit := re.search(form, sentence))]
    assert len(hits) <= 1
    return tuple(float(group.replace(",", "")) for group in hits[0].groups()) if hits else None


def effects(findings: Sequence[Finding]) -> list[Effect]:
    return [finding.effect for finding in findings if finding.effect is not None]


@given(some_findings(), CONTROL)
def test_the_numbers_in_the_sentences_are_those_of_the_findings(findings: Findings, aa: FalseRetention | None) -> None:
    statement = statement_of(findings, aa)
    examined = [finding for finding in findings.boundaries if finding.effect is not None]
    left_out = [finding for finding in findings.boundaries if finding.left_out]
    retained = [finding for finding in examined if finding.retained]
    confirmed = [finding.confirmed for finding in retained if finding.confirmed is not None]
    assert statement.to_json()["sentences"] == list(statement.sentences())
    if not examined:
        (only,) = statement.sentences()
        assert only.startswith("None of" if findings.boundaries else "Nothing was compacted")
        assert ("all were left out" in only) == (0 < len(left_out) == len(findings.boundaries))
        return
    many = "boundary" if len(examined) == 1 else "boundaries"
    counts = numbers(statement, f"N of N {many} {'was' if len(retained) == 1 else 'were'} retained (")
    assert counts == ((len(retained), len(examined)) if findings.settled else None)
    reaching = sum(effect.selected for effect in effects(examined))
    form = "N of N reaches a threshold" if reaching == 1 else "N of N reach a threshold"
    assert numbers(statement, form) == (reaching, len(examined))
    expected = numbers(statement, "of the N, N are expected to be harmful (95 % interval N to N)")
    assert (expected is not None) == bool(retained)
    if expected:
        number, value, low, high = expected
        assert number == len(retained)
        assert value == pytest.approx(sum(effect.harmful for effect in effects(retained)), abs=0.051)
        assert 0 <= low <= high <= len(retained)
        assert low - 0.051 <= value <= high + 0.051
    plural = "boundary" if len(confirmed) == 1 else "boundaries"
    fresh = numbers(statement, f"Of N retained {plural} with fresh pairs, N reach")
    assert fresh == ((len(confirmed), sum(effect.selected for effect in confirmed)) if confirmed else None)
    copies = sum(finding.copies for finding in examined)
    word = "boundary" if copies == 1 else "boundaries"
    assert numbers(statement, f"At N {word} the draws of an arm are copies") == ((copies,) if copies else None)
    were = "boundary was" if len(left_out) == 1 else "boundaries were"
    assert numbers(statement, f"N {were} left out") == ((len(left_out),) if left_out else None)


@given(some_findings(), st.integers(1, 30), st.data())
def test_what_an_aa_control_leaves_lies_in_the_interval_that_is_shown(
    findings: Findings, boundaries: int, data: st.DataObject
) -> None:
    falsely = data.draw(st.integers(0, boundaries))
    statement = statement_of(findings, control(falsely, boundaries))
    verb = "remain"
    many = "boundary" if boundaries == 1 else "boundaries"
    shown = numbers(
        statement,
        f"(A/A), N% of N {many} are retained by chance: without as many, N {verb}",
    )
    assert (shown is not None) == bool(statement.examined)
    if shown is None:
        return
    share, of, rest = shown
    interval = numbers(statement, "interval N to N).") or ()
    assert share == pytest.approx(100 * falsely / boundaries, abs=0.051)
    assert of == boundaries
    assert rest == pytest.approx(max(0, statement.retained - falsely / boundaries * statement.examined), abs=0.051)
    low, high = interval
    assert 0 <= low <= rest <= high <= statement.retained


@given(some_findings())
def test_the_two_hazards_are_means_over_the_same_boundaries(findings: Findings) -> None:
    statement = statement_of(findings)
    fresh = [finding for finding in findings.boundaries if finding.resampled is not None]
    if not fresh:
        assert statement.two_hazards is None
        return
    assert statement.two_hazards is not None
    many = "boundary" if len(fresh) == 1 else "boundaries"
    mean = "" if len(fresh) == 1 else "on average "
    of_summary = numbers(statement, f"At N {many} with fresh summaries, H is {mean}N (95 % interval N to N)")
    of_prompt = numbers(statement, "and N (95 % interval N to N) for the prompt")
    assert of_summary is not None
    assert of_prompt is not None
    assert of_summary[0] == len(fresh)
    recorded = [effect.hazard for finding in fresh if (effect := finding.confirmed or finding.effect)]
    assert of_summary[1] == pytest.approx(fmean(recorded), abs=0.0051)
    assert of_prompt[0] == pytest.approx(fmean(f.resampled.hazard for f in fresh if f.resampled), abs=0.0051)
    for value, low, high in (of_summary[1:], of_prompt):
        assert low - 0.011 <= value <= high + 0.011
    warns = any("tend to be too large" in sentence for sentence in statement.sentences())
    assert warns == any(finding.confirmed is None for finding in fresh)
    same = sum(f.wordings == 1 and f.resampled.post > 1 for f in fresh if f.resampled)
    word = "boundary" if same == 1 else "boundaries"
    assert numbers(statement, f"At N {word} every fresh summary has the same words") == ((same,) if same else None)


@pytest.mark.parametrize(
    ("allocation", "words"),
    [
        ("halving", "H >= 0.5 or B >= 5 by the estimate after all rounds of halving"),
        ("uniform:3", "H >= 0.5 or B >= 5 by the estimate of all draws, uniform:3"),
        ("chained", "H >= 0.5 or B >= 5 by the estimate after all rounds of chained"),
        ("racing", "more probably than not H >= 0.5 or B >= 5, by racing"),
        ("chained:racing", "more probably than not H >= 0.5 or B >= 5, by chained:racing"),
    ],
)
def test_the_rule_is_the_one_that_retained(allocation: str, words: str) -> None:
    assert statement_of(Findings(VerifyConfig(allocation=allocation), True, ())).rule == words
