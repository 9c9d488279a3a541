"""What `collect` says when something is wrong with the suite or with the run file."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from commands import recompact
from sentences import numbers_in

from recompact.engine.store.connection import StoreError
from recompact.engine.store.runs import open_run, run_path
from recompact.engine.store.store import Store
from recompact.environments.loading import fingerprint

SUITE = """
from pathlib import Path
from recompact import function_suite
from fakes import look, read_all
import neighbour

def page(page: int, state: dict) -> str:
    return look(page, state)
page.__name__ = "look"

class Suite:
    name = "books"
    books = {f"book-{n}": ("Read all pages.", read_all) for n in range(4)}
    whole = function_suite("books", [page], books, state={"seen": []})
    splits, tasks = whole.splits, whole.tasks
    def environment(self, task):
        environment = self.whole.environment(task)
        step = environment.step
        def breaking(action):
            if task.id in Path(__file__).with_name("broken").read_text().split():
                raise RuntimeError("the server of the shop is gone")
            return step(action)
        environment.step = breaking
        return environment

suite = Suite()
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "suite.py").write_text(SUITE)
    (tmp_path / "neighbour.py").write_text("RULE = 1\n")
    (tmp_path / "broken").write_text("book-1 book-3")
    (tmp_path / "mine.toml").write_text(f"""
[suite]
use = "suite.py:suite"
[models.reader]
use = "{fakes.__file__}:Reader"
[agent]
model = "reader"
[compressor]
kind = "none"
""")
    return tmp_path


@pytest.fixture(autouse=True)
def neighbours(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(work))


def test_broken_environments_are_counted_and_done_again_on_request(work: Path) -> None:
    done = recompact("collect", "mine.toml", cwd=work)
    assert done.returncode == 2
    assert numbers_in(done.stderr)[:4] == ["2", "4", "2", "2"]  # broken of all; by how they ended
    assert "suite books, task book-1: step look raised RuntimeError: the server of the shop is gone" in done.stderr
    assert "recompact collect mine.toml --retry" in done.stderr
    (work / "broken").write_text("")
    assert recompact("collect", "mine.toml", cwd=work).returncode == 2  # what was recorded stays until it is asked for
    again = recompact("collect", "mine.toml", "--retry", "--json", cwd=work)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["endings"] == {"finished": 4}


def test_a_suite_that_changed_is_refused_or_noted(work: Path) -> None:
    (work / "broken").write_text("")
    assert recompact("collect", "mine.toml", cwd=work).returncode == 0
    assert recompact("collect", "mine.toml", cwd=work).returncode == 0
    (work / "neighbour.py").write_text("RULE = 2\n")
    refused = recompact("collect", "mine.toml", cwd=work)
    assert refused.returncode == 2
    assert "'suite.py:suite'" in refused.stderr
    assert "(neighbour.py)" in refused.stderr
    assert "recompact collect mine.toml --accept-changes" in refused.stderr
    assert recompact("collect", "mine.toml", "--accept-changes", cwd=work).returncode == 0
    with Store.read(work / "runs" / "mine.db") as store:
        (change,) = store.metadata.suite_changes
    assert (change["changed"], change["finished"]) == (["neighbour.py"], 4)
    assert recompact("collect", "mine.toml", cwd=work).returncode == 0


def test_fingerprints_name_what_a_suite_is_made_of(work: Path) -> None:
    assert sorted(fingerprint("suite.py:suite", work)) == ["neighbour.py", "suite.py"]
    assert list(fingerprint("pocket", work)) == ["recompact"]
    assert "click" in fingerprint("click.core:Command", work)
    assert fingerprint("no.such:module", work) == {}


