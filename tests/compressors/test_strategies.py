"""What every strategy must keep to, whatever the history: no orphaned call, nothing enlarged, pins word for word."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import Noter
from hypothesis import given, settings, strategies as st

from recompact.compressors.anchors import HEADING as ANCHORS, Anchor, Anchors, anchors_of, with_appendix
from recompact.compressors.fifo import Fifo
from recompact.compressors.masking import is_mask, mask_results
from recompact.compressors.pinned import Pinned, check_pins
from recompact.compressors.protocol import Compaction, CompactionFailed, CompressorInputs, has_room, room_beside_last
from recompact.compressors.registry import load_compressor
from recompact.engine.compactor import Compactor
from recompact.errors import InputError, OptionError
from recompact.triggers.registry import load_trigger
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.context import Context, Pin, Summary, Turn, render_turn, replaced_turns
from recompact.values.template import default_template
from recompact.values.tokens import COUNTERS, counter

PREFIX = (system("You are an agent."), user("Do it."))
KINDS = ("fifo", "prompted", "masking", "clear_tool_results", "masking+prompted", "anchors+prompted", "masking+fifo")
RULE = "Never approve requests over 50 without asking me."


def count(text: str) -> int:
    return len(text) // 4 + 1


INPUTS = CompressorInputs(Noter(), default_template(), count)


def turn(number: int, size: int, *, tool: str = "read_file", result: str = "") -> Turn:
    call = ToolCall(f"c{number}", tool, f'{{"path": "notes/file_{number}.txt"}}')
    text = result or f"token-{number}abc9 " + "x" * size
    return Turn.measured(assistant(f"I look at {number}.", call), (Message("tool", text, call_id=call.id),), count)


def history(*sizes: int) -> Context:
    return Context(PREFIX, None, tuple(turn(n, size) for n, size in enumerate(sizes)))


def compress(kind: str, context: Context, budget: int, options: dict[str, Any] | None = None) -> Context:
    compressor = load_compressor(kind, options or {}, Path()).build(INPUTS)
    assert compressor is not None
    return asyncio.run(compressor.compress(context, budget)).context


contexts = st.lists(st.integers(0, 3_000), min_size=2, max_size=15).map(lambda sizes: history(*sizes))


@pytest.mark.parametrize("kind", KINDS)
@given(context=contexts, share=st.floats(0.2, 0.9))
@settings(max_examples=25, deadline=None)
def test_calls_keep_their_results_and_the_last_turn_stays(kind: str, context: Context, share: float) -> None:
    post = compress(kind, context, max(60, int(share * context.size)))
    assert post.turns[-1] == context.turns[-1]
    calls = [call.id for each in post.turns for call in each.message.calls]
    assert calls == [result.call_id for each in post.turns for result in each.results]
    assert len(set(calls)) == len(calls)
    assert post.prefix == context.prefix


@pytest.mark.parametrize("kind", ["fifo", "masking", "clear_tool_results", "masking+fifo"])
@given(context=contexts, share=st.floats(0.2, 0.9))
@settings(max_examples=25, deadline=None)
def test_without_a_model_nothing_is_enlarged_and_twice_is_once(kind: str, context: Context, share: float) -> None:
    budget = max(60, int(share * context.size))
    post = compress(kind, context, budget)
    assert post.size <= context.size
    assert compress(kind, post, budget) == post


@pytest.mark.parametrize("kind", KINDS)
@given(sizes=st.lists(st.integers(0, 3_000), min_size=3, max_size=9), data=st.data())
@settings(max_examples=25, deadline=None)
def test_pins_survive_every_strategy_word_for_word(kind: str, sizes: list[int], data: st.DataObject) -> None:
    context = history(*sizes)
    at = data.draw(st.integers(0, len(sizes) - 2))
    said = Turn.measured(assistant("And now?"), (user(f"Go on.\n{RULE}"),), count)
    pinned_result = context.turns[at].results[0].content
    turns = (*context.turns[:at], context.turns[at], said, *context.turns[at + 1 :])
    context = Context(PREFIX, None, turns)
    options = {"pinned": {"ids": [f"c{at}"], "texts": ["Ask before you pay."]}}
    budget = int(0.5 * context.size) + 900
    for _ in range(3):  # compaction after compaction
        try:
            context = compress(f"pinned+{kind}", context, budget, options)
        except CompactionFailed:  # what is pinned alone is over the budget
            return
        contents = [message.content for message in context.messages]
        assert f"Go on.\n{RULE}" in contents
        assert "Ask before you pay." in contents
        assert contents.count(pinned_result) == 1
        context = context.extended(turn(100 + len(context.turns), 2_000))


def test_pins_over_the_budget_are_refused() -> None:
    with pytest.raises(CompactionFailed, match="pinned"):
        compress("pinned+fifo", history(900, 900, 10), 100, {"pinned": {"ids": ["c0"]}})


def test_instruction_files_are_pinned_by_the_call_that_read_them() -> None:
    call = ToolCall("r", "read_file", '{"path": "/repo/AGENTS.md"}')
    read = Turn.measured(assistant("", call), (Message("tool", "Use tabs.", call_id="r"),), count)
    context = Context(PREFIX, None, (read, *history(900, 900, 10).turns))
    assert [pin.message for pin in compress("pinned+fifo", context, 300).pinned] == [user("Use tabs.")]


def test_masking_names_call_and_size_and_keeps_arguments() -> None:
    context = history(400, 400, 400)
    post = compress("masking", context, 10_000, {"turns": 1})
    assert [each.message for each in post.turns] == [each.message for each in context.turns]
    assert post.turns[0].results[0].content == "[The result of read_file, 412 characters, was left out.]"
    assert replaced_turns(context, post) == (0, 1)


texts = st.text(st.one_of(st.sampled_from("\n\r\t ab9/[](){}.,'é한🙂\ud800"), st.characters()), max_size=30)
names = st.one_of(st.sampled_from(["read_file", "", " ", "a\nb"]), texts)
parts = st.tuples(names, texts, st.integers(0, 3_000), st.booleans())


@pytest.mark.parametrize("vocabulary", COUNTERS)
@given(said=texts, calls=st.lists(parts, max_size=4), kept=st.booleans())
@settings(max_examples=150, deadline=None)
def test_tokens_that_are_put_together_are_those_of_the_whole_text(
    vocabulary: str, said: str, calls: list[tuple[str, str, int, bool]], kept: bool
) -> None:
    """Every counter, any text, and a history whose messages were counted apart (as played) or were not (as stored)."""
    exact = counter(vocabulary)
    message = assistant(said, *(ToolCall(f"c{n}", name, text) for n, (name, text, _, _) in enumerate(calls)))
    results = tuple(
        Message("tool", f"{text}{'y ' * size}{text}", call_id=f"c{n}") if answered else user(text)
        for n, (_, text, size, answered) in enumerate(calls)
    )
    played = Turn.measured(message, results, exact)
    assert played.tokens == exact(render_turn(message, results))
    old = played if kept else Turn(message, results, played.tokens)
    masked = mask_results(old, lambda name, result: result.call_id != "c1", exact)
    assert masked.tokens == exact(render_turn(masked.message, masked.results)) <= old.tokens


@pytest.mark.parametrize("vocabulary", COUNTERS)
def test_what_is_left_of_a_result_is_counted_alike_whatever_its_size(vocabulary: str) -> None:
    exact, call = counter(vocabulary), ToolCall("c", "read_file", "{}")
    for size in (98, 99, 100, 101, 999, 1_000, 1_001, 99_999, 100_000, 999_999, 1_000_000, 1_234_567):
        old = Turn.measured(assistant("", call), (Message("tool", "é" * size, call_id="c"),), exact)
        masked = mask_results(old, lambda name, result: True, exact)
        assert f"{size:,} characters" in masked.results[0].content
        assert masked.tokens == exact(render_turn(masked.message, masked.results))


def test_masking_spares_errors_and_other_tools_where_asked() -> None:
    turns = (turn(0, 0, result="Error: " + "y" * 400), turn(1, 400, tool="search"), turn(2, 400), turn(3, 400))
    context = Context(PREFIX, None, turns)
    post = compress("masking", context, 10_000, {"turns": 1, "keep_errors": True})
    assert replaced_turns(context, post) == (1, 2)
    post = compress("masking", context, 10_000, {"turns": 1, "tools": ["search"]})
    assert replaced_turns(context, post) == (1,)


def test_clearing_goes_by_uses_and_spares_excluded_tools() -> None:
    context = Context(PREFIX, None, (turn(0, 400, tool="memory"), *(turn(n, 400) for n in range(1, 6))))
    assert replaced_turns(context, compress("clear_tool_results", context, 1, {"keep": 2})) == (0, 1, 2, 3)
    options = {"keep": 2, "exclude_tools": ["memory"]}
    assert replaced_turns(context, compress("clear_tool_results", context, 1, options)) == (1, 2, 3)
    assert compress("clear_tool_results", context, 1, {"clear_at_least": 100_000}) == context
    assert compress("clear_tool_results", context, 1, {"keep": 7}) == context  # more than there are


def test_a_turn_that_is_equal_was_not_replaced() -> None:
    context = history(10, 20, 30)
    assert replaced_turns(context, replace(context, turns=tuple(replace(each) for each in context.turns))) == ()


def test_what_follows_is_asked_only_where_masking_leaves_no_room() -> None:
    context = history(*[2_000] * 6)
    assert compress("masking+prompted", context, context.size // 2).summary is None
    assert compress("masking+prompted", context, 300).summary is not None


def test_anchors_hold_values_of_replaced_turns_over_several_compactions() -> None:
    context = compress("anchors+prompted", history(900, 900, 10), 600)
    assert context.summary is not None
    for value in ("token-0abc9", "token-1abc9", "notes/file_0.txt"):
        assert value in context.summary.text
    context = compress("anchors+prompted", context.extended(turn(7, 900)).extended(turn(8, 10)), 600)
    assert context.summary is not None
    assert context.summary.text.count(ANCHORS) == 1
    assert "token-0abc9" in context.summary.text
    assert "token-7abc9" in context.summary.text


@pytest.mark.parametrize(("budget", "most"), [(400, 300), (403, 303), (1_023, 768), (1_028, 772), (2_000, 1_744)])
def test_anchors_leave_the_rest_of_the_budget_to_what_they_work_on(budget: int, most: int) -> None:
    """At most a quarter of the budget, and no more than their own limit."""
    granted: list[int] = []

    class Granted:
        async def compress(self, context: Context, budget: int) -> Compaction:
            granted.append(budget)
            return Compaction(Context(context.prefix, Summary("so far", 2), context.turns[-1:]))

    post = asyncio.run(Anchors(INPUTS, Granted()).compress(history(900, 900, 10), budget)).context
    assert granted == [most]
    assert post.summary is not None
    assert 2 < post.summary.tokens <= 2 + budget - most


def test_compositions_are_checked_before_anything_runs() -> None:
    with pytest.raises(InputError, match="prompted"):
        load_compressor("masking+anchors", {}, Path())
    with pytest.raises(OptionError, match="stage"):
        load_compressor("masking+prompted", {"turns": 3}, Path())
    with pytest.raises(OptionError):
        load_compressor("masking+prompted", {"masking": {"turns": 0}}, Path())
    assert load_compressor("masking+prompted", {}, Path()).uses_template


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("masking", {"tools": "search"}),
        ("clear_tool_results", {"exclude_tools": "memory"}),
        ("clear_tool_results", {"exclude_tools": [3]}),
        *(("pinned+fifo", {"pinned": {name: "Never pay."}}) for name in ("texts", "ids", "files")),
    ],
)
def test_one_text_is_no_list_of_its_letters(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="must be a list of texts"):
        load_compressor(kind, options, Path())


@pytest.mark.parametrize("pinned", ["Never pay.", [3]])
def test_a_compactor_takes_pins_as_a_list_of_texts(pinned: Any) -> None:
    with pytest.raises(InputError, match="list of texts"):
        Compactor("default", None, 4_000, kind="masking", pinned=pinned)


def test_an_interval_has_a_number_that_python_reads() -> None:
    with pytest.raises(InputError, match="interval"):
        load_trigger("interval:" + "9" * 5_000)


@pytest.mark.parametrize(("keep", "cleared"), [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0), (9, 0)])
def test_the_newest_results_and_those_of_the_last_turn_are_not_cleared(keep: int, cleared: int) -> None:
    context = history(900, 900, 900, 900)
    post = compress("clear_tool_results", context, 100, {"keep": keep})
    changed = [n for n, (old, new) in enumerate(zip(context.turns, post.turns, strict=True)) if old != new]
    assert changed == list(range(cleared))


def test_results_of_tools_that_are_left_out_stay_and_a_small_gain_is_none() -> None:
    turns = tuple(turn(n, 900, tool="search" if n % 2 else "read_file") for n in range(6))
    context = Context(PREFIX, None, turns)
    post = compress("clear_tool_results", context, 100, {"keep": 0, "exclude_tools": ["search"]})
    changed = [n for n, (old, new) in enumerate(zip(context.turns, post.turns, strict=True)) if old != new]
    assert changed == [0, 2, 4]
    gained = context.size - post.size
    for least, same in ((gained, False), (gained + 1, True)):
        options = {"keep": 0, "exclude_tools": ["search"], "clear_at_least": least}
        assert (compress("clear_tool_results", context, 100, options) == context) is same


ENTRIES = st.lists(st.text("abc", min_size=1, max_size=6), max_size=8, unique=True)


@given(ENTRIES, st.integers(0, 60), st.sampled_from([None, Summary("so far", 6)]))
def test_an_appendix_has_as_many_entries_as_fit_to_the_last_token(
    entries: list[str], limit: int, summary: Summary | None
) -> None:
    lines = ["\n".join(("H", *(f"- {entry}" for entry in entries[:number]))) for number in range(len(entries) + 1)]
    most = max((n for n in range(1, len(lines)) if len(lines[n]) <= limit), default=0)
    before = Context(PREFIX, summary, history(10).turns)
    post, number = with_appendix(before, entries, limit, len, "H", "- ")
    assert number == most
    text = f"so far\n\n{lines[most]}" if summary else lines[most]
    assert post == (replace(before, summary=Summary.measured(text, len)) if most else before)


@pytest.mark.parametrize(("size", "room"), [(899, True), (900, True), (901, False)])
def test_a_tenth_of_the_budget_stays_free(size: int, room: bool) -> None:
    assert has_room(size, 1_000) is room


@pytest.mark.parametrize(
    ("last", "pinned", "room"), [(100, 0, 900), (100, 30, 870), (500, 0, 500), (499, 0, 501), (501, 0, 500)]
)
def test_what_stays_leaves_at_least_half_the_budget(last: int, pinned: int, room: int) -> None:
    pins = (Pin(user("keep"), pinned),) if pinned else ()
    context = Context(PREFIX, None, (Turn(assistant("a"), (), 700), Turn(assistant("b"), (), last)), pins)
    assert room_beside_last(context, 1_000) == room
    assert room_beside_last(replace(context, turns=()), 1_000) == 1_000 - pinned


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 250))
def test_first_in_first_out_drops_no_turn_more_than_it_must(sizes: list[int], budget: int) -> None:
    turns = tuple(Turn(assistant(str(n)), (), size) for n, size in enumerate(sizes))
    post = asyncio.run(Fifo().compress(Context(PREFIX, Summary("s", 5), turns), budget)).context
    fitting = [n for n in range(len(sizes)) if 5 + sum(sizes[n:]) <= budget]
    assert post == Context(PREFIX, Summary("s", 5), turns[min(fitting, default=len(sizes) - 1) :])


def test_a_pinned_result_stays_in_its_turn_and_stands_alone_once_that_is_gone() -> None:
    context = history(400, 400, 400, 10)
    options: dict[str, Any] = {"pinned": {"ids": ["c1"]}, "masking": {"turns": 1}}
    masked = compress("pinned+masking", context, 10_000, options)
    assert masked.turns[1] == context.turns[1]
    assert masked.pinned == ()
    assert replaced_turns(context, masked) == (0, 2)
    result = context.turns[1].results[0].content
    dropped = compress("pinned+fifo", context, context.turns[1].tokens + 60, {"pinned": {"ids": ["c1"]}})
    assert dropped.turns == context.turns[-1:]
    assert dropped.pinned == (Pin(user(result), count(result) + 4),)


@pytest.mark.parametrize(("budget", "refused"), [(108, False), (107, True)])
def test_pins_may_fill_the_budget_to_the_last_token(budget: int, refused: bool) -> None:
    """Those of before and those of now, each with the frame of a message."""
    pins = (Pin(user("standing"), 50),)
    context = Context(PREFIX, None, history(10, 10).turns, pins)
    text = "x" * 212  # 54 tokens, and 4 for its frame
    assert count(text) + 4 == 58
    options = {"pinned": {"texts": [text]}}
    if refused:
        with pytest.raises(CompactionFailed, match="108"):
            compress("pinned+fifo", context, budget, options)
        with pytest.raises(InputError, match="58"):
            check_pins([text], 57, count)
    else:
        assert compress("pinned+fifo", context, budget, options).pinned == (*pins, Pin(user(text), 58))
        check_pins([text], 58, count)


def test_which_of_a_turns_results_are_pinned() -> None:
    """Rules of the user, but not what a harness says in the user's name; reads of instruction files, by whatever path;
    and nothing where it is turned off."""

    def read(id: str, path: str) -> ToolCall:
        return ToolCall(id, "read_file", f'{{"path": "{path}"}}')

    calls = (read("a", "/r/sub/AGENTS.md"), read("b", "/r/AGENTS.md.txt"), ToolCall("d", "read_file", "{"))
    results = (
        Message("tool", "agents", call_id="a"),
        Message("tool", "other", call_id="b"),
        Message("tool", "broken", call_id="d"),
        user(RULE),
        user(f"Error: {RULE}"),
        user("Thanks."),
    )
    turns = (Turn.measured(assistant("", *calls), results, count), *history(900, 10).turns)
    context = Context(PREFIX, None, turns)

    def pinned(**options: Any) -> list[str]:
        post = compress("pinned+fifo", context, 200, {"pinned": options})
        return [pin.message.content for pin in post.pinned]

    assert pinned() == ["agents", RULE]
    assert pinned(rules=False) == ["agents"]
    assert pinned(files=[]) == [RULE]
    assert pinned(files=["AGENTS.md.txt"], rules=False) == ["other"]
    assert pinned(ids=["b"], texts=["mine", "Do it."]) == ["mine", "agents", "other", RULE]  # the task shows the last


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("[The result of read_file, 1,412 characters, was left out.]", True),
        ("[The result of read_file, 1,412 characters, was left out.] ", False),
        ("[The result of x, many characters, was left out.]", False),
        ("x [The result of x, 2 characters, was left out.]", False),
        (f"[The result of {'n' * 200}, 2 characters, was left out.]", True),
        (f"[The result of {'n' * 201}, 2 characters, was left out.]", False),
    ],
)
def test_a_mask_is_known_by_its_whole_form(text: str, mask: bool) -> None:
    assert is_mask(text) is mask


def masked_results(kind: str, options: dict[str, Any], *sizes: int, budget: int = 10_000) -> list[int]:
    context = history(*sizes)
    return list(replaced_turns(context, compress(kind, context, budget, options)))


@pytest.mark.parametrize(
    ("options", "budget", "masked"),
    [
        ({"turns": 2}, 10_000, [0, 1, 2]),
        ({"turns": 4}, 10_000, [0]),
        ({"turns": 5}, 10_000, []),
        ({"turns": 9}, 10_000, []),
        ({"turns": 9}, 100, [0, 1, 2, 3]),  # the most recent turn always stays
        ({"turns": 1}, 10_000, [0, 1, 2, 3]),
    ],
)
def test_masking_spares_the_last_turns_while_there_is_room(
    options: dict[str, Any], budget: int, masked: list[int]
) -> None:
    assert masked_results("masking", options, *[400] * 5, budget=budget) == masked


def test_masking_goes_on_only_until_there_is_room() -> None:
    context = history(*[400] * 5)
    once = compress("masking", context, 10_000, {"turns": 4})
    twice = compress("masking", context, 10_000, {"turns": 3})
    for size, masked in ((context.size, 0), (once.size, 1), (twice.size, 2)):
        budget = -(-size * 10 // 9)  # the least with room for that
        assert has_room(size, budget)
        assert not has_room(size, budget - 2)
        assert masked_results("masking", {"turns": 9}, *[400] * 5, budget=budget) == list(range(masked))
        assert len(masked_results("masking", {"turns": 9}, *[400] * 5, budget=budget - 2)) == masked + 1


def test_a_short_result_beside_a_long_one_is_not_made_longer() -> None:
    calls = tuple(ToolCall(id, "read_file", "{}") for id in "ab")
    results = (Message("tool", "ok", call_id="a"), Message("tool", "y" * 900, call_id="b"))
    both = Turn.measured(assistant("", *calls), results, count)
    post = compress("masking", Context(PREFIX, None, (both, *history(10).turns)), 10_000, {"turns": 1})
    assert [result.content for result in post.turns[0].results] == [
        "ok",
        "[The result of read_file, 900 characters, was left out.]",
    ]


@pytest.mark.parametrize(("before", "left"), [("so far\n\n", Summary("so far", 2)), ("", None)])
def test_anchors_are_taken_off_before_the_rest_is_compacted_and_come_back(before: str, left: Summary | None) -> None:
    seen: list[Context] = []

    class Keeps:
        async def compress(self, context: Context, budget: int) -> Compaction:
            seen.append(context)
            return Compaction(replace(context, turns=context.turns[-1:]))

    summary = Summary.measured(f"{before}{ANCHORS}\ntoken: token-9abc9 (door)\ntoken-8abc8", count)
    context = replace(history(40, 10), summary=summary)
    post = asyncio.run(Anchors(INPUTS, Keeps()).compress(context, 2_000)).context
    assert seen == [replace(context, summary=left)]
    text = f"{before}{ANCHORS}\npath: notes/file_0.txt\ntoken-0abc9\ntoken: token-9abc9 (door)\ntoken-8abc8"
    assert post == replace(context, summary=Summary.measured(text, count), turns=context.turns[-1:])


def test_anchors_name_the_fields_of_a_bill_and_no_part_of_its_token() -> None:
    """From a real model's episode: its list had a part of the token, which it took for the id of the bill."""
    login = ToolCall(
        "1", "call_api", '{"api": "login", "arguments": {"username": "555-886-6432", "password": "f7d5ad"}}'
    )
    files = ToolCall(
        "2", "call_api", '{"api": "list_files", "arguments": {"token": "fil-91fcaef2", "query": "bill 2025"}}'
    )
    listed = '{"items": [{"id": "f2745", "folder": "bills", "name": "Bill 2025.txt", "modified": "2025-02-27"}]}'
    turns = [
        Turn.measured(assistant("", call), (Message("tool", text, call_id=call.id),), count)
        for call, text in ((login, '{"token": "fil-91fcaef2"}'), (files, listed))
    ]
    context = compress("anchors+prompted", Context(PREFIX, None, (*turns, *history(10).turns)), 600)
    assert context.summary is not None
    _, _, anchors = context.summary.text.partition(f"{ANCHORS}\n")
    assert anchors.splitlines() == [
        "token: fil-91fcaef2",
        "password: f7d5ad",
        "id: f2745 (Bill 2025.txt)",
    ]


