"""A receipt counts every turn and every exact value of a compaction, and its bill says when it pays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given, strategies as st
from sentences import numbers_in

from recompact.values.chat import Message, ToolCall, Usage, assistant, user
from recompact.values.context import Context, Pin, Summary, Turn
from recompact.values.receipt import (
    NAMED,
    OUTPUT,
    READ,
    WRITE,
    CompactionBill,
    cost,
    cost_of_summary,
    exact_values_of,
    receipt,
    shown_text,
)


def turn(value: str, said: str = "fine", tokens: int = 20) -> Turn:
    call = ToolCall("1", "use", f'{{"id": "{value}"}}')
    return Turn(Message("assistant", "", (call,)), (Message("tool", said, call_id="1"),), tokens)


def test_what_was_used_stands_before_what_was_only_seen() -> None:
    gone = turn("pay-7f3a91", "the code is exit-44aa1")
    one = receipt(Context((), turns=(gone, turn("x"))), Context((), Summary("done", 1), (turn("x"),)))
    assert (one.lost, one.lost_used, one.carried) == (("pay-7f3a91", "exit-44aa1"), 1, 0)


def test_what_a_summary_a_pin_or_a_kept_turn_shows_is_not_lost() -> None:
    turns = (turn("pay-7f3a91"), turn("pay-8b2c02"), turn("pay-9d1e03"), turn("pay-9d1e03"))
    pin = Pin(user("keep pay-8b2c02"), 5)
    one = receipt(Context((), turns=turns), Context((), Summary("pay-7f3a91", 4), turns[3:], (pin,)))
    assert (one.lost, one.carried, one.pinned) == ((), 3, ("keep pay-8b2c02",))


def test_what_only_the_summary_before_had_can_be_lost() -> None:
    last = turn("x")
    pre = Context((), Summary("token pay-7f3a91", 5), (turn("y"), last))
    assert receipt(pre, Context((), Summary("nothing", 1), (last,))).lost == ("pay-7f3a91",)


def test_an_order_of_the_user_is_a_rule_and_an_error_in_its_name_is_none() -> None:
    said = Turn(assistant("?"), (user("Never delete a branch."), user("Error: you must call a tool.")), 20)
    pre = Context((), turns=(said, turn("x")))
    assert receipt(pre, replace(pre, turns=pre.turns[1:])).rules == ("Never delete a branch.",)


def test_a_cleared_result_counts_as_dropped_and_keeps_the_cache_up_to_it() -> None:
    turns = (turn("a", tokens=30), turn("b", "long", 50), turn("c"))
    post = Context((), turns=(turns[0], turn("b", "[cleared]", 10), turns[2]))
    one = receipt(Context((), turns=turns), post)
    assert (one.dropped, one.kept, one.bill.read, one.bill.written, one.bill.saved) == (1, 2, 30, 30, 40)


@examples(60)
@given(st.lists(st.integers(1, 99), min_size=2, max_size=8), st.integers(1, 7), st.integers(0, 500))
def test_turns_and_tokens_add_up(sizes: list[int], kept: int, output: int) -> None:
    turns = tuple(turn(f"id-{n}a7", tokens=size) for n, size in enumerate(sizes))
    pre, post = Context((), turns=turns), Context((), Summary("s", 3), turns[-kept:])
    one = receipt(pre, post, Usage(100, output))
    assert one.dropped + one.kept == len(turns)
    assert one.bill.read + one.bill.written == one.after
    assert one.carried + len(one.lost) == len(set(exact_values_of(turns[: one.dropped])))
    assert not any(value in shown_text(post) for value in one.lost)
    if (calls := one.bill.payback) is not None:
        assert calls * READ * one.bill.saved >= one.bill.cost or calls == 1
        assert calls == 1 or (calls - 1) * READ * one.bill.saved < one.bill.cost


def test_a_context_that_grew_never_pays() -> None:
    assert CompactionBill(0, 100, -5).payback is None


def test_prices_are_those_of_input_cache_and_output() -> None:
    assert cost_of_summary(Usage(1000, 10, cached=400)) == 600 + 400 * READ + 10 * OUTPUT
    used = {"agent": Usage(1000, 10)}
    assert cost(used, 1.0) == 1000 * READ + 10 * OUTPUT
    assert cost(used, 0.0) == 1000 * WRITE + 10 * OUTPUT


def test_a_receipt_in_words_has_its_numbers_and_names_no_more_than_fit() -> None:
    gone = Turn(assistant("?"), (user("Never pay twice."), user(" ".join(f"id-{n}a" for n in range(NAMED + 3)))), 900)
    pin = Pin(user("keep"), 5)
    post = Context((), Summary("s", 100), (turn("x"),), (pin,))
    one = receipt(Context((), turns=(gone, turn("x"))), post, Usage(1_200, 30), ["id-99z"])
    first, values, rules, repaired, costs = one.sentences
    assert numbers_in(first) == ["920", "125", "1", "1", "1"]
    assert numbers_in(values)[:2] == ["11", "11"]
    assert [f"id-{n}a" in values for n in (NAMED - 1, NAMED)] == [True, False]
    assert "and 3 more" in values
    assert "Never pay twice." in rules
    assert "id-99z" in repaired
    assert numbers_in(costs) == ["1,200", "30", "125", f"{one.bill.payback:,}"]
    _, useless = receipt(post, post).sentences  # no value, no rule, nothing put back
    assert numbers_in(useless) == ["0", "0", "0"]  # and no call from which on it pays


def test_a_receipt_as_a_record() -> None:
    pre = Context((), turns=(turn("pay-7f3a91"), turn("x")))
    one = receipt(pre, Context((), Summary("done", 1), pre.turns[1:]), Usage(100, 7), ["y"])
    data = one.to_json()
    assert (data["before"], data["after"], data["dropped_turns"], data["kept_turns"]) == (40, 21, 1, 1)
    assert (data["lost"], data["lost_used"], data["carried"], data["repaired"]) == (["pay-7f3a91"], 1, 0, ["y"])
    assert data["bill"] == {
        "read": 0,
        "written": 21,
        "saved_per_call": 19,
        "summary": 135.0,
        "cost": round(135 + (WRITE - READ) * 21, 1),
        "payback_calls": 84,
    }


@pytest.mark.parametrize(
    ("bill", "payback"),
    [
        (CompactionBill(0, 100, 0), None),
        (CompactionBill(0, 0, 1), 1),  # the first call pays for it
        (CompactionBill(0, 0, 10, 2.0), 2),
        (CompactionBill(0, 0, 10, 2.1), 3),
        (CompactionBill(500, 10, 100, 8.5), 2),  # 8.5 and 11.5 for writing
    ],
)
def test_a_compaction_pays_from_the_call_on_that_makes_up_for_it(bill: CompactionBill, payback: int | None) -> None:
    assert bill.payback == payback
    assert bill.to_json()["payback_calls"] == payback


def test_amounts_are_given_to_a_tenth() -> None:
    data = CompactionBill(1, 3, 7, 12.345).to_json()
    assert data == {**data, "summary": 12.3, "cost": 15.8, "read": 1, "written": 3, "saved_per_call": 7}


def test_a_summary_and_pins_that_stay_are_still_in_the_cache() -> None:
    summary, pin = Summary("before", 9), Pin(user("keep"), 4)
    turns = (turn("a", tokens=30), turn("b", "long", 50), turn("c"))
    pre = Context((), summary, turns, (pin,))
    bill = receipt(pre, replace(pre, turns=(turns[0], turn("b", "[cleared]", 10), turns[2]))).bill
    assert (bill.read, bill.written, bill.saved) == (9 + 4 + 30, 30, 40)
    other = receipt(pre, replace(pre, summary=Summary("after", 9))).bill
    assert (other.read, other.saved) == (0, 0)


@pytest.mark.parametrize(("values", "more"), [(NAMED - 1, False), (NAMED, False), (NAMED + 1, True)])
def test_values_that_are_not_named_are_counted(values: int, more: bool) -> None:
    gone = Turn(assistant("?"), (user(" ".join(f"id-{n}a" for n in range(values))),), 900)
    one = receipt(Context((), turns=(gone, turn("x"))), Context((), None, (turn("x"),)), Usage(), ["y"] * 20)
    assert len(one.lost) == values
    assert ("and 1 more" in one.sentences[1]) is more
    assert one.sentences[2].count("y") == NAMED == 8
