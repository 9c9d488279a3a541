"""The viewer over HTTP: who is let in, what the views show, and that nothing can be written."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import aiohttp
import pytest
from report_support import (
    ALL_HOSTILE,
    SCRIPT,
    Page,
    add_boundary,
    make_evaluation,
    make_verified,
    note_adaptation,
    selected,
)
from view_support import add_case, note_plan

from recompact.engine.store.store import Store
from recompact.presentation.view.server import serve
from recompact.values.candidate import Candidate, Clause
from recompact.values.loopback import CONNECTIONS


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A verified and adapted run and an evaluation, with hostile texts wherever somebody else may write."""
    from report_support import adapted_template

    home = tmp_path_factory.mktemp("runs")
    make_verified(home / "verified.db", ["all is well", SCRIPT, ALL_HOSTILE, "wide " * 400_000])
    clause = Clause(f"Keep it. {SCRIPT}", "Goal", ("task all is well#1",))
    candidate = Candidate("candidate-1", adapted_template(), (clause,))
    with Store.open(home / "verified.db") as store:
        note_adaptation(store, candidate, selected(candidate))
        add_case(store, f"cited {ALL_HOSTILE}")
        note_plan(store, f"stage {ALL_HOSTILE}".replace("\ud800", ""))
    make_evaluation(home / "evaluated.db", names=[f"arm {SCRIPT}"[:30]], tasks=[f"task {SCRIPT}"])
    (home / "broken.db").write_bytes(b"no run at all")
    return home


@dataclass
class Visit:
    """A browser without a screen."""

    address: str
    session: aiohttp.ClientSession

    async def get(self, path: str = "", **more: Any) -> tuple[int, str]:
        async with self.session.get(urljoin(self.address, path), **more) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def visit(runs: Path) -> AsyncIterator[Visit]:
    async with serve([], runs) as address, aiohttp.ClientSession() as session:
        yield Visit(address, session)


def links(text: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'href="([^"#]+)"', text) if not link.startswith("data:")]


async def every_page(visit: Visit) -> dict[str, tuple[int, str]]:
    """All pages that can be reached by links."""
    pages: dict[str, tuple[int, str]] = {}
    due = [visit.address]
    while due:
        address = urljoin(visit.address, due.pop())
        if address in pages or not address.startswith(visit.address) or "/static/" in address:
            continue
        pages[address] = await visit.get(address)
        due += links(pages[address][1])
    return pages


def test_a_run_whose_verdicts_are_all_of_one_kind_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_verified(tmp_path / "mine.db")
    monkeypatch.setattr("recompact.presentation.view.runs.stored_kinds", lambda store: {"harmless": 3})

    async def look() -> tuple[int, str]:
        async with visit(tmp_path) as visitor:
            return await visitor.get()

    status, text = asyncio.run(look())
    assert status == 200
    assert '<td class="num">0</td>' in text


def test_every_view_is_reached_and_hostile_text_stays_text(runs: Path) -> None:
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in runs.glob("*.db")}

    async def look() -> dict[str, tuple[int, str]]:
        async with visit(runs) as visitor:
            return await every_page(visitor)

    pages = asyncio.run(look())
    kinds = {re.sub(r"\?.*", "", address).rsplit("/", 1)[-1] for address in pages}
    assert kinds == {"", "trajectory", "case", "calls", "call", "templates", "compare", "figures"}
    for address, (status, text) in pages.items():
        broken = "/run/broken/" in address
        assert status == (404 if broken else 200), address
        parsed = Page(text)
        scripts = [attributes.get("src", "") for tag, attributes in parsed.tags if tag == "script"]
        assert len(scripts) == 1
        assert scripts[0].endswith("/static/view.js")
        assert not [tag for tag, _ in parsed.tags if tag in ("img", "iframe", "object", "base", "style")]
        names = [name for _, attributes in parsed.tags for name in attributes]
        assert not [name for name in names if name.startswith("on") or name == "style"]
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert len(text) < 2_000_000
    assert any(SCRIPT in Page(text).text for _, text in pages.values())
    assert before == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in runs.glob("*.db")}


