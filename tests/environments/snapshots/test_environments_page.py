"""docs/environments.md is true: its code runs, its configs are read, its output is what comes out."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from recompact.engine.config_parser import parse_config
from recompact.environments.conformance import conformance
from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.loading import load_suite
from recompact.environments.snapshots import mask_of
from recompact.values.trajectory import Action

PAGE = Path(__file__).parents[3] / "docs" / "environments.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the page's files in it, as somebody who follows the page has it."""
    for kind, text in BLOCKS:
        named = re.match(r"# (\w+\.py)\n", text)
        if kind == "python" and named:
            (tmp_path / named[1]).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("notes", "rooms", "worker"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_the_code_runs_and_prints_what_the_page_says(place: Path) -> None:
    printed, names = io.StringIO(), dict[str, Any]()
    for kind, text in BLOCKS:
        if kind == "python":
            with contextlib.redirect_stdout(printed):
                exec(text, names)
    (expected,) = [text for kind, text in BLOCKS if kind == "text"]
    assert printed.getvalue() == expected
    assert isinstance(names["hosted"], HostedSuite)
    mask = mask_of(object(), names["ShellNotes"]())
    assert mask is not None
    assert mask("it took 12 ms") == mask("it took 7 ms")


def test_the_failure_that_the_page_shows_is_what_such_an_environment_gets(place: Path) -> None:
    names = dict[str, Any]()
    exec((place / "notes.py").read_text(), names)
    names["Notes"].restore = lambda self, state: None
    suite, actions = names["NotesSuite"](), [Action("write", {"text": text}) for text in "abc"]
    actions += [Action("write"), Action("done")]
    report = asyncio.run(conformance(InProcessSuite(suite), suite.tasks("train")[0], actions))
    (line,) = re.findall(r"^ {4}(FAILED.*)$", PAGE.read_text(), re.MULTILINE)
    assert line in str(report)


def test_the_configs_name_suites_that_load(place: Path) -> None:
    configs = [parse_config(text, place / "config.toml") for kind, text in BLOCKS if kind == "toml"]
    assert [load_suite(config.suite.use, {}, place).name for config in configs] == ["rooms", "notes"]
    assert configs[1].suite.host
    assert configs[1].suite.timeout == 60


async def test_the_function_suite_passes(place: Path) -> None:
    suite = load_suite("rooms.py:rooms", {}, place)
    actions = [Action("look", {"room": room}) for room in ("hall", "attic", "kitchen")]
    report = await conformance(InProcessSuite(suite), suite.tasks("train")[0], actions)
    assert report.passed, str(report)
