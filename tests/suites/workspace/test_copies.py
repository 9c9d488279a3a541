"""Copies of a task's files: an agent may write in them, whatever the modes of the originals."""

from __future__ import annotations

import os
from pathlib import Path

from recompact.suites.workspace.task import copy_tree


def test_the_owner_may_write_everywhere_in_a_copy(tmp_path: Path) -> None:
    source = tmp_path / "files"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "a.txt").write_text("a")
    (source / "link").symlink_to("inner/a.txt")
    for place in (source / "inner" / "a.txt", source / "inner", source):
        place.chmod(0o555 if place.is_dir() else 0o444)
    try:
        copy_tree(source, tmp_path / "copy")
    finally:
        for place in (source, source / "inner"):
            place.chmod(0o755)
    for folder, folders, names in os.walk(tmp_path / "copy"):
        assert os.stat(folder).st_mode & 0o700 == 0o700
        assert all(os.lstat(Path(folder, name)).st_mode & 0o200 for name in (*folders, *names))
    assert (tmp_path / "copy" / "link").is_symlink()