def test_what_is_not_there_is_said(runs: Path) -> None:
    async def look() -> list[tuple[int, str]]:
        async with visit(runs) as visitor:
            paths = ("run/nobody/", "run/verified/trajectory?unit=collect/none", "run/verified/case?unit=a&index=9")
            odd = ("run/verified/compare", "run/broken/", "run/verified/?offset=99999999999&order=drop%20table")
            return [await visitor.get(path) for path in (*paths, *odd)]

    *missing, odd = asyncio.run(look())
    assert [status for status, _ in missing] == [404] * 5
    assert all("Not found" in text for _, text in missing)
    assert odd[0] == 200


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {}, 403),
        ("/wrong/", {}, 403),
        ("/wrong/events", {}, 403),
        ("TOKEN", {"Host": "evil.example"}, 403),
        ("TOKEN", {"Host": "127.0.0.1.evil.example:80"}, 403),
        ("TOKEN", {"Origin": "http://evil.example"}, 403),
        ("TOKEN", {"Origin": "null"}, 403),
        ("TOKEN", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("TOKEN", {"Sec-Fetch-Site": "same-origin"}, 200),
        ("TOKEN/static/../../../pyproject.toml", {}, 403),
        ("TOKEN/static/%2e%2e%2fserver.py", {}, 404),
        ("TOKEN/static/server.py", {}, 404),
    ],
)
def test_only_our_own_pages_with_the_token_are_let_in(
    runs: Path, path: str, headers: dict[str, str], status: int
) -> None:
    async def ask() -> tuple[int, dict[str, str]]:
        async with visit(runs) as visitor:
            address = path.replace("TOKEN", visitor.address.rstrip("/") + ("/" if path == "TOKEN" else ""))
            async with visitor.session.get(urljoin(visitor.address, address), headers=headers) as answer:
                return answer.status, dict(answer.headers)

    found, sent = asyncio.run(ask())
    assert found == status
    assert "default-src 'none'" in sent["Content-Security-Policy"]
    assert sent["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(runs: Path, method: str) -> None:
    async def ask() -> int:
        async with visit(runs) as visitor, visitor.session.request(method, visitor.address, data=b"x") as answer:
            return answer.status

    assert asyncio.run(ask()) == 405


def test_idle_connections_of_strangers_take_few_files(tmp_path: Path) -> None:
    async def look() -> tuple[int, int]:
        async with visit(tmp_path) as visitor:
            port = int(visitor.address.split(":")[2].split("/")[0])
            before = len(os.listdir("/proc/self/fd"))
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3 * CONNECTIONS)]
            status, _ = await visitor.get()
            taken = len(os.listdir("/proc/self/fd")) - before - len(idle)
            for _, writer in idle:
                writer.close()
            return status, taken

    status, taken = asyncio.run(look())
    assert status == 200
    assert taken <= CONNECTIONS + 1  # the visitor's own end


def test_a_change_of_the_file_is_told(tmp_path: Path) -> None:
    """From the file alone: a driver that knows nothing of the viewer writes to it."""
    path = make_verified(tmp_path / "live.db")

    async def watch() -> list[str]:
        async with visit(tmp_path) as visitor, visitor.session.get(f"{visitor.address}events?run=live") as stream:
            told = []
            async for line in stream.content:
                if line.startswith(b"event: "):
                    told.append(line.decode().removeprefix("event: ").strip())
                    if told[-1] == "hello":
                        await asyncio.to_thread(_add, path, "one more")
                    else:
                        return told
        return told

    assert asyncio.run(asyncio.wait_for(watch(), 30)) == ["hello", "changed"]


def _add(path: Path, text: str) -> None:
    with Store.open(path) as store:
        add_boundary(store, text)


def test_a_filter_is_exact(runs: Path) -> None:
    async def look(query: str) -> str:
        async with visit(runs) as visitor:
            return (await visitor.get(f"run/evaluated/?{query}"))[1]

    every = asyncio.run(look(""))
    successes, failures = (asyncio.run(look(f"outcome={word}")) for word in ("success", "failure"))

    def total(text: str) -> int:
        return int(re.findall(r"to \d+ of ([\d,]+)", text)[0].replace(",", ""))

    assert total(every) == total(successes) + total(failures)
    assert "office-3" in asyncio.run(look("task=OFFICE-3"))
    assert "No trajectory matches" in asyncio.run(look("task=100%25_"))


def test_runs_come_and_go(tmp_path: Path) -> None:
    async def look() -> Iterator[str]:
        async with visit(tmp_path) as visitor:
            empty = (await visitor.get())[1]
            await asyncio.to_thread(make_verified, tmp_path / "late.db")
            return iter((empty, (await visitor.get())[1]))

    empty, later = asyncio.run(look())
    assert "no runs" in empty
    assert "late" in later
