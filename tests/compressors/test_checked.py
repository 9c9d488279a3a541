"""A check finds what a summary lacks, one repair puts it back, and what does not fit is accepted or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import Scripted

from recompact.compressors.checked import HEADING, Checked, LacksFacts, Probes, load_check, repair
from recompact.compressors.protocol import Compaction, CompressorInputs
from recompact.compressors.registry import load_compressor
from recompact.errors import InputError, OptionError
from recompact.models.failures import ContextOverflow, Refused
from recompact.values.chat import Message, ToolCall, Usage, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.template import default_template


def count(text: str) -> int:
    return len(text.split())


def turn(value: str, said: str = "fine") -> Turn:
    call = ToolCall("1", "pay", f'{{"token": "{value}"}}')
    return Turn(Message("assistant", "", (call,)), (Message("tool", said, call_id="1"),), 40)


RULE = Turn(Message("assistant", "?"), (user("Never pay twice."),), 10)
PRE = Context((), turns=(RULE, turn("pay-7f3a91"), turn("pay-8b2c02"), turn("x")))


class Writes:
    """A compressor that always writes the same summary."""

    def __init__(self, text: str = "paid") -> None:
        self.text = text

    async def compress(self, context: Context, budget: int) -> Compaction:
        self.budget = budget
        return Compaction(replace(context, summary=Summary.measured(self.text, count), turns=context.turns[-1:]))


def inputs(*replies: str) -> CompressorInputs:
    return CompressorInputs(model=Scripted(*replies), template=default_template(), count=count)


def checked(inner: Writes, *replies: str, pre: Context = PRE, budget: int = 400, **options: Any) -> Compaction:
    return asyncio.run(Checked(inputs(*replies), inner, **options).compress(pre, budget))


def summary(compaction: Compaction) -> str:
    assert compaction.context.summary is not None
    return compaction.context.summary.text


def test_rules_and_values_of_calls_are_put_back_and_counted() -> None:
    inner = Writes()
    compaction = checked(inner)
    assert compaction.repaired == ("Never pay twice.", "pay-8b2c02", "pay-7f3a91")
    assert summary(compaction) == f"paid\n\n{HEADING}\n- Never pay twice.\n- pay-8b2c02\n- pay-7f3a91"
    assert compaction.context.summary == Summary.measured(summary(compaction), count)
    assert inner.budget == 300  # a quarter is left for the repair


def test_where_nothing_is_missing_nothing_changes() -> None:
    inner = Writes("never pay twice; pay-7f3a91 and pay-8b2c02")
    assert checked(inner).repaired == ()
    assert HEADING not in summary(checked(inner))


def test_a_repair_outlives_the_next_compaction() -> None:
    first = checked(Writes()).context
    again = checked(Writes("more"), pre=replace(first, turns=(turn("y"), turn("z"))))
    assert set(again.repaired) == {"Never pay twice.", "pay-8b2c02", "pay-7f3a91"}


@pytest.mark.parametrize(("otherwise", "kept"), [("accept", 1), ("keep", 0)])
def test_what_does_not_fit_is_accepted_or_keeps_the_old_context(otherwise: str, kept: int) -> None:
    wanted = [f"fact number {n} of a long list" for n in range(9)]

    def check(pre: Context, post: Context) -> Sequence[str]:
        return wanted

    if not kept:
        with pytest.raises(LacksFacts, match="fact number"):
            checked(Writes(), check=check, tokens=20, otherwise=otherwise)
        return
    assert checked(Writes(), check=check, tokens=20, otherwise=otherwise).repaired == tuple(wanted[:1])


def test_a_function_may_be_asynchronous_and_lines_stay_lines() -> None:
    async def check(pre: Context, post: Context) -> Sequence[str]:
        return ["one\nthing", "", "one thing"]

    assert checked(Writes(), check=check).repaired == ("one thing",)


def test_probes_ask_one_question_at_a_time_and_put_back_what_is_wrong() -> None:
    asked = "Which token? | pay-7f3a91\nHow often? | once\nno question here"
    compaction = checked(Writes(), asked, "UNKNOWN", "only once", check="probes")
    assert compaction.repaired == ("Which token? pay-7f3a91",)
    assert compaction.usage.calls == 3


def test_probes_that_say_nothing_usable_change_nothing() -> None:
    assert checked(Writes(), "I cannot.", check="probes").repaired == ()


def test_a_check_is_found_by_name_or_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def rooms(pre, post):\n    return ['room 7']\n")
    assert load_check("mine.py:rooms", inputs(), tmp_path)(PRE, PRE) == ["room 7"]
    assert isinstance(load_check("probes", inputs()), Probes)
    with pytest.raises(InputError, match="literls"):
        load_check("literls", inputs())
    with pytest.raises(InputError):
        load_check(7, inputs())


def test_it_needs_another_compressor_to_work_on() -> None:
    with pytest.raises(InputError, match=r"checked\+prompted"):
        load_compressor("checked", {}, Path())
    with pytest.raises(OptionError):
        load_compressor("checked+prompted", {"checked": {"otherwise": "perhaps"}}, Path())
    assert load_compressor("checked+prompted", {"checked": {"check": "literals"}}, Path()).uses_template


def test_usage_of_the_inner_compressor_is_kept() -> None:
    class Costs(Writes):
        async def compress(self, context: Context, budget: int) -> Compaction:
            return replace(await super().compress(context, budget), usage=Usage(7, 3))

    assert checked(Costs()).usage == Usage(7, 3)


def test_a_failed_check_names_the_next_three_facts_and_keeps_what_was_spent() -> None:
    wanted = [f"fact-{n}" for n in range(20)]

    class Costs(Writes):
        async def compress(self, context: Context, budget: int) -> Compaction:
            return replace(await super().compress(context, budget), usage=Usage(7, 3), notes=("odd",))

    with pytest.raises(LacksFacts) as lacking:
        checked(Costs(), check=lambda pre, post: wanted, tokens=20, otherwise="keep")
    kept = checked(Costs(), check=lambda pre, post: wanted, tokens=20).repaired
    assert kept == tuple(wanted[: len(kept)])
    named = wanted[len(kept) : len(kept) + 3]
    assert str(lacking.value).endswith(f": {'; '.join(named)}")
    assert (lacking.value.usage, lacking.value.notes) == (Usage(7, 3), ("odd",))


@pytest.mark.parametrize(("budget", "granted"), [(400, 300), (403, 303), (1_024, 768), (1_028, 772), (80, 60)])
def test_at_most_a_quarter_of_the_budget_is_left_for_a_repair(budget: int, granted: int) -> None:
    inner = Writes()
    checked(inner, budget=budget)
    assert inner.budget == granted


def test_probes_ask_five_questions_at_most_about_what_was_replaced() -> None:
    lines = "\n".join(f"- Question {n}? | a{n} | b" for n in range(7))
    scripted = Scripted(lines, *["UNKNOWN"] * 5)
    probes = Probes(replace(inputs(), model=scripted))
    post = replace(PRE, summary=Summary("now", 1), turns=PRE.turns[-1:])
    missing = asyncio.run(probes(replace(PRE, summary=Summary("before", 1)), post))
    assert missing == tuple(f"Question {n}? a{n} | b" for n in range(5))
    work = scripted.requests[0].messages[0].content
    assert ("before" in work, "pay-7f3a91" in work) == (True, True)
    assert probes.usage.calls == 6


@pytest.mark.parametrize("failure", [ContextOverflow("too long"), Refused("no")])
def test_a_model_that_cannot_be_asked_finds_nothing_missing(failure: Exception) -> None:
    scripted = Scripted("Which? | x", failure)
    assert asyncio.run(Probes(replace(inputs(), model=scripted))(PRE, PRE)) == ()


def test_where_all_of_it_can_be_put_back_nothing_was_lost() -> None:
    assert checked(Writes(), otherwise="keep").repaired == ("Never pay twice.", "pay-8b2c02", "pay-7f3a91")
    assert checked(Writes("never pay twice; pay-7f3a91 and pay-8b2c02"), otherwise="keep").repaired == ()


SIZE = len(f"{HEADING}\n- a fact")


@pytest.mark.parametrize(
    ("tokens", "budget", "fits"),
    [
        (SIZE, 10_000, 1),
        (SIZE - 1, 10_000, 0),
        (10_000, 4 * SIZE, 1),
        (10_000, 4 * SIZE + 3, 1),
        (10_000, 4 * SIZE - 1, 0),
        (10_000, 4 * (SIZE + len("\n- another")), 2),
    ],
)
def test_a_repair_fills_its_limit_and_a_quarter_of_the_budget_to_the_last_token(
    tokens: int, budget: int, fits: int
) -> None:
    facts = ["a fact", "another"]
    post, number = repair(PRE, facts, tokens, budget, len)
    assert number == fits
    text = "\n".join((HEADING, *(f"- {fact}" for fact in facts[:fits])))
    assert post == (replace(PRE, summary=Summary.measured(text, len)) if fits else PRE)


def test_a_question_without_an_answer_asks_for_nothing() -> None:
    asked = "Which token? |  \nWhich door? | -\nWho? | Ada Byron"
    compaction = checked(Writes(), asked, "UNKNOWN", "UNKNOWN", "Ada", check="probes")
    assert compaction.repaired == ("Who? Ada Byron",)


def test_a_function_is_a_check_whatever_its_parameters_are_called() -> None:
    def check(before: Context, inputs: Context) -> Sequence[str]:
        return ["room 7"]

    assert load_check(check, inputs()) is check
