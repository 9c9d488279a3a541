"""A commit of a git repository as a task: its files, an instruction, and a command that tests them.

Here are also two sample tasks, made of any repository's files: read them one by one, then say what stood in each. What
was read first has to survive every compaction, and a check can know it without knowing the project.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recompact.errors import InputError
from recompact.suites.workspace.folder import read_folder
from recompact.suites.workspace.task import CHECK, FILE, FILES, TaskFolder, toml

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
    lines = [f"# {' '.join(origin.split())}", f"instruction = {toml(instruction)}", f"split = {toml(split)}", ""]
    if groups:
        lines += ["[groups]", *(f"{toml(key)} = {toml(value)}" for key, value in groups.items()), ""]
    lines += ["[check]", f"command = {toml(check)}", f"protected = {toml(list(protected))}", ""]
    return "\n".join(lines)


ANSWER = "recompact-answer.txt"
_FILES = 16  # of a task, at most
_LEAST = 4  # of a task: with fewer there is hardly anything to forget
_SIZE = range(500, 16_000)  # bytes of a file
_LINE = range(25, 120)  # characters of the line that is asked for

_INSTRUCTION = """\
Read the files listed below, in this order, one file with each call, and read each one to its end. Do not use a script
that answers for you. When you have read them all, write {answer} with one line for each file, in the same order: the
first line of that file that has at least {least} characters, exactly as it stands there, without the file's name. Look
at no file twice.

{files}
"""


@dataclass(frozen=True)
class SampleTasks:
    """Tasks that were written, and how many characters an agent has to read for the longest of them."""

    folders: tuple[TaskFolder, ...]
    characters: int


def add_samples(root: Path, repo: Path) -> SampleTasks:
    """Write two tasks below `root` from the last commit of a repository."""
    with tempfile.TemporaryDirectory(prefix="recompact-samples-") as scratch:
        files = Path(scratch) / FILES
        try:
            check_out(str(repo), "HEAD", files)
        except InputError as error:
            raise InputError(f"{error}; --repo has to name a git repository with a commit") from None
        paths = sorted(str(path.relative_to(files)) for path in files.rglob("*") if _asked_line(path))
    names = [path for path in paths if path.isprintable()][: 2 * _FILES]
    if len(names) < 2 * _LEAST:
        raise InputError(
            f"two sample tasks take {2 * _LEAST} text files of {_SIZE.start:,} to {_SIZE.stop:,} bytes, and the last"
            f" commit of {repo} has {len(names)}: name another --repo, or make tasks of your own (recompact tasks add)"
        )
    folders, sizes = [], []
    try:
        for number, chosen in enumerate((names[::2], names[1::2]), 1):
            folder = add_repository(
                root,
                f"sample-{number}",
                repo=str(repo),
                commit="HEAD",
                instruction=_INSTRUCTION.format(answer=ANSWER, least=_LINE.start, files="\n".join(chosen)),
                check=f"diff -b $CHECK/expected.txt {ANSWER}",
            )
            folders.append(folder)
            (folder.path / CHECK).mkdir()
            expected = "".join(f"{_asked_line(folder.path / FILES / name)}\n" for name in chosen)
            (folder.path / CHECK / "expected.txt").write_text(expected, encoding="utf-8")
            sizes.append(sum((folder.path / FILES / name).stat().st_size for name in chosen))
    except BaseException:
        for folder in folders:
            shutil.rmtree(folder.path)
        raise
    return SampleTasks(tuple(folders), max(sizes))


def _asked_line(path: Path) -> str:
    """The line that is asked for; empty where a file is no text, of another size or without such a line."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size not in _SIZE:
            return ""
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    line = next((line for line in text.split("\n") if len(line.rstrip("\r")) >= _LINE.start), "").rstrip("\r")
    return line if len(line) in _LINE and line.isprintable() else ""
