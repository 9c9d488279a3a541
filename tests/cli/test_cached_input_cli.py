"""What `verify`, `evaluate` and the report say of a prompt cache, and what they make of nonsense about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import recompact
from sentences import numbers_in

MODEL = '''
from dataclasses import replace

from recompact.simulation.agent import SimulatedAgent


class Server(SimulatedAgent):
    """Says of its cache what it is told to say."""

    simulated = False

    def __init__(self, cached):
        super().__init__()
        self.cached = {"none": None, "text": "many"}.get(cached, cached)

    async def reply(self, request):
        reply = await super().reply(request)
        tokens = reply.usage.input
        if self.cached is None:
            return reply
        cached = int(self.cached * tokens) if isinstance(self.cached, float) else self.cached
        return replace(reply, usage=replace(reply.usage, cached=cached, cache_reported=tokens))
'''
CONFIG = """
[suite]
use = "pocket"
limit = 2
[models.server]
use = "model.py:Server"
options = {{ cached = {cached} }}
[agent]
model = "server"
[compressor]
model = "sim-compressor"
budget = 2048
"""


def project(home: Path, cached: str) -> Path:
    (home / "model.py").write_text(MODEL)
    (home / "small.toml").write_text(CONFIG.format(cached=cached))
    return home / "small.toml"


def verified(config: Path) -> tuple[str, dict[str, Any]]:
    done = recompact("collect", config)
    assert done.returncode == 0, done.stderr
    done = recompact("verify", config, "--draws", 2, columns=200)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Cached input")]
    return line, json.loads(recompact("verify", config, "--draws", 2, "--json").stdout)["cached_input"]


def test_the_share_is_printed_in_words_in_json_and_in_the_report(tmp_path: Path) -> None:
    config = project(tmp_path, "0.75")
    line, figures = verified(config)
    assert numbers_in(line).count("75") == 2  # all continuations, and draws after the first of an arm
    assert figures["phases"]["continue"]["share"] == pytest.approx(0.75, abs=0.01)
    assert figures["later_draws"]["share"] == pytest.approx(0.75, abs=0.01)
    assert figures["phases"]["collect"]["roles"]["compressor"] == {
        **figures["phases"]["collect"]["roles"]["compressor"],
        "cached": None,
        "share": None,
    }
    page = tmp_path / "page.html"
    assert recompact("report", tmp_path / "runs" / "small.db", "--out", page).returncode == 0
    assert "Cached input" in page.read_text()
    assert "continuations 75 % of" in page.read_text()

    done = recompact("evaluate", config, "--arm", "none", "--runs", 1, "--limit", 1, columns=200)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Cached input")]
    assert numbers_in(line)[0] == "75"
    done = recompact("evaluate", config, "--arm", "none", "--runs", 1, "--limit", 1, "--json")
    assert json.loads(done.stdout)["cached_input"]["phases"]["evaluate"]["share"] == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("cached", ['"none"', '"text"', "-5", "1000000000", "true", "2.5"])
def test_what_cannot_be_is_not_reported(tmp_path: Path, cached: str) -> None:
    line, figures = verified(project(tmp_path, cached))
    assert numbers_in(line) == []
    assert figures["phases"]["continue"]["share"] is figures["later_draws"]["share"] is None
    assert figures["phases"]["continue"]["input"] > 0


def test_nothing_cached_is_said_as_that(tmp_path: Path) -> None:
    line, figures = verified(project(tmp_path, "0"))
    assert "continuations 0 % of" in line
    assert figures["later_draws"]["cached"] == 0
