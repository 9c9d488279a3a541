"""A commit of a git repository as a task: its files, an instruction, and a command that tests them."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from recompact.errors import InputError
from recompact.suites.workspace.folder import FILE, FILES, TaskFolder, read_folder

_SECONDS = 600  # for one git command


def add_repository(
    root: Path,
    id: str,
    *,
    repo: str,
    commit: str,
    instruction: str,
    check: str,
    split: str = "train",
    groups: Mapping[str, str] | None = None,
    protected: Sequence[str] = (),
) -> TaskFolder:
    """Write a new task below `root`. Paths that the check names are protected in addition to those given: the agent may
    change them, and the check sees them as they were."""
    if not re.fullmatch(r"[\w.+-]+(/[\w.+-]+)*", id) or {".", ".."} & set(id.split("/")):
        raise InputError(f"{id!r} is not a name for a task: use letters, digits, and . _ - +")
    target = root / id
    if target.exists():
        raise InputError(f"{target} already exists: choose another name, or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".task-", dir=target.parent))
    try:
        revision = check_out(repo, commit, scratch / FILES)
        named = [word for word in _words(check) if _is_inside(scratch / FILES, word)]
        paths = list(dict.fromkeys([*protected, *(word.split("::")[0] for word in named)]))
        (scratch / FILE).write_text(
            _toml(f"{Path(repo).name or repo} at {revision}", instruction, check, split, groups or {}, paths),
            encoding="utf-8",
        )
        read_folder(scratch, id)  # which refuses what is wrong with it
        os.rename(scratch, target)
    except BaseException:
        shutil.rmtree(scratch)
        raise
    return read_folder(target, id)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _is_inside(files: Path, word: str) -> bool:
    path = word.split("::")[0]
    parts = path.split("/")
    return bool(path) and path != "." and not path.startswith("/") and ".." not in parts and (files / path).exists()


def check_out(repo: str, commit: str, target: Path) -> str:
    """Write the files of a commit, without the repository; returns the commit's full name."""
    with tempfile.TemporaryDirectory(prefix="recompact-clone-") as scratch:
        place = repo
        if not Path(repo).is_dir():
            place = f"{scratch}/clone"
            _git("clone", "--quiet", "--no-checkout", "--", repo, place)
        revision = _git("-C", place, "rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
        name = revision.decode().strip()
        with tarfile.open(fileobj=io.BytesIO(_git("-C", place, "archive", "--format=tar", name))) as tar:
            tar.extraction_filter = getattr(tarfile, "tar_filter", None)  # Python 3.11 has none before 3.11.4
            tar.extractall(target)
    return name


def _git(*arguments: str) -> bytes:
    try:
        ended = subprocess.run(["git", *arguments], capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise InputError("git is not installed, and a task from a repository needs it") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"git {arguments[0]} took longer than {_SECONDS} s") from None
    if ended.returncode:
        raise InputError(f"git says: {ended.stderr.decode(errors='replace').strip()[-300:]}")
    return ended.stdout


def _toml(
    origin: str, instruction: str, check: str, split: str, groups: Mapping[str, str], protected: Sequence[str]
) -> str:
    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

    lines = [f"# {' '.join(origin.split())}", f"instruction = {text(instruction)}", f"split = {text(split)}", ""]
    if groups:
        lines += ["[groups]", *(f"{text(key)} = {text(value)}" for key, value in groups.items()), ""]
    lines += ["[check]", f"command = {text(check)}", f"protected = {text(list(protected))}", ""]
    return "\n".join(lines)
