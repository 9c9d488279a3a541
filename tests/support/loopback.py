"""Any handler as a server on loopback, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from aiohttp import web


@contextmanager
def served_app(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Iterator[str]:
    """Everything that is sent to the address goes to this handler while the block runs."""
    ready, stop = Event(), Event()
    address: list[str] = []

    async def run() -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
        ready.set()
        while not stop.is_set():
            await asyncio.sleep(0.02)
        await runner.cleanup()

    thread = Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert ready.wait(10)
        yield address[0]
    finally:
        stop.set()
        thread.join()
