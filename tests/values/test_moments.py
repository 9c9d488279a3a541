"""Events of a session become the contexts around each compaction."""

from __future__ import annotations

from collections.abc import Iterable

from recompact.values.session import (
    LATER,
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
    SessionCompaction,
    moments,
)
from recompact.values.tokens import counter

COUNT = counter("o200k")


def of(events: Iterable[Event]) -> list[SessionCompaction]:
    return list(moments(events, COUNT))


def step(n: int) -> list[Event]:
    return [Call(f"c{n}", "read", {"path": f"file{n}.py"}, key=f"k{n}"), Result(f"c{n}", f"text {n}", key=f"r{n}")]


def session(kept: Kept, summary: str | None = "so far") -> list[Event]:
    start: list[Event] = [Passage("system", "Be good.", "s"), Passage("user", "Fix it.", "u")]
    return [*start, *step(1), *step(2), *step(3), CompactionEvent(kept, summary, line=9), *step(4), *step(5)]


def paths(moment: SessionCompaction) -> list[str]:
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


def test_a_rewind_keeps_what_it_goes_back_to() -> None:
    for back, left in (("r2", ["text 1", "text 2"]), ("k1", ["text 1"]), ("nowhere", [])):
        (end,) = of([*step(1), *step(2), *step(3), Rewind(back), *step(4)])
        assert [turn.results[0].content for turn in end.pre.turns] == [*left, "text 4"]


def test_what_has_no_key_stays_only_where_all_but_some_stays() -> None:
    start: list[Event] = [Passage("user", "Fix it."), Passage("assistant", "I look."), *step(1)]

    def left(kept: Kept) -> tuple[int, int]:
        only, _ = of([*start, CompactionEvent(kept, "so far"), *step(2)])
        assert only.post is not None
        return len(only.post.prefix), len(only.post.turns)

    assert left(KeptBut(frozenset({"k1"}))) == (1, 1)
    assert left(KeptBut(frozenset({"", "k1", "r1"}))) == (0, 0)
    assert left(KeptKeys(frozenset({"r1"}))) == (0, 1)
    assert left(KeptFrom("k1")) == (0, 1)
    assert left(KeptNothing()) == (0, 0)


def test_a_restated_message_stands_beside_the_summary_and_an_empty_one_changes_nothing() -> None:
    def summary(event: CompactionEvent) -> str:
        *_, end = of([*session(KeptNothing()), event, *step(6)])
        return end.pre.summary.text if end.pre.summary else ""

    assert summary(CompactionEvent(KeptNothing(), "again", restated="He said: go.")) == "again\nHe said: go."
    assert summary(CompactionEvent(KeptNothing(), None)) == "so far"
    assert summary(CompactionEvent(KeptNothing(), "x", kind="clearing")) == "so far"


def test_only_so_many_turns_are_kept_for_later() -> None:
    events = [*step(1), CompactionEvent(KeptNothing(), "x")]
    for n in range(2, 60):
        events += step(n)
    only, end = of(events)
    assert (len(only.later), len(end.pre.turns)) == (LATER, 58)
    assert only.later[0].results[0].content == "text 2"


def test_later_turns_are_counted_from_those_that_stayed() -> None:
    events = [*step(1), *step(2), CompactionEvent(KeptFrom("k2"), "x")]
    for n in range(3, 60):
        events += step(n)
    only, _ = of(events)
    assert only.post is not None
    assert [turn.results[0].content for turn in only.post.turns] == ["text 2"]
    assert [turn.results[0].content for turn in only.later] == [f"text {n}" for n in range(3, 3 + LATER)]
    assert LATER == 40


def test_a_batch_that_begins_anew_is_another_turn() -> None:
    def call(n: int, batch: str) -> list[Event]:
        return [Call(f"c{n}", "read", {}, batch=batch, key=f"k{n}"), Result(f"c{n}", f"text {n}")]

    (end,) = of([*call(1, "a"), *call(2, "a"), *call(3, "b"), *call(4, ""), *call(5, "b")])
    assert [len(turn.message.calls) for turn in end.pre.turns] == [2, 1, 1, 1]


def test_arguments_that_cannot_be_written_are_left_out() -> None:
    deep: list[object] = []
    deep.append(deep)
    (end,) = of([Call("c", "read", {"x": deep}), Result("c", "text")])
    assert [call.arguments for call in end.pre.turns[0].message.calls] == ["{}"]
    (end,) = of([Result("c", "nobody asked"), Passage("assistant", "hm")])
    assert end.pre.turns[0].results == ()


def test_what_a_user_says_belongs_to_the_turn_before() -> None:
    (end,) = of([*step(1), Passage("user", "Go on.", "u"), Passage("attachment", "a file", "f"), *step(2)])
    first, second = end.pre.turns
    assert [(message.role, message.content) for message in first.results[1:]] == [
        ("user", "Go on."),
        ("system", "a file"),
    ]
    assert len(second.message.calls) == 1
