"""Where compactions fail, every command says so: a run without compactions is not one in which none was needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fakes
import pytest
from commands import Done, recompact
from sentences import numbers_in

from recompact.presentation.view.runs import Place, line_of, run_page
from recompact.presentation.view.verdicts import open_moment
from recompact.values.chat import Reply, Request, Usage, assistant

FAILED = "24 compactions failed in 4 trajectories: the compressor wrote no summary when asked twice"
NOTHING = f"nothing was compacted: {FAILED}"
SOME = FAILED.replace("24", "8", 1)


class Mute:
    """A compressor that never writes a summary."""

    name = "mute"

    async def reply(self, request: Request) -> Reply:
        return Reply(assistant(""), Usage(9, 0, 0, 0, 1))


class Tired(Mute):
    """One that writes the first summary of each task and no other."""

    async def reply(self, request: Request) -> Reply:
        later = any("page 5 of 8" in message.content for message in request.messages)
        return await super().reply(request) if later else await fakes.Noter().reply(request)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_config(tmp_path, "Mute")
    return tmp_path


def write_config(work: Path, compressor: str, budget: int = 500) -> None:
    (work / "mine.toml").write_text(f"""
[suite]
use = "{fakes.__file__}:pages_suite_4"
[models.reader]
use = "{fakes.__file__}:Reader"
[models.mute]
use = "{__file__}:{compressor}"
[agent]
model = "reader"
[compressor]
model = "mute"
budget = {budget}
""")


def said(done: Done) -> str:
    """What a command said, in one line."""
    return " ".join(f"{done.stdout} {done.stderr}".split())


def answer(work: Path, *arguments: object) -> Any:
    return json.loads(recompact(*arguments, "--json", cwd=work).stdout)


def test_where_every_compaction_failed_all_commands_say_so(work: Path) -> None:
    played = recompact("check", "mine.toml", "--play", cwd=work)
    assert played.returncode == 2
    assert "[compressor] nothing was compacted: " in said(played)
    assert numbers_in(said(played).partition("[compressor]")[2])[:2] == ["6", "1"]  # compactions, trajectories
    assert "is fine" not in said(played)
    assert f"recompact: {NOTHING}" in said(recompact("collect", "mine.toml", cwd=work))
    failed = {"number": 24, "trajectories": 4, "reason": "the compressor wrote no summary when asked twice"}
    assert answer(work, "collect", "mine.toml")["failed_compactions"] == failed
    assert f"There is nothing to verify, since {NOTHING}." in said(recompact("verify", "runs/mine.db", cwd=work))
    assert answer(work, "verify", "runs/mine.db")["statement"]["failed_compactions"] == failed
    assert f"has no boundaries: {NOTHING}." in said(recompact("boundaries", "runs/mine.db", cwd=work))
    reported = said(recompact("report", "runs/mine.db", cwd=work))
    assert f"{NOTHING}. Fix the compressor" in reported
    assert "smaller budget" not in reported
    for method in ("pair", "facts"):
        adapted = said(recompact("adapt", "mine.toml", "--method", method, cwd=work))
        assert adapted.count(FAILED) == 1
        assert f"There is nothing to adapt, since {NOTHING}. The original stays." in adapted
    assert answer(work, "adapt", "mine.toml")["failed_compactions"] == failed
    assert view_note(work / "runs/mine.db") == f"N{NOTHING[1:]}."


def view_note(path: Path) -> str:
    with open_moment(path) as store:
        return str(run_page(store, line_of(Place("mine", path)), {})[1]["failed"])


def test_where_some_compactions_failed_it_is_said_beside_the_rest(work: Path) -> None:
    write_config(work, "Tired")
    some = recompact("collect", "mine.toml", cwd=work)
    assert SOME in said(some)
    assert "nothing was compacted" not in said(some)
    played = recompact("check", "mine.toml", "--play", cwd=work)
    assert played.returncode == 0
    assert "2 compactions and 2 that failed" in said(played)
    verified = said(recompact("verify", "runs/mine.db", cwd=work))
    assert "of 8 boundaries were retained" in verified
    assert SOME in verified


EVALUATE = ("evaluate", "mine.toml", "--split", "train", "--runs", 1, "--arm", "none", "--arm", "prompting")


@pytest.mark.parametrize(
    ("budget", "reason", "advice"),
    [
        (500, FAILED, "Fix the compressor: every compaction of prompting/history failed."),
        (90_000, "no compaction was due under its budget of 90,000 tokens", "Evaluate under a smaller budget"),
    ],
)
def test_an_arm_without_compactions_says_nothing_about_compaction(
    budget: int, reason: str, advice: str, work: Path
) -> None:
    write_config(work, "Mute", budget)
    shown = said(recompact(*EVALUATE, cwd=work))
    nothing = f"othing was compacted in prompting/history: {reason}."
    assert f"N{nothing}" in shown
    assert f"This shows nothing about what compaction does to this agent: n{nothing}" in shown
    assert f"N{nothing}" in said(recompact("compare", "runs/mine-evaluate.db", "prompting", "none", cwd=work))
    told = answer(work, "compare", "runs/mine-evaluate.db")
    failed = 24 if budget == 500 else 0
    assert [arm["failed_compactions"]["number"] for arm in told["arms"]] == [0, failed]
    (compared,) = told["comparisons"]
    assert compared["uncompacted"] == [{"arm": "prompting/history", "failed": failed, "reason": reason}]
    two = answer(work, "compare", "runs/mine-evaluate.db", "prompting", "none")
    assert two["failed_compactions"]["prompting/history"]["number"] == failed
    assert recompact("report", "runs/mine-evaluate.db", "--out", "r.html", cwd=work).returncode == 0
    page = (work / "r.html").read_text()
    assert advice in page
    assert "This shows nothing about what compaction does to this agent" in page
    assert "cannot tell what compaction does" not in page
