"""How much of the input of a verification a server's prompt cache has, with and without scheduling by context.

    python benchmarks/prompt_cache.py                                      # a simulated server; a few minutes
    python benchmarks/prompt_cache.py --url http://127.0.0.1:18151/v1 --id 0.5b --concurrency 1 --concurrency 2
    python benchmarks/prompt_cache.py --json

One run is collected and then verified again and again, each time from a copy. The draws begin in one of three orders:
`as due` in the order in which the allocation asks for them (first draws first, PRE and POST in turn), `side by side`
by boundary and arm wherever a place is free, and `by context` as `recompact verify` does it, which also runs no more
draws at once than keep the server busy. `later draws` are those after the first of a boundary and arm.

The simulated server answers as the simulated agent does, on a clock of its own that only its replies move. With slots,
each keeps the last prompt that it had; a call takes the free slot that has most of its prompt, or the one that was used
least recently; what a slot has is not read again. The hosted one takes any number of calls and keeps what it has
answered for five minutes, in blocks of 128 tokens from 1,024 on. Reading takes 1 ms a token that is not cached, writing
20 ms a token. Common beginnings are found message by message.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import selectors
import tempfile
import time
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from recompact.attribution.agenda import DrawAgenda, draws_at_once
from recompact.attribution.cached_input import cached_input, share_text
from recompact.attribution.records import outcomes_in
from recompact.attribution.registry import allocation_of
from recompact.attribution.verify import verify
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import Config, VerifyConfig
from recompact.engine.config_parser import parse_config
from recompact.engine.store.calls import Pace
from recompact.engine.store.runs import phase_digest
from recompact.engine.store.store import Store
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request, Usage, canonical
from recompact.values.outcome import Draw
from recompact.values.tokens import counter

READING, WRITING = 0.001, 0.02  # seconds a token
BLOCK, SHORTEST, LIFETIME = 128, 1024, 300.0  # of the hosted cache: tokens, tokens, seconds
COUNT = counter()

SIMULATED = """
[suite]
use = "pocket"
split = "train"
limit = {tasks}
[compressor]
budget = 2048
[run]
concurrency = {concurrency}
"""
# As in docs/local-models.md; a temperature makes the draws differ.
LOCAL = """
[suite]
use = "pocket"
tasks = ["pocket-train-000", "pocket-train-003", "pocket-train-018", "pocket-train-021", "pocket-train-033"]
limit = {tasks}
options = {{ example = true }}
[models.local]
id = "{id}"
base_url = "{url}"
calls = "json"
timeout = 1200
concurrency = {calls}
[agent]
model = "local"
temperature = 0.7
max_output_tokens = 64
[compressor]
model = "local"
budget = 450
max_output_tokens = 150
temperature = 0
[run]
step_limit = 6
concurrency = {concurrency}
"""


# --- the simulated server

Prompt = tuple[tuple[str, int], ...]
"""The messages of a conversation: digest and tokens of each; the tools are the first."""


def prompt_of(request: Request) -> Prompt:
    tools = canonical([tool.to_json() for tool in request.tools])
    return ((tools, COUNT(tools)), *((message.digest, 4 + COUNT(message.text)) for message in request.messages))


def common(a: Prompt, b: Prompt) -> int:
    """Tokens of the beginning that two prompts share."""
    total = 0
    for (digest, tokens), (other, _) in zip(a, b, strict=False):
        if digest != other:
            break
        total += tokens
    return total


@dataclass
class Slots:
    """`number` slots, each with the last prompt that it had. Calls get one in the order in which they come."""

    number: int
    _free: dict[int, Prompt] = field(default_factory=dict)  # the least recently used first
    _taken: dict[int, Prompt] = field(default_factory=dict)
    _queue: deque[tuple[Prompt, asyncio.Future[int]]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._free = dict.fromkeys(range(self.number), ())

    async def served(self, prompt: Prompt, answer: Prompt, writing: float) -> int:
        taken: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append((prompt, taken))
        self._admit()
        slot = await taken
        cached = common(self._taken.pop(slot), prompt)
        await asyncio.sleep(READING * (size(prompt) - cached) + writing)
        self._free[slot] = (*prompt, *answer)
        self._admit()
        return cached

    def _shared_beginning(self, prompt: Prompt, slot: int) -> int:
        return common(self._free[slot], prompt)

    def _admit(self) -> None:
        while self._queue and self._free:
            prompt, taken = self._queue.popleft()
            slot = max(self._free, key=partial(self._shared_beginning, prompt))  # the first of several
            self._taken[slot] = self._free.pop(slot)
            taken.set_result(slot)


@dataclass
class Hosted:
    """Any number of calls; what was answered is kept for a while."""

    _kept: dict[Hashable, float] = field(default_factory=dict)  # beginning -> when it was last used

    async def served(self, prompt: Prompt, answer: Prompt, writing: float) -> int:
        clock = asyncio.get_running_loop().time
        known, beginning = 0, ""
        for digest, tokens in prompt:
            beginning = f"{beginning}{hash(digest)}"
            if clock() - self._kept.get(beginning, -LIFETIME) >= LIFETIME:
                break
            known += tokens
        cached = known // BLOCK * BLOCK if known >= SHORTEST else 0
        await asyncio.sleep(READING * (size(prompt) - cached) + writing)
        beginning = ""
        for digest, _ in (*prompt, *answer):
            beginning = f"{beginning}{hash(digest)}"
            self._kept[beginning] = clock()
        return cached


def size(prompt: Prompt) -> int:
    return sum(tokens for _, tokens in prompt)


@dataclass
class Caching:
    """A model behind a server with a prompt cache."""

    model: ChatModel
    server: Slots | Hosted

    @property
    def name(self) -> str:
        return self.model.name

    async def reply(self, request: Request) -> Reply:
        reply = await self.model.reply(request)
        prompt, answer = prompt_of(request), ((reply.message.digest, 4 + COUNT(reply.message.text)),)
        cached = await self.server.served(prompt, answer, WRITING * size(answer))
        tokens = size(prompt)
        return replace(reply, usage=Usage(tokens, size(answer), cached, 0, 1, 0, tokens))


class WaitingSelector(selectors.DefaultSelector):
    """Moves the clock forward instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


