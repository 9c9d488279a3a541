"""Pairs, gates and shares of probes by their numbers, without anything being played."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from recompact.compressors.protocol import Compaction
from recompact.environments.protocol import Task
from recompact.evaluation.gate import Gate, Pair, Result, Verdict
from recompact.evaluation.probes import BLANK, STEPS, CompactionPoint, Probe, point_of_compaction
from recompact.evaluation.probing import (
    FULL,
    Compacted,
    Condition,
    ProbeResult,
    Probing,
    Share,
    _condition,
    compaction_unit,
    unit_name,
)
from recompact.values.betting import first_above
from recompact.values.candidate import read_record
from recompact.values.chat import Message, ToolCall, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.literals import Literal
from recompact.values.session import SessionCompaction


def pair(base: float | None, new: float | None, item: str = "a", run: int = 0) -> Pair:
    return Pair(item, run, Result(base, 10 if base else 20), Result(new, 12 if new else None))


VALUES = st.none() | st.sampled_from([0.0, 0.25, 1.0])
GATES = st.lists(st.tuples(VALUES, VALUES), max_size=40).map(
    lambda pairs: Gate("old", "new", margin=20.0, items=4, pairs=tuple(pair(*each) for each in pairs))
)


@given(VALUES, VALUES)
def test_a_broken_side_makes_the_difference_as_bad_as_it_can_be(base: float | None, new: float | None) -> None:
    one = pair(base, new)
    known = [0.0, 1.0]
    possible = [n - b for n in ([new] if new is not None else known) for b in ([base] if base is not None else known)]
    assert (one.difference(-1.0), one.difference(1.0)) == (min(possible), max(possible))
    assert one.complete == (len(possible) == 1)


@given(GATES)
def test_a_gate_is_settled_by_the_first_pairs_that_show_it(gate: Gate) -> None:
    verdict, after = gate.settled
    shown = first_above([each.difference(-1.0) for each in gate.pairs], -0.2)
    refuted = first_above([-each.difference(1.0) for each in gate.pairs], 0.0)
    codes: dict[Verdict, int] = {"not worse": 0, "worse": 1, "cannot tell": 3}
    assert gate.exit_code == codes[verdict]
    if verdict == "cannot tell":
        assert (shown, refuted, after) == (None, None, len(gate.pairs))
    else:
        assert after == (shown if verdict == "not worse" else refuted) == min(filter(None, (shown, refuted)))
        assert gate.more == 0
    earlier = replace(gate, pairs=gate.pairs[:after])
    assert earlier.settled == gate.settled


@given(GATES)
def test_what_a_gate_counts_adds_up(gate: Gate) -> None:
    data = json.loads(json.dumps(gate.to_json()))
    ties = sum(each.difference(0) == 0 for each in gate.complete)
    assert gate.better + gate.worse + ties == len(gate.complete) == len(gate.pairs) - data["broken"]
    assert -100 <= gate.low <= gate.high <= 100
    if gate.complete:
        base, new = gate.mean("base", "value"), gate.mean("new", "value")
        assert base is not None
        assert new is not None
        assert gate.difference == pytest.approx(100 * (new - base))
    else:
        assert gate.difference is gate.mean("base", "value") is None
    assert data["settled_after"] == (None if gate.verdict == "cannot tell" else gate.settled[1])
    assert (data["margin"], data["items"], data["error"]) == (20.0, 4, 0.05)
    assert [each["item"] for each in data["pairs"]] == ["a"] * len(gate.pairs)


def test_means_are_of_what_is_known() -> None:
    gate = Gate("old", "new", pairs=(pair(1.0, 1.0), pair(1.0, 0.0), pair(None, 1.0)))
    assert (gate.mean("base", "amount"), gate.mean("new", "amount"), gate.mean("base", "value")) == (10, 12, 1.0)
    assert (gate.better, gate.worse, gate.difference) == (0, 1, -50)


def test_two_that_are_the_same_need_no_pair() -> None:
    same = Gate("old", "new", identical=True)
    assert (same.settled, same.low, same.high, same.more, same.exit_code) == (("not worse", 0), 0, 0, 0, 0)
    plain = Gate("old", "new")
    assert (plain.identical, plain.simulated, plain.margin, plain.items) == (False, False, 3.0, 0)
    assert (plain.verdict, plain.more, plain.low, plain.high) == ("cannot tell", None, -100, 100)


def test_either_claim_may_need_fewer_further_pairs() -> None:
    hopeless = Gate("old", "new", margin=1.0, pairs=(pair(1.0, 0.0),) * 2)
    hopeful = Gate("old", "new", margin=50.0, pairs=(pair(1.0, 1.0),) * 2)
    for gate in (hopeless, hopeful):
        assert gate.more is not None
        longer = replace(gate, pairs=gate.pairs[:1] * (len(gate.pairs) + gate.more))
        assert longer.verdict != "cannot tell"
        assert replace(longer, pairs=longer.pairs[1:]).verdict == "cannot tell"
    assert hopeless.high < hopeful.high


# --- probes


def fact(answer: str = "tok-7f3a") -> Probe:
    return Probe("fact", f"Which? {answer}", answer, Literal("value", answer, answer))


def asked(probe: Probe, shown: bool, again: bool | None, baseline: bool, right: bool | None = None) -> ProbeResult:
    return ProbeResult(probe, shown, again, baseline, None if right is None else "reply", right)


RULE = Probe("rule", "Which rule?", "Never pay.")
NEXT = Probe("next", "Which call?", "pay({})")


def condition(point: int, name: str, *probes: ProbeResult, tokens: int = 10) -> Condition:
    return Condition(f"p{point}", name, tokens, 100, probes)


def probing(points: int = 1) -> Probing:
    conditions = []
    for n in range(points):
        full = [asked(fact(), True, None, True, True), asked(fact("b-1"), True, None, True, True)]
        conditions.append(
            condition(n, FULL, *full, asked(RULE, True, None, True), asked(NEXT, True, None, True, False))
        )
        kept = [asked(fact(), True, True, False, True), asked(fact("b-1"), False, False, True, False)]
        kept += [
            asked(fact("c-2"), True, None, False),
            asked(RULE, False, None, False),
            asked(NEXT, False, None, False),
        ]
        conditions.append(condition(n, "arm", *kept, tokens=20 + n))
    return Probing(tuple(conditions), points + 2, 2, planted=(3, 4))


def test_shares_count_what_they_are_about() -> None:
    one = probing()
    assert one.names == (FULL, "arm")
    assert one.recall("arm") == Share(2 / 3, None, None)
    assert one.recall("arm", "rule") == Share(0.0, None, None)
    assert one.second("arm") == Share(1 / 2, None, None)  # of those that were looked at again
    assert one.gain("arm") == Share(1 / 3, None, None)  # two that the latest history lacks, one that it has
    assert one.answers("arm") == Share(1 / 2, None, None)
    assert one.answers(FULL, "fact") == Share(1.0, None, None)
    assert one.answers(FULL, "next") is None  # the model cannot answer it with the whole context either
    assert (one.recall("nobody"), one.second(FULL), one.answers("arm", "rule")) == (None, None, None)


def test_a_share_has_an_interval_where_there_are_enough_points() -> None:
    few, many = probing(4).recall("arm"), probing(60).recall("arm")
    assert few == Share(2 / 3, None, None)
    assert many is not None
    assert (many.value, many.low, many.high) == pytest.approx((2 / 3, 2 / 3, 2 / 3))


def test_a_record_of_probes_has_every_condition_and_the_mean_size() -> None:
    data = json.loads(json.dumps(probing(3).to_json()))
    assert (data["points"], data["unasked"], data["planted"]) == (5, 2, {"right": 3, "cases": 4})
    assert [(each["condition"], each["tokens"]) for each in data["summary"]] == [(FULL, 10), ("arm", 21)]
    assert data["summary"][1]["recall"] == [2 / 3, None, None]
    assert len(data["conditions"]) == 6
    first = data["conditions"][1]
    assert (first["point"], first["condition"], first["tokens"], first["before"]) == ("p0", "arm", 20, 100)
    assert [each["right"] for each in first["asked"]] == [True, False, None, None, None]
    compacted = Compacted(("a", "b"), (3, 4), "why")
    assert read_record(Compacted, json.loads(json.dumps(asdict(compacted)))) == compacted


def count(text: str) -> int:
    return len(text.split())


def turn(text: str, *results: Message, **call: object) -> Turn:
    calls = (ToolCall("c", "pay", json.dumps(call)),) if call else ()
    return Turn.measured(Message("assistant", text, calls), results, count)


PRE = Context(
    (system("Be good."), user("Pay.")),
    turns=(
        turn("", Message("tool", "see tok-7f3a and inv-42", call_id="c"), what="bills"),
        turn("ok", user("Never pay more than 50."), user("Error: you must never stop.")),
        turn("last"),
    ),
)


def point(*later: Turn, following: tuple[Turn, ...] = ()) -> CompactionPoint:
    return CompactionPoint("collect/a#1", PRE, None, later, following)


def test_what_comes_next_is_the_first_call_of_the_recorded_session() -> None:
    one, other = turn("", id="inv-42"), turn("", id="tok-7f3a")
    for following, answer in (((other,), 'pay({"id":"tok-7f3a"})'), ((), 'pay({"id":"inv-42"})')):
        (probe,) = [each for each in point(one, following=following).probes if each.kind == "next"]
        assert probe.answer == answer
    assert "next" not in {each.kind for each in point(turn("only text"), one).probes}


def test_open_work_is_the_next_different_calls() -> None:
    many = [turn("", n=n) for n in (1, 1, 2, 3, 4, 5, 6, 7)]
    (work,) = [each for each in point(*many).probes if each.kind == "open"]
    assert work.answer.splitlines() == [f'pay({{"n":{n}}})' for n in range(1, STEPS + 1)]
    long = turn("", body="x" * 1_000)
    (work,) = [each for each in point(long, many[0]).probes if each.kind == "open"]
    assert [len(line) for line in work.answer.splitlines()] == [160, len('pay({"n":1})')]


def test_a_rule_is_one_that_the_user_stated_in_what_was_consumed() -> None:
    rules = [each.answer for each in point(turn("", n=1)).probes if each.kind == "rule"]
    assert rules == ["Never pay more than 50."]
    stays = replace(PRE, prefix=(system("Never pay more than 50."),))
    assert not [each for each in CompactionPoint("x", stays, None, ()).probes if each.kind == "rule"]


def test_a_question_shows_the_surroundings_of_the_blank() -> None:
    (probe,) = point(turn("", id="tok-7f3a", zzz="y" * 2_000)).facts
    assert BLANK in probe.question
    (late,) = point(turn("", aaa="y" * 2_000, id="tok-7f3a")).facts
    shown = late.question.split("\n\n")[1]
    assert BLANK in shown
    assert len(shown) == 600 - len("tok-7f3a") + len(BLANK)
    assert late.answer not in late.question


def test_the_latest_history_grows_with_its_tokens() -> None:
    texts = [point().latest(tokens) for tokens in range(1, 60)]
    sizes = [len(text) for text in texts]
    assert all(small <= large for small, large in pairwise(sizes))
    whole = PRE.history
    assert texts[-1].endswith(whole)
    half = point().latest(sum(each.tokens for each in PRE.turns) // 2)
    assert len(whole) * 0.4 < len(half) - len(point().latest(0)) < len(whole) * 0.6


@pytest.mark.parametrize(
    ("post", "budget", "expected"),
    [
        (Context((), Summary("s", 7)), None, 7),
        (None, None, PRE.size // 5),
        (Context(()), None, PRE.size // 5),
        (None, 99, 99),
    ],
)
def test_others_have_as_many_tokens_as_the_harness_left(
    post: Context | None, budget: int | None, expected: int
) -> None:
    later = tuple(turn("", n=n) for n in range(5))
    made = point_of_compaction(SessionCompaction(PRE, post, later, 3), "s", budget)
    assert (made.name, made.budget, made.from_session) == ("s#3", max(1, expected), True)
    assert (made.later, made.following) == (later, later[:2])
    assert point_of_compaction(SessionCompaction(Context(()), None, ()), "s").budget == 1


def test_units_are_named_after_the_point() -> None:
    assert unit_name(point(), "ask", 3) == "replay/probe/a#1/ask/3"


def test_a_gate_as_a_record() -> None:
    pairs = (pair(1.0, 1.0), pair(1.0, 0.0, "b", 2), pair(None, 1.0, "c"))
    gate = Gate("old", "new", margin=20.0, items=4, pairs=pairs, unusable=("d",))
    data = gate.to_json()
    low, high, more = (data.pop(key) for key in ("low", "high", "more"))
    assert (low, high, more) == (gate.low, gate.high, gate.more)
    assert data == {
        "base": "old",
        "new": "new",
        "verdict": "cannot tell",
        "exit_code": 3,
        "margin": 20.0,
        "error": 0.05,
        "difference": -50.0,
        "settled_after": None,
        "items": 4,
        "noun": "task",
        "measure": "success",
        "identical": False,
        "broken": 1,
        "unusable": ["d"],
        "simulated": False,
        "pairs": [
            {
                "item": item,
                "run": run,
                "base": {"value": base, "amount": 10 if base else 20, "reason": ""},
                "new": {"value": new, "amount": 12 if new else None, "reason": ""},
            }
            for item, run, base, new in (("a", 0, 1.0, 1.0), ("b", 2, 1.0, 0.0), ("c", 0, None, 1.0))
        ],
    }


def test_probes_as_a_record() -> None:
    data = replace(probing(), asked_model="m", judge="j", left_out={"p9": "gone"}).to_json()
    conditions, summary = data.pop("conditions"), data.pop("summary")
    assert data == {
        "points": 3,
        "unasked": 2,
        "asked_model": "m",
        "judge": "j",
        "planted": {"right": 3, "cases": 4},
        "simulated": False,
        "left_out": {"p9": "gone"},
    }
    assert summary[1] == {
        "condition": "arm",
        "recall": [2 / 3, None, None],
        "rules": [0.0, None, None],
        "second": [0.5, None, None],
        "gain": [1 / 3, None, None],
        "answers": [0.5, None, None],
        "tokens": 20.0,
    }
    assert (summary[0]["second"], summary[0]["rules"]) == (None, [1.0, None, None])
    assert conditions[1]["asked"][1] == {
        "kind": "fact",
        "question": "Which? b-1",
        "answer": "b-1",
        "shown": False,
        "shown_again": False,
        "baseline": True,
        "reply": "reply",
        "right": False,
        "judged": False,
    }
    arm = probing().conditions[1]
    assert (arm.kept(), arm.kept("rule"), arm.kept("open")) == ((2, 3), (0, 1), (0, 0))


@pytest.mark.parametrize(("points", "interval"), [(5, False), (6, True)])
def test_an_interval_needs_six_points(points: int, interval: bool) -> None:
    share = probing(points).recall("arm")
    assert share is not None
    assert (share.low is not None, share.high is not None) == (interval, interval)


@pytest.mark.parametrize(("tokens", "characters"), [(0, 0), (10, 10), (99, 99), (100, 100), (500, 100)])
def test_the_latest_history_is_its_last_share(tokens: int, characters: int) -> None:
    """Of a hundred characters with a token each; a summary is shown where there is room besides it."""
    text = Turn(Message("assistant", "y" * 88), (), 100)
    assert len(Context((), turns=(text,)).history) == 100
    plain = CompactionPoint("p", Context((), turns=(text,)), None, ())
    history = plain.pre.history
    assert plain.latest(tokens) == "\n" + history[100 - characters :]
    told = CompactionPoint("p", Context((), Summary("sum", 10), (text,)), None, ())
    shown = max(0, min(100, tokens - 10))
    summary = "sum" if tokens > 10 else ""
    assert told.latest(tokens) == f"{summary}\n{told.pre.history[100 - (shown if summary else characters) :]}"


def test_a_context_without_turns_has_no_latest_history() -> None:
    assert CompactionPoint("p", Context((user("Go."),)), None, ()).latest(50) == "Go.\n"


def test_the_second_generation_is_asked_for_what_nothing_showed_between() -> None:
    facts = [fact("tok-7f3a"), fact("inv-42")]
    one = replace(point(turn("", id="tok-7f3a"), turn("", id="inv-42")), following=(turn("see inv-42"),))
    assert [each.answer for each in one.facts] == [each.answer for each in facts]
    for texts, again in (
        (("tok-7f3a", "tok-7f3a"), [True, None]),
        (("tok-7f3a", "gone"), [False, None]),
        (("tok-7f3a",), [None, None]),
        ((), [None, None]),
    ):
        made = _condition(one, "arm", Compacted(texts, (7, 8)[: len(texts)]), {})
        own = [each for each in made.asked if each.probe.kind == "fact"]
        assert [each.shown_again for each in own] == again
        assert [each.shown for each in own] == [bool(texts), False]
        assert (made.tokens, made.before, made.point) == (7 if texts else 0, PRE.size, "collect/a#1")
        assert [(each.reply, each.right) for each in own] == [(None, None)] * 2


async def test_a_compressor_is_told_what_the_user_said_and_compacts_twice_where_the_session_went_on() -> None:
    tasks: list[Task] = []
    budgets: list[int] = []

    class Keeps:
        async def compress(self, context: Context, budget: int) -> Compaction:
            budgets.append(budget)
            return Compaction(replace(context, summary=Summary(f"{len(budgets)} so far", 3), turns=context.turns[-1:]))

    def compressor(calls: Any, task: Task, opening: Any) -> Keeps:
        tasks.append(task)
        return Keeps()

    under = SimpleNamespace(compressor=compressor, config=SimpleNamespace(compressor=SimpleNamespace(budget=70)))
    arm = SimpleNamespace(study=lambda study: under)
    prefix = (system("Be good."), user("Pay."), Message("assistant", "I do."), user("Now."))
    one = replace(point(following=(turn("more"),)), pre=replace(PRE, prefix=prefix))
    study: Any = SimpleNamespace(store=None)
    for made, generations in ((one, 2), (replace(one, budget=50), 1), (replace(one, following=()), 2)):
        budgets.clear()
        played = await compaction_unit(study, "u", made, arm, generations).play(None)  # type: ignore[arg-type]
        twice = bool(made.following) and generations > 1
        assert budgets == [made.budget or 70] * (1 + twice)
        assert len(played["texts"]) == len(played["tokens"]) == 1 + twice
        assert played["failed"] == ""
    assert {task.text for task in tasks} == {"Pay.\nNow."}
