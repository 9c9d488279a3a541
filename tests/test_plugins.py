"""Every seam with a plug-in of its own: named in a config, declared by an installed package, or passed as an object."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import recompact

from recompact import registry
from recompact.environments.loading import fingerprint
from recompact.registry import Registry

PAGE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
CONFIG = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    recompact ")]

ENTRY_POINTS = """\
[recompact.suites]
acme-pages = acme_agents:suite
[recompact.models]
acme-reader = acme_agents:Reader
[recompact.compressors]
acme-last = acme_agents:KeepLast
[recompact.methods]
acme-lessons = acme_agents:lessons
[recompact.allocations]
acme-last-one = acme_agents:Last
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "mine.toml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with entry points, as an installer would leave it."""
    site = tmp_path / "site"
    (site / "acme_agents-1.0.dist-info").mkdir(parents=True)
    (site / "acme_agents.py").write_text(CODE)
    (site / "acme_agents-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-agents\nVersion: 1.0\n"
    )
    (site / "acme_agents-1.0.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    registry._declared_plugins.cache_clear()
    yield tmp_path
    registry._declared_plugins.cache_clear()
    sys.modules.pop("acme_agents", None)


def run_all(config: Path, arm: str) -> dict[str, object]:
    """collect, verify, adapt, evaluate; the result of the last two."""
    for command in ("collect", "verify"):
        done = recompact(command, config, "--json")
        assert done.returncode == 0, done.stderr
    adapted = recompact("adapt", config, "--json")
    assert adapted.returncode == 0, adapted.stderr
    evaluated = recompact("evaluate", config, "--arm", "none", "--arm", arm, "--split", "train", "--runs", 1, "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    return {"adapted": json.loads(adapted.stdout), "evaluated": json.loads(evaluated.stdout)}


def test_the_page_runs_as_it_stands(place: Path) -> None:
    for command in COMMANDS:
        done = recompact(*command.split()[1:], cwd=place)
        assert done.returncode == 0, done.stderr
    manifest = json.loads((place / "runs" / "mine-lessons" / "manifest.json").read_text())
    assert manifest["method"] == "lessons"
    assert manifest["models"]["agent"] == "reader"


def test_all_four_from_a_file(place: Path) -> None:
    results = run_all(place / "mine.toml", f"last={place / 'mine.py'}:KeepLast")
    assert {fit["name"] for fit in results["adapted"]["selection"]} == {"original", "lessons-1"}  # type: ignore[index]
    arms = {arm["name"]: arm for arm in results["evaluated"]["arms"]}  # type: ignore[index]
    assert arms.keys() == {"none", "last"}


def test_all_four_from_an_installed_package(installed: Path) -> None:
    names = {"mine.py:suite": "acme-pages", "mine.py:Reader": "acme-reader"}
    names |= {"mine.py:KeepLast": "acme-last", "mine.py:lessons": "acme-lessons", "mine.py:Last": "acme-last-one"}
    text = CONFIG
    for old, new in names.items():
        text = text.replace(old, new)
    (installed / "installed.toml").write_text(text)
    run_all(installed / "installed.toml", "acme-last")


@pytest.mark.parametrize("name", ["acme-pages", "acme_agents:suite"])
def test_the_fingerprint_of_an_installed_suite_has_its_module_and_version(installed: Path, name: str) -> None:
    before = fingerprint(name, installed)
    assert before["acme_agents (version)"] == "1.0"
    (installed / "site" / "acme_agents.py").write_text(f"{CODE}\n# changed\n")
    now = fingerprint(name, installed)
    assert [key for key in before if now[key] != before[key]] == ["acme_agents"]


def test_all_four_from_a_module(installed: Path) -> None:
    (installed / "module.toml").write_text(CONFIG.replace("mine.py:", "acme_agents:"))
    run_all(installed / "module.toml", "last=acme_agents:KeepLast")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "pages = 4",
            "page = 4",
            "line 7: [models.reader.options] page: there is no option 'page'; did you mean 'pages'?",
        ),
        (
            "turns = 1",
            "turn = 1",
            "line 14: [compressor.options] turn: there is no option 'turn'; did you mean 'turns'?",
        ),
        (
            "mine.py:KeepLast",
            "mine.py:Keep",
            "line 13: [compressor] kind: compressor 'mine.py:Keep': mine.py has no 'Keep'",
        ),
        ("mine.py:suite", "mine.py:sweet", "line 3: [suite] use: suite 'mine.py:sweet': mine.py has no 'sweet'"),
        ("mine.py:Reader", "opena", "there is no model 'opena'; did you mean 'openai'?"),
    ],
)
def test_mistakes_name_the_file_the_line_and_the_key(place: Path, old: str, new: str, message: str) -> None:
    (place / "wrong.toml").write_text(CONFIG.replace(old, new))
    done = recompact("collect", "wrong.toml", cwd=place)
    assert done.returncode == 2
    assert "wrong.toml" in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_method_that_does_not_exist_is_named_with_those_that_do(place: Path) -> None:
    done = recompact("adapt", "mine.toml", "--method", "pear", cwd=place)
    assert done.returncode == 2
    assert "there is no method 'pear'; did you mean 'pair'?" in done.stderr


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("Method('m/../x', propose)", "'m/../x' is not a valid method name"),
        ("Method('odd', odd)", "a method proposes a tuple of recompact.Candidate or a Proposal, not int"),
    ],
)
def test_an_odd_method_is_refused_in_a_sentence(place: Path, method: str, message: str) -> None:
    (place / "mine.py").write_text(f"{CODE}\n\nasync def odd(inputs):\n    return [3]\n\n\nlessons = {method}\n")
    done = recompact("adapt", "mine.toml", cwd=place)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_names_are_built_in_first() -> None:
    built_in = Registry("thing", "recompact.nothing", {"a": "json:dumps"})
    assert built_in.names() == ("a",)
    assert built_in.find("a") is json.dumps
