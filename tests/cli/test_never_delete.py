"""No command that writes touches what is not its own: a thesis stays as it is, whatever --out names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import recompact
from places import contents

from recompact.engine.store.store import Store


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a config, a run of one task, and a prompt to import."""
    place = tmp_path_factory.mktemp("work")
    (place / "c.toml").write_text('[suite]\nuse = "pocket"\nlimit = 1\n[compressor]\nbudget = 256\n')
    (place / "prompt.md").write_text("Sum up.\n## Goal\nWhat is to be done.\n## Progress\nWhat was done.\n")
    assert recompact("collect", "c.toml", cwd=place).returncode == 0
    assert recompact("verify", "c.toml", cwd=place).returncode == 0
    return place


def thesis(place: Path, what: str) -> Path:
    """Something of the user's."""
    if what == "file":
        place.write_text("mine")
        return place
    real = place.with_name("real") if what == "link" else place
    real.mkdir(parents=True)
    (real / "thesis.tex").write_text("\\documentclass{book}")
    if what == "git":
        (real / ".git").mkdir()
        (real / ".git" / "HEAD").write_text("ref: refs/heads/main")
    if what == "run":
        Store.open(real / "mine.db").close()
    if what == "link":
        place.symlink_to(real)
    return place


DIRECTORIES = {
    "adapt": ("adapt", "c.toml", "--out"),
    "demo": ("demo", "--train", 6, "--test", 2, "--runs", 1, "--dir"),
    "figures": ("figures", "c", "--out"),
    "prompts import": ("prompts", "import", "prompt.md", "--to"),
    "prompts import --force": ("prompts", "import", "prompt.md", "--force", "--to"),
}
FILES = {
    "report": ("report", "c", "--out"),
}


@pytest.mark.parametrize("what", ["unrelated", "git", "run", "link", "file"])
@pytest.mark.parametrize("command", DIRECTORIES)
def test_a_directory_that_holds_something_stays(command: str, what: str, work: Path, tmp_path: Path) -> None:
    place = thesis(tmp_path / "thesis", what)
    before = contents(tmp_path)
    done = recompact(*DIRECTORIES[command], place, cwd=work)
    assert done.returncode == 2, done.stdout
    assert "nothing was written" in done.stderr
    assert "Traceback" not in done.stderr
    assert contents(tmp_path) == before


@pytest.mark.parametrize("command", DIRECTORIES)
def test_where_one_stands_is_refused(command: str, work: Path) -> None:
    before = contents(work)
    done = recompact(*DIRECTORIES[command], ".", cwd=work)
    assert done.returncode == 2, done.stdout
    assert "the directory you are in" in done.stderr
    assert {name: text for name, text in contents(work).items() if "runs/" not in name} == {
        name: text for name, text in before.items() if "runs/" not in name
    }


@pytest.mark.parametrize("what", ["file", "link", "unrelated"])
@pytest.mark.parametrize("command", FILES)
def test_a_file_that_is_not_ours_stays(command: str, what: str, work: Path, tmp_path: Path) -> None:
    place = thesis(tmp_path / "thesis.html", what)
    before = contents(tmp_path)
    done = recompact(*FILES[command], place, cwd=work)
    assert done.returncode == 2, done.stdout
    assert "nothing was written" in done.stderr
    assert contents(tmp_path) == before


@pytest.mark.parametrize("command", FILES)
def test_a_file_that_is_ours_is_replaced(command: str, work: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert recompact(*FILES[command], tmp_path / "ours.html", cwd=work).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ours.html"]


def test_an_adapted_template_that_somebody_edited_stays(work: Path, tmp_path: Path) -> None:
    adapt = ("adapt", work / "c.toml", "--run", "edited", "--out", tmp_path / "out")
    for _ in range(2):  # as it was written, it is replaced
        assert recompact(*adapt).returncode == 0
    edited = tmp_path / "out" / "first.md"
    edited.write_text(edited.read_text() + "\nAnd keep the names.\n")
    before = edited.read_text()
    done = recompact(*adapt)
    assert done.returncode == 2
    assert "first.md was changed since Recompact wrote it" in done.stderr
    assert edited.read_text() == before


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.6, 1.2, 2.0])
def test_a_demo_that_is_killed_leaves_a_directory_that_it_goes_on_in(after: float, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recompact", "demo", "--train", "6", "--test", "2", "--runs", "1", "--dir", "d"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "d" / "report.html").is_file()
