"""What a verification says: every number in its sentences is one of the findings, whatever those are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sentences import numbers_in

from recompact.attribution.effects import effect_of
from recompact.attribution.judgement import Verification
from recompact.attribution.statement import (
    FalseRetention,
    Statement,
    TwoHazards,
    headline,
    statement_of,
    two_hazards,
)
from recompact.engine.config import VerifyConfig
from recompact.engine.store.runs import BoundaryRow
from recompact.engine.store.verdicts import Verdict
from recompact.values.outcome import BoundaryId, Effect, Outcome, Outcomes
from recompact.values.stats import Estimate, wilson

ARM = st.lists(st.builds(Outcome, st.sampled_from([0.0, 0.25, 1.0]), st.integers(0, 40)), min_size=1, max_size=4).map(
    lambda outcomes: dict(enumerate(outcomes))
)
EFFECT = st.builds(Outcomes, ARM, ARM).map(effect_of)


@st.composite
def some_finding(draw: st.DrawFn, number: int) -> Verdict:
    """A boundary with draws or without; only one with a verdict can be retained, and only such a one is confirmed."""
    row = BoundaryRow("collect/t", number, "t", 5, 2000, 900, 20, True)
    finding = Verdict(BoundaryId("collect/t", number), row, "no draws", Outcomes(), draw(st.none() | EFFECT))
    if finding.effect is None:
        out = draw(st.booleans())
        return replace(finding, reason="left out", left_out="the disk is full") if out else finding
    retained = draw(st.booleans())
    confirmed = draw(st.none() | EFFECT) if retained else None
    fresh = draw(st.none() | EFFECT) if retained else None
    return replace(
        finding,
        reason="retained" if retained else "stopped early" if finding.effect.selected else "not harmful",
        confirmed=confirmed,
        resampled=fresh,
        wordings=draw(st.integers(1, 3)) if fresh else 0,
        copies=draw(st.booleans()),
    )


@st.composite
def some_findings(draw: st.DrawFn) -> Verification:
    boundaries = tuple(draw(some_finding(number)) for number in range(1, draw(st.integers(0, 6)) + 1))
    settled = draw(st.booleans()) or any(finding.retained for finding in boundaries)
    allocation = draw(st.sampled_from(["halving", "uniform:3", "racing", "chained:racing"]))
    return Verification(VerifyConfig(allocation=allocation), settled, boundaries)


def control(falsely: int, boundaries: int) -> FalseRetention:
    return FalseRetention("halving", boundaries, wilson(falsely / boundaries, boundaries))


CONTROL = st.none() | st.integers(1, 30).flatmap(lambda n: st.integers(0, n).map(lambda k: control(k, n)))


def numbers(statement: Statement, pattern: str) -> tuple[float, ...] | None:
    """The numbers in the one sentence that has this form; `N` stands for a number."""
    form = re.escape(pattern).replace("N", r"([+-]?[\d,]+(?:\.\d+)?)")
    hits = [hit for sentence in statement.sentences() if (hit := re.search(form, sentence))]
    assert len(hits) <= 1
    return tuple(float(group.replace(",", "")) for group in hits[0].groups()) if hits else None


def effects(findings: Sequence[Verdict]) -> list[Effect]:
    return [finding.effect for finding in findings if finding.effect is not None]


@given(some_findings(), CONTROL)
def test_the_numbers_in_the_sentences_are_those_of_the_findings(
    findings: Verification, aa: FalseRetention | None
) -> None:
    statement = statement_of(findings, aa)
    examined = [finding for finding in findings.verdicts if finding.effect is not None]
    left_out = [finding for finding in findings.verdicts if finding.left_out]
    retained = [finding for finding in examined if finding.retained]
    confirmed = [finding.confirmed for finding in retained if finding.confirmed is not None]
    assert statement.to_json()["sentences"] == list(statement.sentences())
    if not examined:
        (only,) = statement.sentences()
        assert only.startswith("None of" if findings.verdicts else "Nothing was compacted")
        assert ("left out" in only) == (0 < len(left_out) == len(findings.verdicts))
        return
    many = "boundary" if len(examined) == 1 else "boundaries"
    counts = numbers(statement, f"N of N {many} {'was' if len(retained) == 1 else 'were'} retained (")
    assert counts == ((len(retained), len(examined)) if findings.settled else None)
    looks = sum(finding.kind in ("harmful", "suspected") for finding in findings.verdicts)
    if looks:
        assert statement.sentences()[0].count(f"{looks} of {len(findings.verdicts)} compaction") == 1
    assert sum(statement.to_json()["verdicts"].values()) == len(findings.verdicts)
    expected = numbers(statement, "of the N, N are expected to be harmful (95 % interval N to N)")
    assert (expected is not None) == bool(retained)
    if expected:
        number, value, low, high = expected
        assert number == len(retained)
        some = 1 - statement.none_harmful
        assert value == pytest.approx(some * sum(effect.p_harmful for effect in effects(retained)), abs=0.051)
        assert low == 0 or statement.none_harmful < 0.025
        unconfirmed = numbers(statement, "The effects shown for N retained bound")
        assert unconfirmed == ((len(retained) - len(confirmed),) if len(retained) > len(confirmed) else None)
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
    findings: Verification, boundaries: int, data: st.DataObject
) -> None:
    falsely = data.draw(st.integers(0, boundaries))
    statement = statement_of(findings, control(falsely, boundaries))
    verb = "remain"
    many = "boundary" if boundaries == 1 else "boundaries"
    shown = numbers(
        statement,
        f"(A/A), N% of N {many} are retained by chance; without that number, N {verb}",
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
def test_the_two_hazards_are_means_over_the_same_boundaries(findings: Verification) -> None:
    statement = statement_of(findings)
    fresh = [finding for finding in findings.verdicts if finding.resampled is not None]
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
    warns = any("Both compare with" in sentence for sentence in statement.sentences())
    assert warns == any(finding.confirmed is None for finding in fresh)
    same = sum(f.wordings == 1 and f.resampled.post > 1 for f in fresh if f.resampled)
    word = "boundary" if same == 1 else "boundaries"
    assert numbers(statement, f"At N {word} every fresh summary has the same words") == ((same,) if same else None)


@pytest.mark.parametrize(
    ("allocation", "words"),
    [
        ("halving", "H >= 0.5 or B >= 5 by the estimate after all rounds, halving"),
        ("uniform:3", "H >= 0.5 or B >= 5 by the estimate of all draws, uniform 3"),
        ("chained", "H >= 0.5 or B >= 5 by the estimate after all rounds, chained halving"),
        ("racing", "more probably than not H >= 0.5 or B >= 5, racing"),
        ("chained:racing", "more probably than not H >= 0.5 or B >= 5, chained racing"),
    ],
)
def test_the_rule_is_the_one_that_retained(allocation: str, words: str) -> None:
    assert statement_of(Verification(VerifyConfig(allocation=allocation), True, ())).rule == words


@pytest.mark.parametrize(
    ("allocation", "draws", "words"),
    [
        ("uniform:2", 3, "by the estimate of the first 2 draws of each arm, uniform 2"),
        ("uniform:1", 2, "by the estimate of the first draw of each arm, uniform 1"),
        ("uniform", 4, "by the estimate of the first 3 draws of each arm, uniform 3"),
        ("chained:uniform:2", 3, "by the estimate of the first 2 draws of each arm, chained uniform 2"),
        ("halving", 4, "by the estimate after all rounds, halving"),
    ],
)
def test_a_rule_of_fewer_draws_than_there_are_says_which(allocation: str, draws: int, words: str) -> None:
    for number, more in ((draws, True), (draws - 1, False)):
        found = Verification(VerifyConfig(allocation=allocation), True, (finding(1, effect=lost(number, 1)),))
        statement = statement_of(found)
        assert (words in statement.rule) == (more or "rounds" in words)
        shown = f"rest on up to {number} draws of an arm."
        assert any(shown in sentence for sentence in statement.sentences()) == (more and statement.most_draws == number)
    for unmindful in ("racing", "chained:racing"):
        found = Verification(VerifyConfig(allocation=unmindful), True, (finding(1, effect=lost(9, 9)),))
        assert not any("rest on" in sentence for sentence in statement_of(found).sentences())


PLAIN = Statement(
    settings=VerifyConfig(),
    settled=True,
    kinds={"harmless": 1200, "open": 34},
    boundaries=1234,
    examined=1200,
    left_out=0,
    retained=0,
    by_estimate=0,
    probably_harmful=Estimate(0.0, 0.0, 0.0),
    confirmed=None,
    confirmable=0,
    copies=0,
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"retained": 1}, "1 of 1,200 boundaries was retained (H >= 0.5 or B >= 5 by the"),
        ({"retained": 2}, "2 of 1,200 boundaries were retained (H >= 0.5 or B >= 5 by the"),
        ({"settled": False}, "The verification is not finished: none of 1,234 compactions look harmful so far."),
        ({"kinds": {"harmful": 2, "suspected": 4}}, "6 of 6 compactions look harmful; 2 of them have enough draws"),
        (
            {"retained": 3, "probably_harmful": Estimate(1.26, 0.6, 2.4)},
            "of the 3, 1.3 are expected to be harmful (95 % interval 1 to 2), by P(harmful) after all draws.",
        ),
        (
            {"retained": 3, "confirmed": 0, "confirmable": 3},
            "by P(harmful) after all draws but the fresh pairs.",
        ),
        (
            {"confirmed": 1, "confirmable": 1},
            "Of 1 retained boundary with fresh pairs, 1 reaches a threshold by those alone; the effects shown for it"
            " are of the fresh pairs.",
        ),
        (
            {"confirmed": 1, "confirmable": 2},
            "Of 2 retained boundaries with fresh pairs, 1 reaches a threshold by those alone; the effects shown for"
            " them are of the fresh pairs.",
        ),
        (
            {"confirmed": 0, "confirmable": 1},
            "Of 1 retained boundary with fresh pairs, 0 reach a threshold by those alone; the effects shown for it"
            " are of the fresh pairs.",
        ),
        (
            {"retained": 3, "confirmed": 1, "confirmable": 2},
            "The effects shown for 1 retained boundary rest on the draws that retained it: they tend to be too large",
        ),
        (
            {"retained": 2},
            "The effects shown for 2 retained boundaries rest on the draws that retained them: they tend to be too",
        ),
        ({"copies": 1}, "At 1 boundary the draws of an arm are copies of each other (temperature 0): they count as"),
        ({"copies": 2}, "At 2 boundaries the draws of an arm are copies of each other (temperature 0): they count as"),
        ({"left_out": 1}, "1 boundary was left out: no verdict is possible there."),
        ({"left_out": 2}, "2 boundaries were left out: no verdict is possible there."),
        (
            {"retained": 2, "control": FalseRetention("halving", 1200, Estimate(1 / 1200, 0.0, 1 / 600))},
            "With both arms from PRE (A/A), 0.1% of 1,200 boundaries are retained by chance; without that number, 1.0"
            " remains (95 % interval 0.0 to 2.0).",
        ),
        (
            {"retained": 4, "control": FalseRetention("halving", 1, Estimate(0.0, 0.0, 0.0))},
            "With both arms from PRE (A/A), 0.0% of 1 boundary are retained by chance; without that number, 4.0 remain"
            " (95 % interval 1.6 to 4.0).",
        ),
    ],
)
def test_numbers_and_words_agree(changes: dict[str, Any], sentence: str) -> None:
    statement = replace(PLAIN, **changes)
    assert [each for each in statement.sentences() if sentence in each]
    assert not [each for each in PLAIN.sentences() if sentence in each]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"boundaries": 0}, "Nothing was compacted, so there is nothing to verify."),
        ({"boundaries": 1, "left_out": 1}, "None of 1 boundary could be verified; all were left out."),
        ({"boundaries": 3, "left_out": 2}, "None of 3 boundaries has draws in both arms yet."),
        ({"boundaries": 3, "left_out": 0}, "None of 3 boundaries has draws in both arms yet."),
    ],
)
def test_where_nothing_was_examined_it_is_said_why(changes: dict[str, Any], sentence: str) -> None:
    statement = replace(PLAIN, examined=0, retained=0, **changes)
    assert statement.sentences() == (sentence,)


def test_the_plain_statement_is_two_sentences_and_the_most_important_come_first() -> None:
    assert len(PLAIN.sentences()) == 2
    everything = replace(
        PLAIN,
        retained=2,
        confirmed=1,
        confirmable=2,
        copies=1,
        left_out=1,
        two_hazards=TwoHazards(1, Estimate(0.5, 0.1, 0.9), Estimate(0.25, -0.1, 0.6), False, 1),
        control=control(1, 10),
    )
    words = ["compactions", "retained (", "mean harmful:", "A/A", "fresh pairs", "fresh summaries", "too large", "same"]
    words += ["copies", "left out"]
    sentences = everything.sentences()
    assert [word in sentence for word, sentence in zip(words, sentences, strict=True)] == [True] * len(words)


@pytest.mark.parametrize(
    ("boundaries", "words"), [(1, "1 boundary with fresh summaries, H is +0.50"), (2, "on average +0.50")]
)
def test_a_mean_over_one_boundary_is_no_average(boundaries: int, words: str) -> None:
    hazards = TwoHazards(boundaries, Estimate(0.5, 0.1, 0.9), Estimate(0.25, -0.1, 0.6), True, 0)
    (only,) = hazards.sentences()
    assert words in only
    assert numbers_in(only)[-7:] == ["95", "+0.10", "+0.90", "+0.25", "95", "-0.10", "+0.60"]


def test_without_a_control_nothing_is_corrected() -> None:
    assert PLAIN.after_control is None
    assert PLAIN.to_json()["after_control"] is None
    corrected = replace(PLAIN, examined=10, retained=4, control=control(2, 10))
    rest = corrected.after_control
    assert rest is not None
    assert rest.value == 2.0
    assert rest.low == 0.0  # more than all may be retained by chance, but not less than none remain
    assert corrected.to_json()["after_control"]["value"] == 2.0
    assert corrected.to_json()["control"]["boundaries"] == 10
    assert PLAIN.to_json()["control"] is None


@pytest.mark.parametrize(("boundaries", "rate", "harmful"), [(200, 0.1, 0), (200, 0.05, 10), (60, 0.1, 3)])
def test_what_remains_is_missed_by_its_interval_as_rarely_as_it_says(
    boundaries: int, rate: float, harmful: int
) -> None:
    """Chance is in what was retained as well as in the control."""
    chance = Random(7)
    missed = 0
    for _ in range(500):
        by_chance, falsely = (sum(chance.random() < rate for _ in range(n)) for n in (boundaries - harmful, boundaries))
        retained = harmful + by_chance
        statement = replace(PLAIN, examined=boundaries, retained=retained, control=control(falsely, boundaries))
        rest = statement.after_control
        assert rest is not None
        missed += not rest.low <= harmful + 1e-9 <= rest.high + 2e-9
    assert missed / 500 <= 0.05


def finding(number: int, **changes: Any) -> Verdict:
    row = BoundaryRow("collect/t", number, "t", 5, 2000, 900, 20, True)
    return replace(Verdict(BoundaryId("collect/t", number), row, "no draws", Outcomes(), None), **changes)


def lost(pre: int = 3, post: int = 3) -> Effect:
    effect = effect_of(Outcomes({n: Outcome(1.0, 5) for n in range(pre)}, {n: Outcome(0.0, 5) for n in range(post)}))
    assert effect is not None
    return effect


def test_what_is_left_out_is_not_examined_even_with_an_effect() -> None:
    both = (
        finding(1, effect=lost(), reason="retained"),
        finding(2, effect=lost(), reason="left out", left_out="broken", copies=True),
    )
    statement = statement_of(Verification(VerifyConfig(), True, both))
    assert (statement.boundaries, statement.examined, statement.left_out) == (2, 1, 1)
    assert (statement.retained, statement.by_estimate, statement.copies) == (1, 1, 0)
    assert (statement.confirmed, statement.confirmable, statement.two_hazards) == (None, 0, None)


@pytest.mark.parametrize(
    ("wordings", "post", "same"), [(1, 2, 1), (1, 1, 0), (2, 2, 0)], ids=["same words", "one draw", "two wordings"]
)
def test_several_draws_of_one_wording_are_about_one_summary(wordings: int, post: int, same: int) -> None:
    fresh = finding(1, effect=lost(), resampled=lost(3, post), wordings=wordings)
    hazards = two_hazards([fresh, finding(2, effect=lost())])
    assert hazards is not None
    assert (hazards.boundaries, hazards.confirmed, hazards.same) == (1, False, same)


def test_the_mean_hazard_is_as_uncertain_as_its_draws_vary() -> None:
    won = {n: Outcome(float(n < 4), 5) for n in range(5)}
    kept = {n: Outcome(float(n < 1), 5) for n in range(5)}
    effect = effect_of(Outcomes(won, kept))
    hazards = two_hazards([finding(n, effect=effect, resampled=effect) for n in range(1, 11)])
    assert hazards is not None
    for mean in (hazards.summary, hazards.prompt):
        assert mean.value == pytest.approx(0.6)
        half = 1.96 * (10 * 2 * 0.8 * 0.2 / 4) ** 0.5 / 10
        assert mean.low <= 0.6 - half + 1e-4
        assert mean.high == pytest.approx(0.6 + half, abs=1e-4)


@given(some_findings())
def test_a_mean_hazard_stays_within_what_is_possible(findings: Verification) -> None:
    if (hazards := statement_of(findings).two_hazards) is not None:
        for mean in (hazards.summary, hazards.prompt):
            assert -1 <= mean.low <= mean.value <= mean.high <= 1


def test_hazards_are_confirmed_only_where_all_boundaries_have_fresh_pairs() -> None:
    with_pairs = finding(1, effect=lost(), confirmed=lost(), resampled=lost())
    without = finding(2, effect=lost(), resampled=lost())
    assert two_hazards([]) is None
    for some, confirmed in (([with_pairs], True), ([with_pairs, without], False), ([without], False)):
        hazards = two_hazards(some)
        assert hazards is not None
        assert hazards.confirmed is confirmed


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"harmful": 1}, "1 of 1 compaction looks harmful, with enough draws to diagnose."),
        ({"harmful": 2}, "2 of 2 compactions look harmful, all with enough draws to diagnose."),
        (
            {"suspected": 1, "harmless": 1},
            "1 of 2 compactions looks harmful, with too few draws to diagnose; 1 is not harmful.",
        ),
        ({"suspected": 2}, "2 of 2 compactions look harmful; none of them have enough draws to diagnose."),
        ({"harmful": 1, "suspected": 1}, "2 of 2 compactions look harmful; 1 of them has enough draws to diagnose."),
        ({"helped": 2, "open": 1}, "None of 3 compactions look harmful; 2 helped, 1 has no verdict."),
        ({"harmless": 2, "open": 2}, "None of 4 compactions look harmful; 2 are not harmful, 2 have no verdict."),
    ],
)
def test_the_headline_counts_every_kind_in_words_that_agree(kinds: dict[Any, int], said: str) -> None:
    assert headline(kinds) == said
