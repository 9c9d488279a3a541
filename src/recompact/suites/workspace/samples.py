"""Two tasks to begin with, made from the files of a git repository: read them one by one, then say what stood in each.

What was read first has to survive every compaction, and a check can know it without knowing the project.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recompact.errors import InputError
from recompact.suites.workspace.folder import CHECK, FILES, TaskFolder
from recompact.suites.workspace.repository import add_repository, check_out

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