@pytest.mark.parametrize(
    ("text", "anchors"),
    [
        ('{"id": 7, "name": "Ada"}', ["id: 7 (Ada)"]),
        ('{"count": 7, "done": true, "id": null, "token": "..."}', []),
        ('{"id": true, "key": 1.5}', []),
        ('[{"user_id": "u1"}, {"user_id": "u1"}]', ["user_id: u1"]),
        ('{"a: b\\n": "x9y8"}', ["a_b: x9y8"]),
        ('{"id": ""}', []),
        ('{"id": "' + "9" * 80 + '"}', ["id: " + "9" * 80]),
        ('{"id": "' + "9" * 81 + '"}', []),
        ('{"id": "u1", "title": "' + "n" * 81 + '"}', [f"id: u1 ({'n' * 80})"]),
        ('{"name": "f27x"}', ["name: f27x"]),  # which needs no name of its own
        ('{"note": "a1b2", "size": "a1b", "row": "a1", "id": "a1"}', ["note: a1b2", "id: a1"]),
        ('{"id": "no 7"}', []),
        ("[" * 900, []),
        ("[" * 19_000, []),  # deeper than Python reads
        ("[" * 90_000, []),
        ('{"id": 7}'.ljust(20_000), ["id: 7"]),
        ('{"id": 7}'.ljust(20_001), []),  # too long to be read as JSON
        ('{"note": "see /srv/a/b.txt"}', ["/srv/a/b.txt"]),
        ("NaN", []),
    ],
)
def test_what_counts_as_an_anchor_in_a_result(text: str, anchors: list[str]) -> None:
    turns = (turn(0, 0, result=text), *history(10).turns)
    plain = replace(turns[0], message=assistant("I look."))
    assert list(dict.fromkeys(str(each) for each in anchors_of([plain]))) == anchors


