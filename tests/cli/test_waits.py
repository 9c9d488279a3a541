"""Waits for a server are shown on standard error, where a person waits too."""

from __future__ import annotations

import json
from pathlib import Path

import fakes
import pytest
from aiohttp import web
from commands import reading_config, recompact
from loopback import served_app
from odd_replies import CHAT, with_value


def test_a_long_wait_is_shown_and_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recompact.models.limits.NOTABLE", 0.1)
    finish = {"name": "finish", "arguments": json.dumps({"answer": "read"})}
    good = with_value(CHAT, ("choices", 0, "message", "tool_calls", 0, "function"), finish)
    refused: list[bool] = []

    async def answer(http: web.Request) -> web.Response:
        if not refused:
            refused.append(True)
            headers = {"Retry-After": "86400"}
            return web.json_response({"error": {"message": "[red]tomorrow[/]"}}, status=429, headers=headers)
        return web.json_response(good)

    with served_app(answer) as url:
        config = tmp_path / "pages.toml"
        config.write_text(reading_config(f"{fakes.__file__}:pages_suite_4", url, model="max_wait = 0.2\n"))
        ended = recompact("collect", config)
        assert ended.returncode == 0, ended.stderr
        assert "reader waits 0 s (rate limit; try 2 of 8 follows): reader at 127.0.0.1" in ended.stderr
        assert "[red]tomorrow[/]" in ended.stderr  # as it came: nothing in it is markup