class SimulatedClock(asyncio.SelectorEventLoop):
    """A loop in which only waiting takes time, so that a makespan is the same every time."""

    def __init__(self) -> None:
        self._selecting = WaitingSelector()
        super().__init__(self._selecting)

    def time(self) -> float:
        return self._selecting.now


# --- the orders


class AsDue(DrawAgenda[Any]):
    """Draws in the order in which the allocation asks for them."""

    def _ask(self) -> None:
        self._changed = False
        for draw in self.allocation.due(self.outcomes):
            if draw not in self._asked:
                self._waiting.add((0, len(self._asked)), draw, draw)
                self._asked.add(draw)


ORDERS = ("as due", "side by side", "by context")


@contextmanager
def order_draws(order: str, concurrency: int, places: int) -> Iterator[None]:
    """While this lasts, draws begin in this order. Where every draw has a context of its own, none is preferred."""

    def apart(draw: Draw) -> Hashable:
        return draw

    with ExitStack() as stack:
        at_once = places if order == "by context" else concurrency
        stack.enter_context(mock.patch("recompact.attribution.verify.places", return_value=at_once))
        if order != "by context":
            stack.enter_context(mock.patch("recompact.attribution.agenda.context_of", apart))
        if order == "as due":
            stack.enter_context(mock.patch("recompact.attribution.verify.DrawAgenda", AsDue))
        yield


# --- measuring


async def collect_run(path: Path, config: Config) -> None:
    with Store.open(path) as store:
        async with open_study(config, store) as study:
            await collect(study)


async def verify_run(path: Path, config: Config, allocation: str, server: Slots | Hosted | None) -> dict[str, Any]:
    with Store.open(path) as store:
        async with open_study(config, store) as study:
            models = dict(study.models)
            if server is not None:
                models[config.agent.model] = Caching(models[config.agent.model], server)
            clock = time.monotonic if server is None else asyncio.get_running_loop().time
            began = clock()
            await verify(replace(study, models=models), allocation_of(store, VerifyConfig(allocation=allocation)))
            seconds = clock() - began
        cache = cached_input(store)
        return {
            "boundaries": len(outcomes_in(store).outcomes),
            "seconds": seconds,
            "all": cache.phase("continue"),
            "later": cache.later_draws,
            "digest": phase_digest(store, "continuation"),
        }


