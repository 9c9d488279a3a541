"""What the report says in words: never more than the intervals allow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_support import arm

from recompact.attribution.effects import effect_of
from recompact.attribution.judgement import Verification
from recompact.attribution.registry import allocation_named
from recompact.attribution.statement import headline, statement_of
from recompact.engine.config import VerifyConfig
from recompact.engine.store.runs import BoundaryRow
from recompact.engine.store.verdicts import Verdict
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.paired import compare, difference_warnings
from recompact.presentation.report.content.answer import (
    COST,
    GAIN,
    ArmContrast,
    Harm,
    arm_contrast,
    claim_of,
    harm_claim,
    harm_details,
    harm_of,
    metric_verdict,
    reverse,
)
from recompact.presentation.report.content.lead import next_steps
from recompact.values.outcome import BoundaryId, Outcome, Outcomes

GOOD, FAIR, BAD = ["111"] * 30, ["111"] * 27 + ["000"] * 3, ["111"] * 10 + ["000"] * 20


def of(first: ArmRuns, second: ArmRuns) -> ArmContrast:
    return arm_contrast(compare(first, second, resamples=500))


def test_a_loss_is_called_one() -> None:
    found = of(arm("prompting", BAD, "history"), arm("none", GOOD))
    claim = claim_of(found, COST)
    assert claim.text == "Compaction makes this agent fail more often."
    assert claim.numbers[0].startswith("prompting/history against none: Accuracy −66.7 points, 95 % interval −8")
    accuracy = found.changes[0]
    assert (accuracy.verdict, accuracy.words) == ("worse", "Accuracy falls.")
    assert accuracy.numbers.startswith("From 100.0 % to 33.3 %: −66.7 points, 95 % interval −")
    assert found.changes[1].words == "Tasks solved in all 3 runs (Pass^3) fall."


def test_no_evidence_is_called_no_evidence() -> None:
    mixed = ["111", "000"] * 15
    found = of(arm("prompting", mixed, "history"), arm("none", ["000", "111"] * 15))
    claim = claim_of(found, COST)
    assert claim.text == "There is no evidence that compaction changes how often this agent succeeds."
    assert "interval −" in claim.numbers[0]
    assert " to +" in claim.numbers[0]
    assert found.changes[0].words == "Accuracy: no evidence of a difference."
    longer = of(arm("prompting", mixed, steps=20), arm("none", ["000", "111"] * 15, steps=10))
    assert claim_of(longer, COST).text.endswith("succeeds, but it takes more steps.")
    assert (
        "; Steps +10.0, 95 % interval +10.0 to +10.0." in claim_of(longer, COST).numbers[0]
    )  # a sentence has its numbers
    assert claim_of(longer, COST, steps=False).text == claim.text
    assert claim_of(turned_of(longer), GAIN).text.endswith("succeeds, and it takes fewer steps.")


def turned_of(found: ArmContrast) -> ArmContrast:
    return arm_contrast(reverse(found.comparison))


def test_a_gain_is_called_one() -> None:
    found = of(arm("PAIR", GOOD, "history"), arm("prompting", BAD, "history"))
    assert claim_of(found, GAIN).text == "With the adapted prompt the agent succeeds more often."
    assert found.changes[0].verdict == "better"
    assert claim_of(found, COST).text == "Compaction makes this agent succeed more often."
    lost = turned_of(found)
    assert claim_of(lost, GAIN).text == "With the adapted prompt the agent succeeds less often."
    assert lost.changes[0].verdict == "worse"


def test_a_single_run_says_nothing_about_reliability() -> None:
    found = of(arm("prompting", ["0"] * 15 + ["1"] * 5), arm("none", ["1"] * 20))
    assert claim_of(found, COST).text == "Compaction makes this agent fail more often."
    assert [change.metric for change in found.changes] == ["acc", "steps", "tokens"]
    assert any("three times" in step.text for step in next_steps([found], [], [], simulated=False))


def test_reliability_can_fall_where_accuracy_does_not() -> None:
    uneven = of(arm("prompting", ["110"] * 30), arm("none", ["111"] * 20 + ["000"] * 10))
    assert (uneven.verdict("acc"), uneven.verdict("pass^3")) == ("unclear", "worse")
    claim = claim_of(uneven, COST)
    assert claim.text == "Compaction makes this agent less reliable: it solves fewer tasks every time."
    assert claim.numbers[0].startswith("prompting against none: Pass^3 −66.7 points")  # what the claim is about
    back = turned_of(uneven)
    assert claim_of(back, COST).text == "Compaction makes this agent more reliable: it solves more tasks every time."
    assert claim_of(back, GAIN).text.startswith(
        "With the adapted prompt the agent is more reliable: it solves more tasks"
    )


def test_of_one_arm_under_two_names_nothing_is_claimed() -> None:
    twins = [replace(arm(name, FAIR), settings={"key": "k"}) for name in ("kept", "prompting")]
    one = of(*twins)
    assert claim_of(one, GAIN).text == "kept is prompting under another name: they share their trajectories."
    assert one.changes[0].numbers == "90.0 % in both arms. Both are one arm, with the same trajectories."
    (said,) = difference_warnings([one.comparison])
    assert said == "Nothing can differ from prompting: both are one arm, with the same trajectories."
    longer = of(replace(arm("kept", FAIR, steps=20), settings={"key": "k"}), twins[1])  # the same arm, drawn again
    assert not longer.comparison.one_arm


def test_equal_arms_and_few_tasks() -> None:
    same = of(arm("prompting", FAIR), arm("none", FAIR))
    assert {change.verdict for change in same.changes} == {"same"}
    bound = "30 tasks cannot exclude a difference of up to 9.5 points."
    assert claim_of(same, COST).text == f"Every task succeeded in as many runs with compaction and without: {bound}"
    assert claim_of(same, GAIN).text == (
        f"Every task succeeded in as many runs with the adapted prompt and with the original: {bound}"
    )
    assert claim_of(same, COST).numbers == (
        "prompting against none: Accuracy 90.0 % in both arms, the same in every task.",
    )
    accuracy, _, steps, _ = same.changes
    assert (accuracy.words, accuracy.numbers) == ("Accuracy: the same in every task.", f"90.0 % in both arms. {bound}")
    assert steps.words == "Steps per task: the same in every task."
    assert steps.numbers.endswith(" in both arms. 30 tasks cannot exclude that up to 9.5 % of tasks differ.")
    once = of(arm("prompting", ["1"] * 6), arm("none", ["1"] * 6))
    assert claim_of(once, COST).text == (
        "Every task ended the same way with compaction and without: 6 tasks cannot exclude a difference of up to 39.3"
        " points."
    )
    assert "more than 30 tasks" in " ".join(step.text for step in next_steps([same], [], [], simulated=False))
    few = of(arm("prompting", ["000"] * 3), arm("none", ["111"] * 3))
    assert not few.comparison.of("acc").excludes_zero
    assert metric_verdict(few.comparison.of("acc"), 3) == "too few"
    assert claim_of(few, COST).text == "3 tasks cannot tell what compaction does to this agent."
    assert few.changes[0].numbers == "100.0 % became 0.0 %, on 3 tasks."
    assert few.changes[2].numbers == "11.0 in both arms, on 3 tasks."


def test_what_rests_on_too_few_tasks_is_not_said() -> None:
    lost = of(arm("prompting", ["000"] * 4 + ["111"] * 96), arm("none", ["111"] * 100))
    assert lost.comparison.of("acc").excludes_zero  # and yet
    assert (lost.verdict("acc"), lost.verdict("pass^3")) == ("few differ", "few differ")
    assert lost.changes[0].words == "Accuracy: 4 tasks that differ, too few to say."
    assert (
        claim_of(lost, COST).text == "4 of 100 tasks ended differently with compaction: too few to tell what it does."
    )
    assert "interval −" in claim_of(lost, COST).numbers[0]
    assert claim_of(lost, GAIN).text.endswith("with the adapted prompt: too few to tell if it helps.")
    slow = of(arm("prompting", ["111"] * 19, steps=20), arm("none", ["111"] * 19, steps=10))
    steps = next(change for change in slow.changes if change.metric == "steps")
    assert (steps.verdict, steps.words) == ("too few", "Steps per task: too few tasks to say.")
    assert steps.numbers == "From 10.9 to 20.9: +10.0, 95 % interval +10.0 to +10.0."


def test_fewer_steps_are_better() -> None:
    found = of(arm("PAIR", FAIR, steps=8), arm("prompting", FAIR, steps=12))
    steps = next(change for change in found.changes if change.metric == "steps")
    assert (steps.verdict, steps.words) == ("better", "Steps per task fall.")
    tokens = next(change for change in found.changes if change.metric == "tokens")
    assert tokens.numbers.startswith("From 12.1 thousand to 8.1 thousand: −4.0 thousand")


def test_a_comparison_turned_round_is_the_comparison_the_other_way() -> None:
    one, other = arm("a", ["110", "000", "111", "011"] * 6), arm("b", ["000", "111", "111", "001"] * 6, steps=14)
    there, back = compare(one, other), compare(other, one)
    for d, e in zip(reverse(there).differences, back.differences, strict=True):
        assert (d.metric, d.first, d.second) == (e.metric, e.first, e.second)
        assert (d.delta, d.low, d.high) == pytest.approx((e.delta, e.low, e.high), abs=1e-9)
    assert (reverse(there).wins, reverse(there).losses, there.p) == (back.wins, back.losses, back.p)


# --- boundaries


def finding(n: int, pre: float, post: float, *, retained: bool, longer: int = 0) -> Verdict:
    outcomes = Outcomes({0: Outcome(pre, 5), 1: Outcome(pre, 5)}, {0: Outcome(post, 5 + longer)})
    row = BoundaryRow(f"collect/t{n}", 1, f"t{n}", 4, 3000, 900, 12, True)
    return Verdict(
        BoundaryId(row.unit, 1), row, "retained" if retained else "not harmful", outcomes, effect_of(outcomes)
    )


def test_harm_is_counted_by_channel_with_the_interval_of_the_share() -> None:
    bad = [
        finding(0, 1.0, 0.0, retained=True),
        finding(1, 1.0, 1.0, retained=True, longer=9),
        finding(2, 1.0, 0.0, retained=True, longer=9),
        finding(3, 1.0, 0.8, retained=True),
    ]
    fine = [finding(n, 1.0, 1.0, retained=False) for n in range(4, 40)]
    row = fine[0].row
    nothing = Verdict(BoundaryId(row.unit, 2), row, "no draws", Outcomes(), None)
    harm = harm_of(Verification(VerifyConfig(), True, (*bad, *fine, nothing)), trajectories=50)
    assert (harm.statement.examined, harm.harmful, harm.statement.kinds["open"]) == (40, 4, 1)
    assert harm.channels == {"error": 1, "burden": 1, "both": 1, "none": 1}
    assert harm_claim(harm).text == headline({"harmful": 4, "harmless": 36, "open": 1})
    assert harm_claim(harm).numbers == harm.statement.sentences()[1:]
    assert harm_claim(harm).numbers[0].startswith("4 of 40 boundaries were retained (H >= 0.5 or B >= 5")
    said = " ".join(harm_details(harm))
    assert "40 boundaries in 40 of 50 trajectories" in said
    assert "1 lost success (error), 1 added steps (burden), 1 did both, 1 reached neither threshold" in said


def test_an_unfinished_verification_says_so() -> None:
    worse = replace(finding(0, 1.0, 0.0, retained=False), reason="harmful so far")
    same = replace(finding(1, 1, 1, retained=False), reason="unfinished")
    harm = harm_of(Verification(VerifyConfig(), False, (worse, same)), 2)
    assert harm_claim(harm).text == headline({"suspected": 1, "open": 1}, settled=False)
    assert (harm.harmful, harm.suspected, harm.channels) == (0, 1, {"error": 1})
    assert next_steps([], [], [("mine", harm)], simulated=False)[0].command == "recompact verify mine"
    assert (
        harm_claim(harm_of(Verification(VerifyConfig(), True, ()), 3)).text
        == "Nothing was compacted, so there is nothing to verify."
    )


@pytest.mark.parametrize("allocation", ["halving", "uniform:9", "racing", "chained:racing", "chained"])
def test_what_harmful_means_is_the_rule_of_the_allocation(allocation: str) -> None:
    settings = VerifyConfig(allocation=allocation)
    harm = harm_of(Verification(settings, True, (finding(0, 1.0, 0.0, retained=True),)), 1)
    assert harm.statement.rule in harm_details(harm)[1]
    assert allocation_named(settings).description in harm_details(harm)[1]


# --- what to do next


def harm(harmful: int, settled: bool = True) -> Harm:
    empty = statement_of(Verification(VerifyConfig(), settled, ()))
    return Harm(replace(empty, kinds={"harmful": harmful}), {"error": harmful}, 20, 20)


def test_next_steps_follow_from_what_was_found() -> None:
    gain = of(arm("PAIR", GOOD, "history"), arm("prompting", BAD, "history"))
    cost = of(arm("prompting", BAD, "history"), arm("none", GOOD))
    even = of(arm("PAIR", ["111", "000"] * 15), arm("prompting", ["000", "111"] * 15))

    def told(*arguments: object, simulated: bool = False, adapted: bool = False) -> str:
        steps = next_steps(*arguments, simulated=simulated, adapted=adapted)  # type: ignore[arg-type]
        return " | ".join(f"{step.text} {step.command}" for step in steps)

    assert "Use the template of PAIR/history" in told([cost], [gain], [("r", harm(3))])
    assert "Keep the original template" in told([cost], [turned_of(gain)], [("r", harm(3))])
    assert "No template has shown a gain yet" in told([cost], [even], [("r", harm(3))])
    assert "more than 30 tasks" in told([even], [], [("r", harm(3))])
    assert "recompact adapt CONFIG" in told([cost], [], [("r", harm(3))])
    assert "recompact adapt" not in told([cost], [], [("r", harm(0))])
    assert "No compaction showed harm" in told([cost], [], [("r", harm(0))])
    assert "recompact verify CONFIG" in told([cost], [], [])
    assert "recompact evaluate CONFIG --arm none --arm prompting" in told([], [], [("r", harm(3))])
    # A run that was adapted already is to be evaluated, not adapted.
    after = told([], [], [("r", harm(3))], adapted=True)
    assert "recompact adapt" not in after
    assert "recompact evaluate CONFIG --arm none --arm prompting --runs 3 --arm adapted=DIRECTORY" in after
    assert "But PAIR/history did worse." not in told([], [gain], [])
    mixed = told([], [turned_of(gain), gain], [])
    assert "Use the template of PAIR/history" in mixed
    assert "But prompting/history did worse." in mixed
    assert "recompact verify 'my run.db'" in told([], [], [("my run.db", harm(3, settled=False))])
    assert "simulated" in told([cost], [], [], simulated=True)
    assert "simulated" not in told([cost], [], [])


def test_a_template_that_saves_steps_is_worth_a_try() -> None:
    cheaper = of(arm("PAIR", ["111", "000"] * 15, steps=6), arm("prompting", ["000", "111"] * 15, steps=12))
    (step, *_) = next_steps([], [cheaper], [], simulated=False)
    assert step.text.startswith("The template of PAIR saves work")
