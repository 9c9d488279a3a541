"""Which conversation a request belongs to: the agent's main one, or a side call such as a title or a subagent; and one
conversation of a loop in this process: whoever runs the loop asks, and a rollout answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recompact.agents.process import AgentDirectories
from recompact.agents.server import AgentCallbacks, Exchange
from recompact.errors import RecompactError
from recompact.models.failures import ModelFailure
from recompact.values.chat import Decoding, Message, Reply, Request, chain_digest

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


TRIES = 3
"""How often a model is asked for one request of a loop, if nothing of what it says can be delivered."""


@dataclass(eq=False)
class Conversation:
    """One conversation: its requests so far, and the rollout that answers them, which `play` begins.

    Where a model has failed for good, the same request may be made again: the rollout is then played once more from the
    journal, and gets the requests it had, until it is back where it was. A conversation that is `over` is not: it would
    end as before.
    """

    name: str
    play: Callable[[Conversation], Coroutine[Any, Any, None]]
    requests: list[Request] = field(default_factory=list)
    ended: bool = False
    over: RecompactError | None = None  # why it cannot go on, whatever is asked
    reply: Reply | None = None  # the model's, as long as none of it has been delivered
    _playing: asyncio.Task[None] | None = None
    _fed: int = 0  # requests that this rollout has had
    _attempts: list[int] = field(default_factory=list)  # how often somebody has waited for each request
    _tries: tuple[int, int] = (0, 0)  # for which request, and how many replies it has had
    _callbacks: AgentCallbacks | None = None
    _running: RunningLoop | None = None
    _caller: asyncio.Future[Reply] | None = None
    _taken: bool = True  # whether somebody has the answer to the last request
    _unclaimed: Reply | None = None  # where whoever asked did not wait for it

    def goes_on_with(self, request: Request) -> bool:
        """Whether a request is the next one of this conversation, or the last one again if nobody has its answer."""
        if self._caller is not None:
            return False
        if not self._taken:
            return request.messages == self.requests[-1].messages
        over = self._playing is not None and self._playing.done()
        last = Thread(self.name, self.requests[-1].messages)
        return not over and len(request.messages) > len(last.messages) and _EXACT.continues(last, request.messages)

    async def ask(self, request: Request) -> Reply:
        if self.over is not None:
            raise self.over
        if self._taken:
            self.requests.append(request)
            self._attempts.append(0)
        self._taken = False
        if self._unclaimed is not None:
            reply, self._unclaimed = self._unclaimed, None
        else:
            reply = await self._await_reply()
        self._taken = True
        return reply

    async def _await_reply(self) -> Reply:
        self._caller = asyncio.get_running_loop().create_future()
        self._attempts[-1] += 1
        if self._playing is None or self._playing.done():
            self._fed, self._tries, self.reply, self._callbacks = 0, (0, 0), None, None
            self._playing = asyncio.create_task(self.play(self))
            self._playing.add_done_callback(self._note_end)
        elif self._fed < len(self.requests) and self._callbacks is not None:  # or else the launch will
            self._feed()
        try:
            return await self._caller
        finally:
            self._caller = None

    async def launch(self, directories: AgentDirectories, task: str, callbacks: AgentCallbacks) -> RunningLoop:
        self._callbacks, self._running = callbacks, RunningLoop()
        self._feed()
        return self._running

    @property
    def decoding(self) -> Decoding:
        """What the request being answered asks for."""
        return self.requests[self._fed - 1].decoding

    def check_tries(self) -> None:
        """Before the model is asked: not more often than `TRIES` for one request, for each time that it was made.

        Replies that cannot be delivered (calls of tools that there are not) are answered without the loop, and each
        further one is paid for. Whoever makes the request again gets as many tries more.
        """
        fed, tries = self._tries if self._tries[0] == self._fed else (self._fed, 0)
        if tries >= TRIES * self._attempts[fed - 1]:
            raise ModelFailure(
                f"none of the model's {tries} messages could be delivered: each called a tool that the request does not"
                " have, or gave arguments that are no JSON object. The same request may be made again"
            )
        self._tries = fed, tries + 1

    def forgive_try(self) -> None:
        """The last reply needs no delivery: it does not count among the tries."""
        self._tries = self._tries[0], self._tries[1] - 1

    def _feed(self) -> None:
        """Give the rollout the next request."""
        assert self._callbacks is not None
        exchange = Exchange(self.requests[self._fed], {})
        self._fed += 1
        exchange.answer.add_done_callback(self._deliver)
        self._callbacks.arrive(exchange)

    def _deliver(self, answer: asyncio.Future[Message]) -> None:
        reply = self._with_words(answer.result())
        if self._fed < len(self.requests):
            self._feed()
        elif self._caller is not None and not self._caller.done():
            self._caller.set_result(reply)
        else:
            self._unclaimed = reply

    def _with_words(self, message: Message) -> Reply:
        """A message with what the model said beside it. Several calls in a reply are delivered one by one; what was
        said and used comes with the first."""
        reply, self.reply = self.reply, None
        if reply is None:
            return Reply(message)
        content = message.content if not message.calls else reply.message.content
        return replace(reply, message=Message("assistant", content, message.calls))

    def _note_end(self, playing: asyncio.Task[None]) -> None:
        if self._caller is None or self._caller.done():
            if not playing.cancelled():
                playing.exception()  # nobody waits for it
            return
        error = None if playing.cancelled() else playing.exception()
        self._caller.set_exception(error or ModelFailure("the client was closed before the model answered"))

    async def end(self) -> None:
        self.ended = True
        if self._playing is None:
            return
        if not self._taken and self._unclaimed is None:
            self._playing.cancel()  # its calls are journaled; replayed, it gets back to where it was
        elif self._running is not None and not self._running.ended.done():
            self._running.ended.set_result(0)
        await asyncio.gather(self._playing, return_exceptions=True)


_EXACT = Threads(lambda text: text)


class RunningLoop:
    """A loop that somebody else runs."""

    last_line = ""

    def __init__(self) -> None:
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def excess(self) -> str:
        return ""

    def kill(self) -> None: ...

    async def end(self) -> None: ...
