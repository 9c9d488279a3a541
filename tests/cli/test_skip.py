"""A task that the server always refuses stops nobody else; it is named, and `--skip` goes on without it."""

from __future__ import annotations

import json
from pathlib import Path

import fakes
import pytest
from aiohttp import web
from commands import Done, reading_config, recompact, served
from fakes import Noter, Reader
from loopback import served_app
from odd_replies import CHAT, with_value

from recompact.engine.store.runs import boundary_rows, overview, trajectories
from recompact.engine.store.store import Store
from recompact.models.failures import BadRequest
from recompact.values.chat import Reply, Request

SAYS = {"error": {"message": "this one never", "code": "odd"}}
REFUSALS: dict[str, tuple[int, object]] = {
    "400": (400, SAYS),
    "404": (404, {"error": {"message": "File Not Found"}}),
    "409": (409, SAYS),
    "413": (413, SAYS),
    "422": (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}),
    "200 with an error inside": (200, SAYS),
    "200 with nothing inside": (200, {}),
}


def digest(ended: Done) -> str:
    return next(line for line in (ended.stdout + ended.stderr).splitlines() if line.startswith("digest: "))


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=list(REFUSALS))
def test_a_task_that_is_always_refused_stops_no_other(refusal: tuple[int, object], tmp_path: Path) -> None:
    status, body = refusal
    call = {"name": "finish", "arguments": json.dumps({"answer": "read"})}
    good = with_value(CHAT, ("choices", 0, "message", "tool_calls", 0, "function"), call)

    async def answer(http: web.Request) -> web.Response:
        if http.path.endswith("/models"):
            return web.json_response({"data": [{"id": "reader"}]})
        sent = await http.text()
        refused = any(f"book {n}." in sent for n in range(1, 9))
        return web.json_response(body if refused else good, status=status if refused else 200)

    with served_app(answer) as url:
        config = tmp_path / "pages.toml"
        model = "attempts = 2\nretry_wait = 0.001\n"
        config.write_text(reading_config(f"{fakes.__file__}:pages_suite_40", url, concurrency=2, model=model))
        ended = recompact("collect", config)
        assert ended.returncode == 1, ended.stderr
        assert "not finished: collect/book-001 (" in ended.stderr
        assert "8 episodes are not finished (the first 5 of 8 are listed)" in ended.stderr
        assert "add --skip book-001 --skip book-002" in ended.stderr
        with Store.read(tmp_path / "runs" / "pages.db") as store:
            assert len(trajectories(store)) == 32
            identity = store.metadata.identity
        skips = [word for n in range(1, 9) for word in ("--skip", f"book-{n:03d}")]
        ended = recompact("collect", config, *skips)
        assert ended.returncode == 0, ended.stderr
        assert "8 tasks are skipped on request: book-001" in ended.stderr
        assert recompact("collect", config).returncode == 0  # the run remembers
        with Store.read(tmp_path / "runs" / "pages.db") as store:
            assert store.metadata.identity == identity
            assert overview(store).skipped == tuple(f"book-{n:03d}" for n in range(1, 9))
        assert "pages skips book-001" in recompact("runs", "--dir", tmp_path / "runs").stdout
        listed = json.loads(recompact("runs", "--dir", tmp_path / "runs", "--json").stdout)
        assert listed[0]["skipped"][0] == "book-001"


class Choosy:
    """A reader that is refused whenever it reads a certain book, from the first call or only later."""

    name = "reader"

    def __init__(self, book: str, after: int = 0) -> None:
        self._book, self._after, self._reader = book, after, Reader()
        self.refusing = True

    async def reply(self, request: Request) -> Reply:
        said = " ".join(message.content for message in request.messages)
        if self.refusing and self._book in said and len(request.messages) >= self._after:
            raise BadRequest("this book never")
        return await self._reader.reply(request)


def test_verify_and_adapt_and_evaluate_go_on_without_a_skipped_task(tmp_path: Path) -> None:
    choosy = Choosy("book 1.", after=6)
    choosy.refusing = False
    with served({"reader": choosy, "noter": Noter()}) as server:
        config = tmp_path / "pages.toml"
        config.write_text(reading_config(f"{fakes.__file__}:pages_suite_4", server.base_url))
        path = tmp_path / "runs" / "pages.db"
        assert recompact("collect", config).returncode == 0
        with Store.read(path) as store:
            every = len(boundary_rows(store))
        choosy.refusing = True  # collected well, but its continuations are refused
        ended = recompact("verify", path, "--draws", "1")
        assert ended.returncode == 1, ended.stderr
        assert "not finished: continue/book-001/" in ended.stderr
        assert "To continue without that task, add --skip book-001" in ended.stderr
        ended = recompact("verify", path, "--draws", "1", "--skip", "book-001", "--json")
        assert ended.returncode == 0, ended.stderr
        summary = json.loads(ended.stdout)
        assert summary["skipped"] == ["book-001"]
        assert 0 < summary["boundaries"] < every
        assert "1 task is skipped on request" in ended.stderr
        with Store.read(path) as store:
            assert {row.task for row in trajectories(store)} == {"book-000", "book-002", "book-003"}
            assert "book-001" not in {row.task for row in boundary_rows(store)}
        adapted = recompact("adapt", config, "--until", "verify", "--json")
        assert adapted.returncode == 0, adapted.stderr
        assert json.loads(adapted.stdout)["skipped"] == ["book-001"]
        assert json.loads(adapted.stdout)["winner"] is None  # it was not asked for one
        flags = ("--split", "train", "--runs", "1", "--arm", "fifo", "--arm", "none", "--json")
        evaluated = recompact("evaluate", config, *flags)
        assert evaluated.returncode == 1, evaluated.stderr
        assert "book-001" in evaluated.stderr
        evaluated = recompact("evaluate", config, *flags, "--skip", "book-001")
        assert evaluated.returncode == 0, evaluated.stderr
        assert json.loads(evaluated.stdout)["skipped"] == ["book-001"]


def test_skipping_what_is_not_there_or_everything_is_refused(tmp_path: Path) -> None:
    with served({"reader": Reader(), "noter": Noter()}) as server:
        config = tmp_path / "pages.toml"
        config.write_text(reading_config(f"{fakes.__file__}:pages_suite_4", server.base_url))
        ended = recompact("collect", config, "--skip", "book-01")
        assert ended.returncode == 2
        assert "--skip book-01: there is no such task" in ended.stderr
        assert "book-001" in ended.stderr
        everything = [word for n in range(4) for word in ("--skip", f"book-{n:03d}")]
        ended = recompact("collect", config, *everything)
        assert ended.returncode == 2
        assert "no task would be left" in ended.stderr


def test_a_wrong_key_ends_the_run_and_names_the_unit(tmp_path: Path) -> None:
    async def answer(http: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "Incorrect API key"}}, status=401)

    with served_app(answer) as url:
        config = tmp_path / "pages.toml"
        config.write_text(reading_config(f"{fakes.__file__}:pages_suite_40", url))
        ended = recompact("collect", config)
    assert ended.returncode == 2
    assert "recompact: collect/book-000: reader at 127.0.0.1" in ended.stderr
    assert "resume with: recompact collect" in ended.stderr
