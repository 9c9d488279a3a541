"""The receipt of a compaction: what it dropped, kept and pinned, which exact values and rules are gone, and its cost.

It follows from the contexts before and after alone, so whoever has both can make one: no record keeps it. Costs are in
tokens of uncached input, so that no figure depends on a provider's money: what tokens cost where a server keeps a
prompt cache, and after how many calls a compaction has paid for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from recompact.values.chat import Usage
from recompact.values.context import Context, Turn, replaced_turns
from recompact.values.literals import exact_values, rules_in, says
from recompact.values.texts import quantity

NAMED = 8  # values that a sentence names


@dataclass(frozen=True)
class Receipt:
    """What one compaction did. `dropped` counts turns that are gone or no longer as they were; `lost` are exact values
    that they (or the summary before) had and the agent no longer sees, those of its own calls first; `rules` are orders
    of the user that are gone; `repaired` is what a check put back.

    >>> from recompact.values.chat import Message, ToolCall, assistant, user
    >>> from recompact.values.context import Summary
    >>> called = Message("assistant", "", (ToolCall("1", "pay", '{"token": "pay-7f3a91"}'),))
    >>> turns = (Turn(called, (user("Never pay twice."),), 30), Turn(assistant("ok"), (), 2))
    >>> pre = Context((), turns=turns)
    >>> one = receipt(pre, Context((), Summary("paid", 1), turns[1:]), Usage(40, 5))
    >>> one.dropped, one.kept, one.lost, one.rules, one.bill.payback
    (1, 1, ('pay-7f3a91',), ('Never pay twice.',), 24)
    """

    before: int  # tokens of history
    after: int
    dropped: int
    kept: int
    pinned: tuple[str, ...]
    lost: tuple[str, ...]
    lost_used: int  # how many of them, the first ones, the agent had used in its calls
    carried: int  # exact values of the dropped part that the agent still sees
    rules: tuple[str, ...]
    usage: Usage
    bill: CompactionBill
    repaired: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "before": self.before,
            "after": self.after,
            "dropped_turns": self.dropped,
            "kept_turns": self.kept,
            "pinned": list(self.pinned),
            "lost": list(self.lost),
            "lost_used": self.lost_used,
            "carried": self.carried,
            "lost_rules": list(self.rules),
            "repaired": list(self.repaired),
            "usage": self.usage.to_json(),
            "bill": self.bill.to_json(),
        }

    @property
    def sentences(self) -> tuple[str, ...]:
        """The receipt in words."""
        values = self.carried + len(self.lost)
        lines = [
            f"{self.before:,} tokens of history became {self.after:,}: {quantity(self.dropped, 'turn')} replaced, "
            f"{self.kept} kept" + (f", {quantity(len(self.pinned), 'message')} pinned" if self.pinned else "") + "."
        ]
        if values:
            more = f" and {len(self.lost) - NAMED} more" if len(self.lost) > NAMED else ""
            named = f": {', '.join(self.lost[:NAMED])}{more}" if self.lost else ""
            used = f" ({self.lost_used} of them used in calls)" if self.lost_used else ""
            lines.append(f"Of {quantity(values, 'exact value')}, {len(self.lost)} can no longer be seen{used}{named}.")
        if self.rules:
            lines.append(f"Rules of the user that are gone: {' / '.join(self.rules[:NAMED])}")
        if self.repaired:
            lines.append(f"The check put back: {', '.join(self.repaired[:NAMED])}.")
        payback = self.bill.payback
        lines.append(
            f"The summary cost {self.usage.input:,} tokens in and {self.usage.output:,} out; the next call writes "
            f"{self.bill.written:,} tokens to the cache, and "
            + (
                f"the compaction pays for itself from call {payback:,} on."
                if payback
                else "the compaction never pays for itself: the history did not shrink."
            )
        )
        return tuple(lines)


def receipt(pre: Context, post: Context, usage: Usage = Usage(), repaired: Sequence[str] = ()) -> Receipt:
    """The receipt of the compaction that made one context of another."""
    dropped_turns = [pre.turns[n] for n in replaced_turns(pre, post)]
    values = distinct((*exact_values_of(dropped_turns), *(exact_values(pre.summary.text) if pre.summary else ())))
    shown = shown_text(post)
    lost = tuple(value for value in values if value not in shown)
    used = {value for turn in dropped_turns for call in turn.message.calls for value in exact_values(call.arguments)}
    common = same_beginning(_parts(pre), _parts(post))
    return Receipt(
        pre.size,
        post.size,
        len(dropped_turns),
        len(pre.turns) - len(dropped_turns),
        tuple(pin.message.content for pin in post.pinned),
        lost,
        sum(value in used for value in lost),
        len(values) - len(lost),
        tuple(rule for rule in rules_of(dropped_turns) if not says(shown, rule)),
        usage,
        CompactionBill(common, post.size - common, pre.size - post.size, cost_of_summary(usage)),
        tuple(repaired),
    )


def distinct(values: Iterable[str]) -> list[str]:
    """Each value once, without those that are a part of another.

    >>> distinct(["pay-7f3a91", "7f3a91b2", "7f3a91", "pay-7f3a91"])
    ['pay-7f3a91', '7f3a91b2']
    """
    unique = list(dict.fromkeys(values))
    every = "\n".join(unique)
    return [value for value in unique if every.find(value, every.find(value) + 1) < 0]


def texts_of(turns: Sequence[Turn]) -> Iterator[str]:
    """The texts of turns that may hold exact values: those of the agent's own calls first, then results, the latest
    first in both."""
    yield from (call.arguments for turn in reversed(turns) for call in turn.message.calls)
    yield from (result.content for turn in reversed(turns) for result in turn.results)


def exact_values_of(turns: Sequence[Turn]) -> Iterator[str]:
    """The exact values of turns, in that order."""
    return (value for text in texts_of(turns) for value in exact_values(text))


def rules_of(turns: Sequence[Turn]) -> tuple[str, ...]:
    """The rules that the user stated in these turns. What a harness answers in the user's name is no rule."""
    messages = (each.content for turn in turns for each in turn.results if each.role == "user")
    return tuple(dict.fromkeys(rule for text in messages if not text.startswith("Error:") for rule in rules_in(text)))