@dataclass(frozen=True)
class Setting:
    """A server, how many calls it is sent at once, how many draws run at once, and an allocation."""

    title: str
    calls: int
    concurrency: int
    allocation: str
    slots: int | None = None  # of a simulated server; None: the hosted one

    @property
    def server(self) -> Slots | Hosted:
        return Slots(self.slots) if self.slots else Hosted()


SETTINGS = tuple(
    Setting(f"{title}, {allocation}", calls, concurrency, allocation, slots)
    for allocation in ("uniform:3", "halving")
    for title, slots, calls, concurrency in (
        ("1 slot, 1 draw at once", 1, 1, 1),
        ("4 slots, 4 draws at once", 4, 4, 4),
        ("1 slot, 4 draws at once", 1, 1, 4),
        ("hosted, 16 draws at once", None, 16, 16),
        ("hosted, 64 draws at once", None, 64, 64),
    )
)


def measure(path: Path, config: Config, setting: Setting, order: str, simulated: bool) -> dict[str, Any]:
    copy = path.with_suffix(".copy.db")
    copy.write_bytes(path.read_bytes())
    # Nothing but replies takes time on the simulated clock; a real one is sent as many calls as draws run.
    places = draws_at_once(setting.concurrency, setting.calls, Pace(1.0, 0.0))
    with (
        order_draws(order, setting.concurrency, places),
        mock.patch("recompact.engine.study.Study.agent_slots", setting.slots if simulated else setting.calls),
        asyncio.Runner(loop_factory=SimulatedClock if simulated else None) as runner,
    ):
        server = setting.server if simulated else None
        return {
            "setting": setting.title,
            "order": order,
            **runner.run(verify_run(copy, config, setting.allocation, server)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tasks", type=int, help="how many tasks are collected (default: 4, or 2 of a real server)")
    parser.add_argument("--url", help="a real server, OpenAI-compatible; /v1 included")
    parser.add_argument("--id", default="0.5b", help="its model (default: %(default)s)")
    parser.add_argument("--draws", type=int, default=3, help="in each arm, of a real server (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, action="append", help="draws and calls at once, of a real server")
    parser.add_argument("--order", action="append", choices=ORDERS, help="only this one (may be repeated)")
    parser.add_argument("--run", type=Path, help="keep what was collected in this file, or use it")
    args = parser.parse_args()
    if args.url:
        settings: Sequence[Setting] = [
            Setting(f"{args.id}, {n} at once, uniform:{args.draws}", n, n, f"uniform:{args.draws}")
            for n in args.concurrency or [1]
        ]
    else:
        settings = SETTINGS
    figures = []
    with tempfile.TemporaryDirectory() as scratch:
        path = args.run or Path(scratch) / "collected.db"
        asyncio.run(collect_run(path, config_of(args, 1)))
        for setting in settings:
            for order in args.order or ORDERS:
                figures.append(measure(path, config_of(args, setting.concurrency), setting, order, not args.url))
                if not args.json:
                    show(figures[-1], first=order == (args.order or ORDERS)[0])
    if args.json:
        print(json.dumps([{**f, "all": f["all"].to_json(), "later": f["later"].to_json()} for f in figures], indent=2))
    if not args.url:
        for setting in settings:
            digests = {f["digest"] for f in figures if f["setting"] == setting.title}
            assert len(digests) == 1, f"{setting.title}: the order changed what came out"


def config_of(args: argparse.Namespace, concurrency: int) -> Config:
    values = {"concurrency": concurrency, "calls": concurrency, "url": args.url, "id": args.id}
    text = LOCAL if args.url else SIMULATED
    return parse_config(text.format(tasks=args.tasks or (2 if args.url else 4), **values), Path("prompt_cache.toml"))


def show(figures: dict[str, Any], first: bool) -> None:
    if first:
        print(f"{figures['setting']} ({figures['boundaries']} boundaries)")
    print(
        f"  {figures['order']:14} later draws {share_text(figures['later']):>26}"
        f"  all {share_text(figures['all']):>26}  {figures['seconds']:>9,.1f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