def test_a_value_has_the_first_field_that_is_known_and_no_part_of_another_is_a_value() -> None:
    results = (
        '{"key": "token-77ab"}',
        '{"token": "token-77ab"}',
        "as token-77ab in /srv/tk-5512ab/x.txt",
        "tk-5512ab",
    )
    turns = tuple(replace(turn(n, 0, result=text), message=assistant("?")) for n, text in enumerate(results))
    post = asyncio.run(
        Anchors(INPUTS, Fifo()).compress(Context(PREFIX, None, (*turns, *history(10).turns)), 80)
    ).context
    assert post.summary is not None
    assert post.summary.text.splitlines()[1:] == ["token: token-77ab", "/srv/tk-5512ab/x.txt"]


@given(st.text(max_size=200), st.text(max_size=40), st.integers(0, 10**12))
def test_an_anchor_is_read_as_it_was_written(name: str, field: str, number: int) -> None:
    """Whatever names and fields a result has: the next compaction reads the same lines."""
    written = list(anchors_of([turn(0, 0, result=json.dumps({"items": [{field: f"v{number:04}", "name": name}]}))]))
    assert [Anchor.read(str(each)) for each in written] == written
    assert all("\n" not in str(each) for each in written)


def test_a_result_that_is_spared_does_not_spare_those_after_it() -> None:
    calls = (ToolCall("a", "search", "{}"), ToolCall("b", "read_file", "{}"))
    results = tuple(Message("tool", "y" * 900, call_id=call.id) for call in calls)
    both = Turn.measured(assistant("", *calls), results, count)
    options = {"turns": 1, "tools": ["read_file"]}
    post = compress("masking", Context(PREFIX, None, (both, *history(10).turns)), 10_000, options)
    assert [is_mask(result.content) for result in post.turns[0].results] == [False, True]


