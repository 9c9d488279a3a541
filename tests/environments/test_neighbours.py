"""A suite file may import the files beside it, at once or later, without standing in anybody's way."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.loading import load_suite
from recompact.errors import InputError

SUITE = """
from __future__ import annotations
import json, random
from dataclasses import dataclass
from helpers import NAME, Told
from pack import inner
from pack.other import OTHER
import pack.other as again
from recompact.environments.protocol import Task

@dataclass
class Held:
    what: Told

class Suite:
    name = "neighbourly"
    def splits(self): return ("train",)
    def tasks(self, split):
        import lazy
        assert again.OTHER == OTHER and random.random() < 1 and json.loads("1") == 1
        return [Task(f"{NAME}-{OTHER}-{inner.INNER}-{lazy.LAZY}", "x")]
    def environment(self, task): raise NotImplementedError
"""


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """These directories have files that nobody may import, also no process that a later test starts."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def write(place: Path, name: str) -> Path:
    (place / "pack").mkdir(parents=True)
    (place / "suite.py").write_text(SUITE)
    (place / "helpers.py").write_text(
        f"from dataclasses import dataclass\nNAME = {name!r}\n@dataclass\nclass Told:\n    x: int = 1\n"
    )
    (place / "pack" / "__init__.py").write_text("")
    (place / "pack" / "inner.py").write_text("from pack.other import OTHER\nINNER = 'inner'\n")
    (place / "pack" / "other.py").write_text(
        f"from helpers import NAME\nOTHER = NAME + 'other'\nassert NAME == {name!r}\n"
    )
    (place / "lazy.py").write_text(f"LAZY = {name!r}\n")
    for shadow in ("random.py", "json.py", "recompact.py"):
        (place / shadow).write_text("raise SystemError('this must not be imported')\n")
    return place


async def test_files_of_the_same_names_in_two_directories_do_not_meet(tmp_path: Path) -> None:
    for name in ("1", "2"):
        suite = load_suite("suite.py:Suite", {}, write(tmp_path / name, name))
        assert [task.id for task in await InProcessSuite(suite).tasks("train")] == [f"{name}-{name}other-inner-{name}"]
    assert json.loads("[1]") == [1]


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_in_a_host_too(tmp_path: Path, sandbox: str) -> None:
    place = write(tmp_path / "one", "1")
    suite = HostedSuite("suite.py:Suite", {}, place, timeout=20, sandbox=sandbox)  # type: ignore[arg-type]
    assert [task.id for task in await suite.tasks("train")] == ["1-1other-inner-1"]


def test_a_changed_file_is_loaded_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "suite.py").write_text(SUITE.replace("neighbourly", "first"))
    write(tmp_path / "more", "1")
    for name in ("helpers.py", "lazy.py"):
        (tmp_path / name).write_text((tmp_path / "more" / name).read_text())
    (tmp_path / "more" / "pack").rename(tmp_path / "pack")
    first = load_suite("suite.py:Suite", {}, tmp_path)
    assert type(load_suite("suite.py:Suite", {}, tmp_path)) is type(first)
    time.sleep(0.01)
    (tmp_path / "suite.py").write_text(SUITE.replace("neighbourly", "second"))
    assert load_suite("suite.py:Suite", {}, tmp_path).name == "second"


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ("import sys; sys.exit(0)", "SystemExit"),
        ("import nowhere_to_be_found", "nowhere_to_be_found"),
        ("x = (", "SyntaxError"),
        ("raise BaseException('no')", "BaseException: no"),
    ],
)
def test_a_file_that_cannot_be_loaded_says_why(tmp_path: Path, text: str, excerpt: str) -> None:
    (tmp_path / "suite.py").write_text(text)
    with pytest.raises(InputError, match=excerpt):
        load_suite("suite.py:Suite", {}, tmp_path)
