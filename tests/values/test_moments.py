"""Events of a session become the contexts around each compaction."""

from __future__ import annotations

from collections.abc import Iterable

from recompact.values.moments import Moment, moments
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    Kept,
    KeptBut,
    KeptFrom,
    KeptKeys,
    KeptNothing,
    NewSession,
    Passage,
    Result,
    Rewind,
)
from recompact.values.tokens import counter

COUNT = counter("o200k")


def of(events: Iterable[Event]) -> list[Moment]:
    return list(moments(events, COUNT))


def step(n: int) -> list[Event]:
    return [Call(f"c{n}", "read", {"path": f"file{n}.py"}, key=f"k{n}"), Result(f"c{n}", f"text {n}", key=f"r{n}")]


def session(kept: Kept, summary: str | None = "so far") -> list[Event]:
    start: list[Event] = [Passage("system", "Be good.", "s"), Passage("user", "Fix it.", "u")]
    return [*start, *step(1), *step(2), *step(3), CompactionEvent(kept, summary, line=9), *step(4), *step(5)]


def paths(moment: Moment) -> list[str]:
    assert moment.post is not None
    return [call.arguments for turn in moment.post.turns for call in turn.message.calls]


def test_contexts_before_and_after() -> None:
    only, end = of(session(KeptNothing()))
    assert [message.content for message in only.pre.prefix] == ["Be good.", "Fix it."]
    assert [turn.results[0].content for turn in only.pre.turns] == ["text 1", "text 2", "text 3"]
    assert only.post is not None
    assert only.post.summary is not None
    assert (only.post.summary.text, only.post.turns) == ("so far", ())
    assert [message.content for message in only.post.prefix] == ["Be good."]
    assert [turn.results[0].content for turn in only.later] == ["text 4", "text 5"]
    assert (only.index, only.line, end.index, len(end.pre.turns)) == (1, 9, 0, 2)
    assert only.pre.size > only.post.size > 0


def test_what_stays_visible() -> None:
    for kept in (KeptFrom("k3"), KeptKeys(frozenset({"k3", "u"})), KeptBut(frozenset({"k1", "r1", "k2", "r2"}))):
        only, _ = of(session(kept))
        assert paths(only) == ['{"path": "file3.py"}'], kept
    only, _ = of(session(KeptFrom("nowhere")))
    assert paths(only) == []
    keeping, _ = of(session(KeptKeys(frozenset({"u"}))))
    assert keeping.post is not None
    assert [message.content for message in keeping.post.prefix] == ["Be good.", "Fix it."]


def test_an_unreadable_summary_and_several_sessions() -> None:
    first, _, second, _ = of([*session(KeptNothing(), None), NewSession(), *session(KeptNothing())])
    assert (first.post, first.index, second.index) == (None, 1, 1)
    assert len(second.pre.turns) == 3


def test_a_second_compaction_begins_with_the_first_summary() -> None:
    again = CompactionEvent(KeptNothing(), "all of it")
    first, second, end = of([*session(KeptNothing()), again, Passage("user", "Go on."), Passage("assistant", "Yes.")])
    assert (first.index, second.index) == (1, 2)
    assert second.pre.summary is not None
    assert second.pre.summary.text == "so far"
    assert len(second.pre.turns) == 2
    assert [message.content for turn in second.later for message in turn.messages] == ["", "Go on.", "Yes."]
    assert end.pre.summary is not None
    assert end.pre.summary.text == "all of it"


def test_abandoned_branches_are_not_seen() -> None:
    only, _ = of([*step(1), *step(2), Rewind("k1"), *step(3), CompactionEvent(KeptNothing(), "x"), *step(4)])
    assert [turn.results[0].content for turn in only.pre.turns] == ["text 1", "text 3"]


def test_calls_of_one_response_are_one_turn() -> None:
    def call(n: int) -> Call:
        return Call(f"c{n}", "read", {}, batch="b", key=f"k{n}")

    (end,) = of([call(1), Result("c1", "one"), call(2), Result("c2", "two")])
    assert [len(turn.message.calls) for turn in end.pre.turns] == [2]
    assert [message.content for message in end.pre.turns[0].results] == ["one", "two"]


def test_nothing_gives_nothing() -> None:
    assert of([]) == []
    assert [moment.index for moment in of([CompactionEvent(KeptNothing(), "x")])] == [1]