@pytest.mark.parametrize(
    ("files", "seen"),
    [
        ({"suite.py": "from . import near", "near.py": ""}, {"near.py"}),
        ({"suite.py": "from shop import till", "shop/till.py": ""}, {"shop/till.py"}),
        (
            {"suite.py": "import shop.till", "shop/__init__.py": "", "shop/till.py": ""},
            {"shop/__init__.py", "shop/till.py"},
        ),
        (
            {
                "suite.py": "import shop",
                "shop/__init__.py": "from .till import coin",
                "shop/till.py": "from ..near import x",
            }
            | {"near.py": "from shop.till import *"},
            {"shop/__init__.py", "shop/till.py", "near.py"},
        ),
        ({"suite.py": "from ... import far\nfrom ..above import x\nimport os, json.tool"}, set()),
        ({"suite.py": "from near import *", "near.py": "def broken(:"}, {"near.py"}),
    ],
)
def test_fingerprints_have_every_file_that_a_suite_imports(
    tmp_path: Path, files: dict[str, str], seen: set[str]
) -> None:
    (tmp_path / "above.py").write_text("x = 1")
    place = tmp_path / "suite"
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    assert set(fingerprint("suite.py:suite", place)) == {"suite.py", *seen}


def test_tasks_with_the_same_id_are_an_error(work: Path) -> None:
    twice = SUITE.replace("splits, tasks = whole.splits, whole.tasks", "splits = whole.splits").replace(
        "    def environment",
        "    def tasks(self, split):\n        return [*self.whole.tasks(split)] * 2\n    def environment",
    )
    (work / "suite.py").write_text(twice)
    done = recompact("collect", "mine.toml", cwd=work)
    assert done.returncode == 2
    assert "'book-0', 'book-1'" in done.stderr
    assert not list(work.glob("runs/*.db"))


@pytest.mark.parametrize("name", ["", "a/b", "../x", "/tmp/x", "mine.db"])
@pytest.mark.parametrize("command", ["collect", "adapt", "evaluate", "verify", "replay"])
def test_a_run_is_named_not_placed(command: str, name: str, work: Path) -> None:
    arguments = ("none",) if command == "replay" else ()
    done = recompact(command, "mine.toml", *arguments, "--run", name, cwd=work)
    assert done.returncode == 2
    assert f"{name!r} is not a run name" in done.stderr


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_run_file_that_goes_away_is_an_error(how: str, tmp_path: Path) -> None:
    path = tmp_path / "r.db"

    def write() -> None:
        with open_run(path) as store:
            store.set_metadata(replace(store.metadata, command="collect"))
            if how == "replaced":
                os.replace(_another(tmp_path), path)
            else:
                path.unlink()
            store.set_metadata(replace(store.metadata, suite="s"))

    with pytest.raises(StoreError, match="was deleted or replaced while"):
        write()
    assert path.exists() == (how == "replaced")  # the one that came in its place is not ours to remove


def test_a_run_file_that_goes_away_after_the_last_record_is_an_error_too(tmp_path: Path) -> None:
    def lose() -> None:
        with open_run(tmp_path / "r.db") as store:
            store.set_metadata(replace(store.metadata, command="collect"))
            store.path.unlink()

    with pytest.raises(StoreError, match="was deleted or replaced while"):
        lose()


def _another(directory: Path) -> Path:
    Store.open(directory / "other.db").close()
    return directory / "other.db"


def test_a_link_to_a_run_takes_its_lock(tmp_path: Path) -> None:
    Store.open(tmp_path / "r.db").close()
    (tmp_path / "link.db").symlink_to(tmp_path / "r.db")
    with Store.open(tmp_path / "r.db"), pytest.raises(StoreError, match="in use by process"):
        Store.open(tmp_path / "link.db")


def test_metadata_keeps_changes_of_the_suite(tmp_path: Path) -> None:
    with open_run(run_path("r", tmp_path)) as store:
        store.set_metadata(replace(store.metadata, fingerprint={"a.py": "1"}, suite_changes=({"changed": ["a.py"]},)))
        assert store.metadata.suite_changes == ({"changed": ["a.py"]},)
