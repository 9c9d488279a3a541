"""The context of an agent: a fixed prefix, at most one summary, what is pinned, and the turns since.

An immutable value. It knows how the agent reads it (`messages`), how a compressor reads it (`history`) and how large
its compressible part is (`size`). PRE and POST of a boundary are two of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from recompact.values.chat import Message, chain_digest
from recompact.values.tokens import BytePairs, TokenCounter


@dataclass(frozen=True)
class Turn:
    """One assistant message with the results of its calls. `tokens` is measured once.

    `said` are those of the message alone, where they were counted apart: who changes results need not count them again.
    """

    message: Message
    results: tuple[Message, ...]
    tokens: int
    said: int = field(default=0, compare=False, repr=False)

    @staticmethod
    def measured(message: Message, results: tuple[Message, ...], count: TokenCounter) -> Turn:
        if not results or not isinstance(count, BytePairs):
            return Turn(message, results, count(render_turn(message, results)))
        message_tokens = count(render_turn(message, ()) + "\n")
        return Turn(message, results, message_tokens + count(render_results(message, results)), message_tokens)

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message, *self.results)

    @cached_property
    def text(self) -> str:
        return render_turn(self.message, self.results)


@dataclass(frozen=True)
class Summary:
    """What a compressor wrote in place of the history.

    `item` is JSON that a provider wants back unchanged in its place, where the provider wrote it in a form of its own.
    """

    text: str
    tokens: int
    item: str = ""

    @staticmethod
    def measured(text: str, count: TokenCounter) -> Summary:
        return Summary(text, count(text))


@dataclass(frozen=True)
class Pin:
    """A message that stays word for word although the turn that it belonged to is gone."""

    message: Message
    tokens: int


@dataclass(frozen=True)
class Context:
    """What the agent sees (the paper's z).

    >>> from recompact.values.chat import assistant, system, user
    >>> z = Context((system("Be brief."), user("Count to two.")))
    >>> z = z.extended(Turn(assistant("one"), (user("go on"),), tokens=7))
    >>> z.size, [m.role for m in z.messages]
    (7, ['system', 'user', 'assistant', 'user'])
    """

    prefix: tuple[Message, ...]
    summary: Summary | None = None
    turns: tuple[Turn, ...] = ()
    pinned: tuple[Pin, ...] = ()

    @cached_property
    def size(self) -> int:
        """Tokens of the previous summary, the pins and the turns. The prefix is not counted."""
        written = self.summary.tokens if self.summary else 0
        return written + sum(pin.tokens for pin in self.pinned) + sum(turn.tokens for turn in self.turns)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The context as the agent reads it."""
        messages = list(self.prefix)
        if self.summary is not None:
            messages.append(summary_message(self.summary.text, self.summary.item))
        messages.extend(pin.message for pin in self.pinned)
        for turn in self.turns:
            messages.append(turn.message)
            messages.extend(turn.results)
        return tuple(messages)

    @cached_property
    def digest(self) -> str:
        """The chained digest of its messages, so that a request need not hash all of them again."""
        return chain_digest("", self.messages)

    @property
    def history(self) -> str:
        """The turns as one text, as a compressor reads them."""
        return "\n\n".join(turn.text for turn in self.turns)

    @property
    def last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    def extended(self, turn: Turn) -> Context:
        """With one more turn. Sizes and digests are carried over, so that a step costs only its own text."""
        longer = Context(self.prefix, self.summary, (*self.turns, turn), self.pinned)
        longer.__dict__["size"] = self.size + turn.tokens
        longer.__dict__["messages"] = self.messages + turn.messages
        longer.__dict__["digest"] = chain_digest(self.digest, turn.messages)
        return longer

    def before_last(self) -> Context:
        """Without the most recent turn: what a compressor consumes, since that turn stays verbatim."""
        return replace(self, turns=self.turns[:-1])


def replaced_turns(pre: Context, post: Context) -> tuple[int, ...]:
    """Which turns of one context, from 0, the other does not have as they were: dropped, or changed in their place.

    What a compressor keeps of the turns is their end, each in its place; some of it may have been made shorter.
    """
    dropped = len(pre.turns) - len(post.turns)
    return tuple(n for n, turn in enumerate(pre.turns) if n < dropped or post.turns[n - dropped] != turn)


def summary_message(text: str, item: str = "") -> Message:
    """A summary as the agent reads it: after the prefix, marked as a record and not as an instruction."""
    introduced = "Earlier steps of this task were replaced by the following summary of them."
    return Message("user", f"{introduced}\n<summary>\n{text}\n</summary>", thoughts=item)


def render_turn(message: Message, results: Sequence[Message]) -> str:
    """A turn as text. Calls keep the exact arguments, since a compressor can only keep what it is shown."""
    lines = ["[assistant]"]
    if message.content:
        lines.append(message.content)
    lines.extend([f"-> {call.name}({call.arguments})" for call in message.calls])
    return "\n".join([*lines, render_results(message, results)] if results else lines)


def render_results(message: Message, results: Sequence[Message]) -> str:
    """Results as text, each under the name of its call."""
    names = {call.id: call.name for call in message.calls}
    return "\n".join([render_result(result, names.get(result.call_id)) for result in results])


def render_result(result: Message, name: str | None) -> str:
    return f"[result of {name}]\n{result.content}" if name else f"[{result.role}]\n{result.content}"