def test_ten_turns_are_spared_unless_another_number_is_given_and_three_results_are_not_cleared() -> None:
    assert masked_results("masking", {}, *[400] * 12) == [0, 1]
    assert masked_results("clear_tool_results", {}, *[400] * 12) == list(range(9))


@pytest.mark.parametrize("name", ["n" * 199, "n" * 200, "n" * 201, "a tool\nwith  blanks"])
def test_the_line_for_a_result_is_a_mask_whatever_the_name_of_the_tool(name: str) -> None:
    long = turn(0, 0, tool=name, result="y" * 900)
    masked = mask_results(long, lambda name, result: True, count)
    assert is_mask(masked.results[0].content)
    assert mask_results(masked, lambda name, result: True, count) == masked


@pytest.mark.parametrize(("size", "masked"), [(54, False), (55, False), (56, True)])
def test_a_result_as_short_as_its_line_stays(size: int, masked: bool) -> None:
    """Even where the line has fewer tokens."""
    assert len("[The result of read_file, 55 characters, was left out.]") == 55
    result = mask_results(turn(0, 0, result="y" * size), lambda name, result: True, lambda text: text.count("y"))
    assert is_mask(result.results[0].content) is masked


def test_a_turn_whose_tokens_would_not_get_fewer_stays() -> None:
    long = turn(0, 0, result="y" * 900)
    for tokens, same in ((3, False), (2, True), (1, True)):
        old = Turn(long.message, long.results, tokens)
        assert (mask_results(old, lambda name, result: True, lambda text: 2) == old) is same


