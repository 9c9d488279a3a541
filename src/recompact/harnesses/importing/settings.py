"""Reads the prompt that a user's file puts in force: a key in the settings of a harness, or a prompt file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recompact.errors import InputError


@dataclass(frozen=True)
class PromptFile:
    """A file in which a harness looks for its prompt. `read` returns the prompt, or None if there is none."""

    key: str  # what the prompt is called in it; empty where the whole file is the prompt
    folder: str
    names: tuple[str, ...]
    read: Callable[[str, Path], str | None]  # takes the file's text and its path
    variable: str = ""  # the environment variable that names another folder


def prompt_in(source: PromptFile, path: Path | None) -> tuple[Path, str]:
    """The file and the prompt in it. `path` is the file, or the folder to look in instead."""
    folder = path if path is not None else _usual_folder(source)
    files = [folder / name for name in source.names] if path is None or path.is_dir() else [folder]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise InputError(f"{' or '.join(map(str, files))} does not exist: give its path, as in --from HARNESS PATH")
    try:
        prompt = source.read(file.read_bytes().decode("utf-8"), file)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not prompt or not prompt.strip():
        what = f"no {source.key}" if source.key else "no prompt"
        raise InputError(f"{file} has {what}: the harness uses its built-in prompt, which is not in its files")
    return file, prompt


def _usual_folder(source: PromptFile) -> Path:
    elsewhere = os.environ.get(source.variable) if source.variable else None
    return Path(elsewhere or source.folder).expanduser()
