"""Files that are not what their names promise: one message and exit code 2, and no waiting."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from commands import recompact
from places import deep
from run_files import change_rows

from recompact.engine.store.connection import StoreError
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.harnesses.transcripts.files import RecordFile, find
from recompact.values.session import SkippedFile
from recompact.values.template import read


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "deep", "dotted", "bytes"])
def test_a_config_that_is_none(kind: str, tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    if kind == "pipe":
        os.mkfifo(config)
    elif kind == "device":
        config.symlink_to("/dev/zero")
    elif kind == "directory":
        config.mkdir()
    elif kind == "deep":
        config.write_text("a = " + "[" * 900 + "]" * 900)
    elif kind == "dotted":
        config.write_text("[" + ".".join("a" * 5000) + "]")
    else:
        config.write_bytes(b"\xff\xfe\x00")
    ended = recompact("check", config)
    assert ended.returncode == 2, ended.stderr
    assert str(config) in ended.stderr + ended.stdout


@pytest.mark.parametrize("command", ["boundaries", "compare", "prompts show", "report", "show"])
def test_a_name_that_no_file_can_have(command: str, tmp_path: Path) -> None:
    ended = recompact(*command.split(), "a" * 5000, cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "a" * 50 in ended.stderr


@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_a_part_of_a_template_that_is_none(kind: str, tmp_path: Path) -> None:
    part = tmp_path / "first.md"
    if kind == "pipe":
        os.mkfifo(part)
    elif kind == "directory":
        part.mkdir()
    else:
        part.symlink_to("/dev/zero")
    with pytest.raises(InputError):
        read(tmp_path)


def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        with Store.open(tmp_path / f"{name}.db"):
            pass
    odd = "INSERT INTO meta VALUES ('identity', '3', 0), ('skipped', '7', 0), ('arms', 'nonsense', 0)"
    change_rows(tmp_path / "bad.db", odd)
    ended = recompact("runs", "--dir", tmp_path, "--json")
    assert ended.returncode == 0, ended.stderr
    assert "good" in ended.stdout
    assert "bad.db" in ended.stderr


def test_a_run_with_several_names_has_one_writer(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db"):
        pass
    os.link(tmp_path / "run.db", tmp_path / "other.db")
    for name in ("run.db", "other.db"):
        with pytest.raises(StoreError, match="hard links"):
            Store.open(tmp_path / name)


DEMO = '[suite]\nuse = "pocket"\n[compressor]\nkind = "fifo"\nbudget = 300\n'


@pytest.mark.parametrize(
    "odd",
    [
        '[run]\ndirectory = "a\\u0000b"',
        '[models.m]\nid = "m"\nbase_url = "http://127.0.0.1:9/\\u0000"',
        '[suite.options]\nplace = ["a\\u0000b"]',
    ],
)
def test_no_value_of_a_config_has_a_nul(odd: str, tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(f"{DEMO}{odd}\n")
    for command in ("check", "collect"):
        ended = recompact(command, config, cwd=tmp_path)
        assert ended.returncode == 2, ended.stderr
        assert "NUL" in ended.stderr


@pytest.mark.parametrize("source", ["pipe", "device"])
def test_a_prompt_is_imported_from_a_file_only(source: str, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.md"
    os.mkfifo(prompt) if source == "pipe" else prompt.symlink_to("/dev/zero")
    ended = recompact("prompts", "import", prompt, "--to", tmp_path / "out")
    assert ended.returncode == 2, ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["records.csv", "records.jsonl"])
def test_released_records_are_read_from_a_file_only(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    assert recompact("compare", tmp_path / name).returncode == 2


@pytest.mark.parametrize("command", ["audit", "compare"])
def test_a_folder_that_is_very_deep(command: str, place: Path) -> None:
    deep(place, 1500)
    (place / "d" / "note.txt").write_text("no transcript")
    ended = recompact(command, place, cwd=place)
    assert ended.returncode == 2, ended.stderr


def test_a_transcript_above_a_folder_that_is_too_deep_is_read(place: Path) -> None:
    deep(place, 300)
    (place / "d" / "session.jsonl").write_text("{}\n")
    found = list(find([place]))
    assert [file.path.name for file in found if isinstance(file, RecordFile)] == ["session.jsonl"]
    assert [file.reason for file in found if isinstance(file, SkippedFile)] == ["unreadable"]


SUITE = """
from recompact.environments.protocol import Task
class Hidden(BaseException):
    @property
    def __class__(self):
        raise RuntimeError("you will not learn it")
class HiddenToo(Exception):
    __class__ = Hidden.__class__
class Suite:
    name = "odd"
    def splits(self):
        {splits}
        return ["train"]
    def tasks(self, split):
        {tasks}
        return [Task("t", "Do it.")]
    def environment(self, task):
        {environment}
{body}
"""
RAISED = ["KeyboardInterrupt", "Hidden()", "HiddenToo()", "SystemExit(0)", "GeneratorExit"]


def odd_suite(place: Path, host: bool, **parts: str) -> Path:
    places = {"splits": "pass", "tasks": "pass", "environment": "pass", "body": ""}
    (place / "odd.py").write_text(SUITE.format(**places | parts))
    config = place / "odd.toml"
    config.write_text(f'[suite]\nuse = "odd.py:Suite"\nhost = {str(host).lower()}\n[compressor]\nkind = "none"\n')
    return config


@pytest.mark.parametrize("where", ["splits", "tasks", "body"])
@pytest.mark.parametrize("raised", RAISED)
def test_what_a_suite_raises_is_a_mistake_in_the_suite(where: str, raised: str, tmp_path: Path) -> None:
    ended = recompact("check", odd_suite(tmp_path, host=False, **{where: f"raise {raised}"}), cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("raised", RAISED)
def test_what_an_environment_raises_ends_its_own_episode(raised: str, tmp_path: Path) -> None:
    config = odd_suite(tmp_path, host=False, environment=f"raise {raised}")
    for again in ([], ["--retry"]):
        ended = recompact("collect", config, "--json", *again, cwd=tmp_path)
        assert json.loads(ended.stdout)["endings"] == {"environment error": 1}, ended.stderr
