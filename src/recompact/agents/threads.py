"""Which conversation a request belongs to: the agent's main one, or a side call such as a title or a subagent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from recompact.values.chat import Message, Request, chain_digest

SUBAGENT_HEADERS = ("x-openai-subagent", "x-claude-code-agent-id", "x-parent-session-id")
"""Headers by which harnesses mark subagent requests."""

_Mask = Callable[[str], str]


@dataclass
class Thread:
    """One conversation: its last request, and the call that was delivered last."""

    name: str
    messages: tuple[Message, ...] = ()
    call_id: str = ""
    requests: int = 0


@dataclass
class Threads:
    """The conversations of one episode. The first request that offers tools begins the main one; all others that
    neither continue it nor answer its last call are side calls."""

    mask: _Mask
    single: bool = False  # all requests belong to one conversation, with tools or without
    main: Thread | None = None
    sides: list[Thread] = field(default_factory=list)

    def thread_of(self, request: Request, headers: Mapping[str, str]) -> Thread:
        if self.single:
            self.main = self.main or Thread("main")
            return self.main
        subagent = any(name in headers for name in SUBAGENT_HEADERS)
        if self.main is None and request.tools and not subagent:
            self.main = Thread("main")
            return self.main
        if self.main is not None and not subagent and self.continues(self.main, request.messages):
            return self.main
        for side in self.sides:
            if self.continues(side, request.messages):
                return side
        return self._new(request.messages)

    def continues(self, thread: Thread, messages: Sequence[Message]) -> bool:
        """Whether a request is the next of a thread: it answers the call that was delivered last, or continues the last
        request. The same request again belongs to it too."""
        if thread.call_id and any(message.call_id == thread.call_id for message in messages):
            return True
        return len(messages) >= len(thread.messages) and self.alike(messages[: len(thread.messages)], thread.messages)

    def alike(self, one: Sequence[Message], other: Sequence[Message]) -> bool:
        """Whether messages are the same apart from what is masked."""
        return len(one) == len(other) and all(map(self._alike, one, other))

    def _alike(self, one: Message, other: Message) -> bool:
        if one == other:
            return True
        same = (one.role, one.call_id, len(one.calls)) == (other.role, other.call_id, len(other.calls))
        return same and self.mask(one.text) == self.mask(other.text)

    def _new(self, messages: Sequence[Message]) -> Thread:
        masked = [Message(m.role, self.mask(m.content)) for m in messages[:2]]
        name = beginning_name("side", masked, [side.name for side in self.sides])
        thread = Thread(name, tuple(messages))
        self.sides.append(thread)
        return thread


def beginning_name(kind: str, messages: Sequence[Message], names: Sequence[str]) -> str:
    """The name of a conversation, by how it begins, so that it is the same in every run; those that begin alike are
    numbered. `names` are those given before."""
    name = f"{kind}-{chain_digest('', messages)[:8]}"
    alike = sum(other.partition("+")[0] == name for other in names)
    return f"{name}+{alike}" if alike else name
