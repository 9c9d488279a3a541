"""The harness's end of a channel: nothing of a message is lost, however it comes and whoever stops waiting for it."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct

import pytest
from hypothesis import given, strategies as st

from recompact.environments.async_channel import AsyncChannel, MalformedMessage, socket_pair
from recompact.environments.channel import Message, pack

MESSAGES: list[Message] = [{"ok": 1}, {"ok": "x" * 300, "number": 2}, {"error": "é\u2028", "kind": "Odd"}]


async def patient(channel: AsyncChannel, theirs: socket.socket, parts: list[bytes]) -> list[Message | None]:
    """What is received where each part is sent only after a wait for the whole was given up."""
    received: list[Message | None] = []
    for part in parts:
        theirs.sendall(part)
        while True:
            try:
                async with asyncio.timeout(0):
                    received.append(await channel.receive())
            except TimeoutError:
                break
    return received


@given(st.lists(st.integers(1, 400), max_size=6))
def test_a_wait_that_is_given_up_loses_nothing(cuts: list[int]) -> None:
    whole = b"".join(map(pack, MESSAGES))
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    parts = [whole[start:end] for start, end in itertools.pairwise(edges)]
    channel, theirs = socket_pair()
    with theirs:
        assert asyncio.run(patient(channel, theirs, parts)) == MESSAGES
    channel.close()


async def test_a_message_that_comes_in_the_moment_the_wait_ends_is_the_next_one() -> None:
    channel, theirs = socket_pair()
    waiting = asyncio.ensure_future(channel.receive())
    await asyncio.sleep(0)
    theirs.sendall(pack({"ok": "late"}))
    asyncio.get_running_loop().call_soon(waiting.cancel)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await channel.receive() == {"ok": "late"}
    theirs.close()
    assert await channel.receive() is None
    channel.close()


async def test_large_messages_come_whole_and_what_follows_them_too() -> None:
    channel, theirs = socket_pair()
    large: Message = {"ok": "y" * 5_000_000}
    sending = asyncio.to_thread(theirs.sendall, pack(large) + pack({"ok": "next"}))
    received, _ = await asyncio.gather(channel.receive(), sending)
    assert received == large
    assert await channel.receive() == {"ok": "next"}
    theirs.close()
    channel.close()


@pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">I", 50) + b'{"ok": 1'])
async def test_a_side_that_breaks_off_has_gone(sent: bytes) -> None:
    channel, theirs = socket_pair()
    theirs.sendall(sent)
    theirs.close()
    assert await channel.receive() is None
    channel.close()


@pytest.mark.parametrize("size", [0, 101])
async def test_a_length_that_is_not_allowed_is_refused_before_anything_is_waited_for(size: int) -> None:
    channel, theirs = socket_pair()
    theirs.sendall(struct.pack(">I", size))
    with pytest.raises(MalformedMessage, match=f"{size} bytes.* 1 to 100"):
        await channel.receive(100)
    theirs.close()
    channel.close()


async def test_a_length_at_the_limit_is_allowed() -> None:
    channel, theirs = socket_pair()
    theirs.sendall(pack({"ok": "z" * 90}))
    assert len(pack({"ok": "z" * 90})) == 4 + 100
    assert await channel.receive(100) == {"ok": "z" * 90}
    theirs.close()
    channel.close()