def test_a_result_without_a_call_is_no_read_of_a_file_and_a_bare_name_is_one() -> None:
    call = ToolCall("a", "read_file", '{"path": "AGENTS.md"}')
    results = (Message("tool", "whose?", call_id="lost"), Message("tool", "Use tabs.", call_id="a"))
    read = Turn.measured(assistant("", call), results, count)
    context = Context(PREFIX, None, (read, *history(900, 10).turns))
    assert [pin.message.content for pin in compress("pinned+fifo", context, 300).pinned] == ["Use tabs."]


@pytest.mark.parametrize(("tokens", "changed"), [(40, False), (41, True)])
def test_an_observation_may_fill_the_budget_to_the_last_token(tokens: int, changed: bool) -> None:
    long = turn(0, 0, result=" ".join(["y"] * tokens))
    inputs = replace(INPUTS, count=lambda text: len(text.split()), scope="observation")
    compressor = load_compressor("prompted", {}, Path()).build(inputs)
    assert compressor is not None
    compaction = asyncio.run(compressor.compress(Context(PREFIX, None, (long,)), 40))
    assert (compaction.context.turns[-1].results != long.results) is changed
    assert compaction.usage.calls == changed


def test_what_is_pinned_is_taken_off_the_budget_of_the_rest() -> None:
    granted: list[int] = []

    class Granted:
        async def compress(self, context: Context, budget: int) -> Compaction:
            granted.append(budget)
            return Compaction(context)

    context = replace(history(900, 10), pinned=(Pin(user("before"), 7),))
    pinned = Pinned(INPUTS, Granted(), texts=["Ask first."])
    asyncio.run(pinned.compress(context, 500))
    assert granted == [500 - (count("Ask first.") + 4)]  # those of before are in the context's own size
