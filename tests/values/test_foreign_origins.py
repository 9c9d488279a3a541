"""Who may ask a server on loopback, and which of its troubles are told."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from aiohttp.http_exceptions import BadStatusLine
from aiohttp.web import RequestPayloadError

from recompact.values.loopback import _server_log, foreign_origin, is_among


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"Host": "127.0.0.1:80"}, ""),
        ({"Host": "localhost:80", "Origin": "http://127.0.0.1:80", "Sec-Fetch-Site": "same-origin"}, ""),
        ({"Host": "box:80", "Sec-Fetch-Site": "none"}, ""),
        ({"Host": "127.0.0.1:81"}, "it is for another host"),
        ({"Host": "evil.org:80"}, "it is for another host"),
        ({}, "it is for another host"),
        ({"Host": "localhost:80", "Origin": "http://evil.org"}, "a foreign page sent it"),
        ({"Host": "localhost:80", "Origin": "https://localhost:80"}, "a foreign page sent it"),
        ({"Host": "localhost:80", "Origin": ""}, "a foreign page sent it"),
        ({"Host": "localhost:80", "Sec-Fetch-Site": "cross-site"}, "a foreign page sent it"),
        ({"Host": "localhost:80", "Sec-Fetch-Site": "same-site"}, "a foreign page sent it"),
    ],
)
def test_only_our_own_pages_and_no_other_names_are_answered(headers: dict[str, str], reason: str) -> None:
    assert foreign_origin(headers, 80, ["box"]) == reason


def test_a_secret_is_known_by_all_of_it() -> None:
    assert is_among("abc", ["x", "abc"])
    assert not is_among("abc", ["ab", "abcd", ""])
    assert not is_among("abc", [])


def record(trouble: Any) -> logging.LogRecord:
    return logging.LogRecord("recompact.http", logging.ERROR, "", 0, "trouble", (), trouble)


def test_what_somebody_sends_that_is_no_http_is_no_trouble_of_ours() -> None:
    log = _server_log()
    assert (log, len(log.filters)) == (_server_log(), 1)  # however often it is asked for
    for trouble, told in ((BadStatusLine("?"), False), (RequestPayloadError("cut"), False), (OSError("full"), True)):
        assert bool(log.filter(record((type(trouble), trouble, None)))) is told
    assert log.filter(record(None))
