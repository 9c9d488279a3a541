"""What a server answers is taken only from where it was asked, and only up to a size, unpacked."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2

MOST_BYTES = 32 * 1024 * 1024
"""Of one answer, unpacked. The longest reply that is kept has a hundredth of it."""

_PART = 1 << 20


class UnusableAnswer(Exception):
    """An answer that goes on beyond its limit, or is not packed as it says."""


class RefusedRedirect(Exception):
    """A server that sends the request, and with it the prompt, to another one, nowhere, or round in circles."""


async def guard(response: httpx2.Response) -> None:
    """To be called with every response before its body is read or a redirect is followed."""
    if response.is_redirect and "location" in response.headers:
        try:
            target = response.url.join(response.headers["location"])
        except (httpx2.InvalidURL, ValueError):
            raise RefusedRedirect("sends requests on to something that is no address") from None
        if _origin(target) != _origin(response.url):
            raise RefusedRedirect(
                f"sends requests on to {target.host}:{target.port or target.scheme}, which is refused"
            )
    response.stream = _Bounded(response.stream, response.headers.pop("content-encoding", ""))


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


class _Bounded(httpx2.AsyncByteStream):
    """A body, unpacked part by part, so that no part becomes larger than the limit."""

    def __init__(self, stream: Any, coding: str) -> None:
        self._stream, self._coding = stream, coding.strip().lower()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for part in self._unpack():
            total += len(part)
            if total > MOST_BYTES:
                raise UnusableAnswer(f"it has more than {MOST_BYTES:,} bytes")
            yield part

    async def _unpack(self) -> AsyncIterator[bytes]:
        if self._coding in ("", "identity"):
            async for part in self._stream:
                yield part
            return
        if self._coding not in ("gzip", "x-gzip", "deflate"):
            raise UnusableAnswer(f"it is packed as {self._coding[:40]!r}, so that its size is not known")
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
        async for part in self._stream:
            while part and not unpacker.eof:
                try:
                    yield unpacker.decompress(part, _PART)
                except zlib.error as error:
                    raise UnusableAnswer(f"it is not packed as {self._coding}, as it says ({error})") from None
                part = unpacker.unconsumed_tail

    async def aclose(self) -> None:
        await self._stream.aclose()
