"""Probes: what later calls used of what was consumed, and whether a text still shows it."""

from __future__ import annotations

import json

from recompact.evaluation.probes import FACTS, CompactionPoint, Probe, point_of_compaction
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.session import SessionCompaction
from recompact.values.tokens import counter

COUNT = counter("o200k")


def turn(text: str, *results: Message, **call: object) -> Turn:
    calls = (ToolCall("c", "pay", json.dumps(call)),) if call else ()
    return Turn.measured(Message("assistant", text, calls), results, COUNT)


PREFIX = (system("Be good."), user("Pay the bills of account a-1."))
OLD = turn("", Message("tool", "token tok-7f3a, invoice inv-42, also inv-43", call_id="c"), what="bills")
SAID = turn("ok", user("Never pay more than 50 without asking."))
LAST = turn("", Message("tool", "due: inv-43", call_id="c"), what="due")
NEXT = turn("", token="tok-7f3a", invoice="inv-43", account="a-1")
LATER = turn("", token="tok-7f3a", invoice="inv-42")


def point(later: tuple[Turn, ...] = (NEXT, LATER), recorded: Context | None = None) -> CompactionPoint:
    return CompactionPoint("x#1", Context(PREFIX, turns=(OLD, SAID, LAST)), recorded, later, later[:1])


def of_kind(point: CompactionPoint, kind: str) -> list[Probe]:
    return [probe for probe in point.probes if probe.kind == kind]


def test_facts_are_what_was_consumed_and_used() -> None:
    facts = of_kind(point(), "fact")
    assert [fact.answer for fact in facts] == ["tok-7f3a", "inv-42"]  # a-1 and inv-43 stay visible anyway
    assert all(fact.answer not in fact.question and "____" in fact.question for fact in facts)
    assert "inv-43" in facts[0].question  # the rest of the call is shown
    assert of_kind(point(later=()), "fact") == []


def test_rules_and_the_next_call() -> None:
    (rule,), (following,) = of_kind(point(), "rule"), of_kind(point(), "next")
    assert rule.answer == "Never pay more than 50 without asking."
    assert rule.answer not in rule.question
    assert rule.shown_in("- never pay more than 50 without asking")
    assert not rule.shown_in("paid 50")
    assert following.answered_by('`pay({"account": "a-1", "invoice": "inv-43", "token": "tok-7f3a"})`')
    assert not following.answered_by("pay({})")
    assert not following.answered_by("unknown")


def test_open_work_is_what_was_still_done() -> None:
    (work,) = of_kind(point(), "open")
    assert [line.partition("(")[0] for line in work.answer.splitlines()] == ["pay", "pay"]
    assert not work.shown_in(work.answer)  # no rule can tell
    assert of_kind(point(later=(NEXT, NEXT)), "open") == []  # one step is the next one


def test_an_answer_needs_the_whole_value() -> None:
    fact = of_kind(point(), "fact")[0]
    assert fact.answered_by("It is `tok-7f3a`.")
    assert not fact.answered_by("tok-7f3")
    assert not fact.answered_by("tok-7f3ab")
    assert not fact.answered_by("")


def test_only_so_many_facts_are_asked_for() -> None:
    ids = [f"id-{n}x" for n in range(3 * FACTS)]
    old = turn("", Message("tool", " ".join(ids), call_id="c"), what="all")
    later = tuple(turn("", id=each) for each in ids)
    many = CompactionPoint("x#1", Context(PREFIX, turns=(old, LAST)), None, later)
    assert [fact.answer for fact in many.facts] == ids[:FACTS]


def test_the_latest_history_of_a_size() -> None:
    whole = point()
    assert "Pay the bills" in whole.latest(1)
    assert "tok-7f3a" not in whole.latest(LAST.tokens)
    assert "inv-43" in whole.latest(LAST.tokens)
    assert "tok-7f3a" in whole.latest(10_000)
    summed = CompactionPoint("x#1", Context(PREFIX, Summary("earlier tok-1", 4), (OLD, LAST)), None, ())
    assert "tok-1" in summed.latest(10)
    assert "tok-1" not in summed.latest(3)


def test_a_session_is_asked_for_what_its_commands_name() -> None:
    read = Message("assistant", "", (ToolCall("1", "Read", json.dumps({"file_path": "/w/src/app/main.py"})),))
    edit = {"file_path": "/w/src/app/main.py", "new_string": "see 3f2a9c1b and long_name_here"}
    later = Turn.measured(Message("assistant", "", (ToolCall("2", "Edit", json.dumps(edit)),)), (), COUNT)
    old = Turn.measured(read, (Message("tool", "3f2a9c1b long_name_here", call_id="1"),), COUNT)
    pre = Context((), turns=(old, turn("thinking")))
    moment = SessionCompaction(pre, Context((), Summary("worked on main.py", 5)), (later, later), 1)
    made = point_of_compaction(moment, "s.jsonl")
    assert [fact.answer for fact in made.facts] == ["/w/src/app/main.py"]  # and nothing of the body
    assert made.recorded is not None
    assert made.facts[0].shown_in("worked on main.py")  # a file's name is enough for its path
    assert (made.name, made.budget) == ("s.jsonl#1", 5)
    assert point_of_compaction(moment, "s.jsonl", 99).budget == 99


def test_odd_points_have_no_probes() -> None:
    empty = CompactionPoint("x#1", Context(()), None, (turn(""), turn("text only")))
    assert empty.probes == ()
    broken = Turn.measured(Message("assistant", "", (ToolCall("1", "pay", "{not json"),)), (), COUNT)
    assert CompactionPoint("x#1", Context((), turns=(OLD, LAST)), None, (broken,)).facts == ()
    assert assistant("x").content == "x"