def shown_text(context: Context) -> str:
    """All that the agent sees, its own calls included."""
    called = (call.arguments for turn in context.turns for call in turn.message.calls)
    return "\n".join((*(message.content for message in context.messages), *called))


def _parts(context: Context) -> Iterator[tuple[Any, int]]:
    yield context.summary, context.summary.tokens if context.summary else 0
    yield from ((pin, pin.tokens) for pin in context.pinned)
    yield from ((turn, turn.tokens) for turn in context.turns)


READ, WRITE, OUTPUT = 0.1, 1.25, 5.0
"""The usual prices of tokens that are read from a prompt cache, written to it, or put out, where one of input is 1."""

PRICES = (
    f"thousand tokens of uncached input, where one from the cache costs {READ}, one written to it {WRITE}, one of"
    f" output {OUTPUT:g}"
)


def same_beginning(pre: Iterable[tuple[Any, int]], post: Iterable[tuple[Any, int]]) -> int:
    """Of two contexts as parts with their tokens, how much is the same from the beginning on: what a cache still has.

    >>> same_beginning([("a", 5), ("b", 7)], [("a", 5), ("c", 7), ("b", 7)])
    5
    """
    size = 0
    for (old, tokens), (new, _) in zip(pre, post, strict=False):
        if old != new:
            break
        size += tokens
    return size


def cost_of_summary(usage: Usage) -> float:
    """What a compressor's calls cost: its prompt is new each time, unless the server says that it had it."""
    return (usage.input - usage.cached) + READ * usage.cached + OUTPUT * usage.output


def cost(usage: Mapping[str, Usage], cached: float) -> float:
    """What an episode cost. Of what the agent read, the share `cached` came from the cache, and the rest was written
    to it."""
    agent, compressor = usage.get("agent", Usage()), usage.get("compressor", Usage())
    read = READ * cached + WRITE * (1 - cached)
    return read * agent.input + OUTPUT * agent.output + cost_of_summary(compressor)


@dataclass(frozen=True)
class CompactionBill:
    """What a compaction cost and saves. The first call after it reads `read` tokens of the new history from the cache
    and writes `written` to it; before it, all of the old history would have come from there. `saved` is how many tokens
    fewer every later call reads, `summary` what the compressor's calls cost (0 where that is unknown).

    >>> bill = CompactionBill(read=0, written=1_000, saved=9_000, summary=10_000.0)
    >>> bill.cost, bill.payback
    (11150.0, 13)
    """

    read: int
    written: int
    saved: int
    summary: float = 0.0

    @property
    def cost(self) -> float:
        """What it cost once: the summary, and writing what would have been read."""
        return self.summary + (WRITE - READ) * self.written

    @property
    def payback(self) -> int | None:
        """Calls after which it has paid for itself, all else equal; None where it never does."""
        return max(1, ceil(self.cost / (READ * self.saved))) if self.saved > 0 else None

    def to_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "written": self.written,
            "saved_per_call": self.saved,
            "summary": round(self.summary, 1),
            "cost": round(self.cost, 1),
            "payback_calls": self.payback,
        }
