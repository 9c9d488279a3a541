"""Web servers on loopback: whether a request comes from where it may, and which of their troubles are worth a line.

Any page that a browser shows, and anybody on the machine, can send requests to a port of loopback.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import Any


def foreign_origin(headers: Mapping[str, str], port: int, hosts: Iterable[str] = ()) -> str:
    """Why a request to this port of loopback may not be answered, or nothing: it was sent to another name, which may
    have been pointed here, or by a page that is not ours."""
    own = {f"{host}:{port}" for host in ("127.0.0.1", "localhost", *hosts)}
    if headers.get("Host", "") not in own:
        return "it is for another host"
    origin = headers.get("Origin")
    if origin is not None and origin.removeprefix("http://") not in own:
        return "a foreign page sent it"
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return "a foreign page sent it"
    return ""


def is_among(secret: str, candidates: Iterable[str]) -> bool:
    """Whether one of these is the secret, in a time that does not tell how much of it is right."""
    return any(secrets.compare_digest(each.encode(errors="replace"), secret.encode()) for each in candidates)


def server_settings() -> Mapping[str, Any]:
    """How a server of aiohttp is run here. It unpacks no body: aiohttp would unpack that of a refused request too, and
    do nothing else meanwhile."""
    return {"access_log": None, "logger": _server_log(), "shutdown_timeout": 0.5, "auto_decompress": False}


def _server_log() -> logging.Logger:
    """Where it writes its troubles: not for what somebody sends that is no HTTP, which is answered with 400 and no
    more."""
    log = logging.getLogger("recompact.http")
    if not log.filters:
        log.addFilter(_is_our_trouble)
    return log


def _is_our_trouble(record: logging.LogRecord) -> bool:
    from aiohttp.http_exceptions import HttpProcessingError
    from aiohttp.web import RequestPayloadError

    trouble = record.exc_info[1] if isinstance(record.exc_info, tuple) else record.exc_info
    return not isinstance(trouble, HttpProcessingError | RequestPayloadError)
