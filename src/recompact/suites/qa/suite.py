"""The suite: tasks of several questions from a JSONL file, and where to look for their answers.

Options are those of [suite.options] in a config; docs/qa.md says what they mean.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from recompact.environments.protocol import Behaviour, Literals, Task
from recompact.errors import InputError, OptionError
from recompact.registry import Limit
from recompact.suites.qa.environment import SEARCH, QaEnvironment, Question, task_text
from recompact.suites.qa.retrieval import Bm25Retriever, HttpRetriever, Retriever
from recompact.values.trajectory import Action
from recompact.version import install_command

TASKS_VARIABLE = "RECOMPACT_QA"
CORPUS_VARIABLE = "RECOMPACT_QA_CORPUS"
_NUMBER = re.compile(r"\b\d(?:[\d,.]*\d)?\b")


def missing() -> str | None:
    """What has to be installed before the suite can search a corpus of its own; None if nothing."""
    return None if find_spec("bm25s") else f"bm25s cannot be imported here: {install_command('qa')}"


@dataclass(frozen=True)
class _Row:
    id: str
    split: str
    questions: tuple[Question, ...]


class QaSuite:
    """A `Suite`."""

    name = "qa"

    def __init__(
        self,
        tasks: str | Path | None = None,
        *,
        corpus: str | Path | None = None,
        retriever: str | None = None,
        index: str | Path | None = None,
        k1: Annotated[float, Limit(ge=0)] = 0.9,
        b: Annotated[float, Limit(ge=0, le=1)] = 0.4,
        timeout: Annotated[float, Limit(gt=0)] = 60.0,
    ) -> None:
        file = tasks or os.environ.get(TASKS_VARIABLE)
        if not file:
            raise InputError(
                f"suite 'qa' needs its tasks: set tasks in [suite.options] or {TASKS_VARIABLE} to a JSONL file"
                " (docs/qa.md)"
            )
        self._rows = _read(Path(file).expanduser())
        self._retriever = _retriever(corpus, retriever, index, k1, b, timeout)

    def splits(self) -> Sequence[str]:
        return tuple(dict.fromkeys(row.split for row in self._rows.values()))

    def tasks(self, split: str) -> Sequence[Task]:
        """The accepted answers are not part of a task: tasks are recorded, and shown to models."""
        if split not in self.splits():
            raise InputError(f"suite 'qa' has no split {split!r}: choose one of {', '.join(self.splits())}")
        return [
            Task(row.id, task_text(row.questions), {"objectives": str(len(row.questions))})
            for row in self._rows.values()
            if row.split == split
        ]

    def environment(self, task: Task) -> QaEnvironment:
        return QaEnvironment(self._rows[task.id].questions, self._retriever)

    def behaviour(self, action: Action) -> Behaviour | None:
        return "read" if action.name == SEARCH.name else None

    def literals(self, text: str) -> Literals:
        """Years and other numbers, which no agent can guess."""
        return {"numbers": tuple(dict.fromkeys(_NUMBER.findall(text)))}


def _retriever(
    corpus: str | Path | None, url: str | None, index: str | Path | None, k1: float, b: float, timeout: float
) -> Retriever:
    if corpus and url:
        raise OptionError("a corpus is searched here, a retriever elsewhere: give one of them", "retriever")
    if url:
        if not url.startswith(("http://", "https://")):
            raise OptionError(f"{url!r} is not an address: write it as in http://127.0.0.1:8000/retrieve", "retriever")
        return HttpRetriever(url, timeout)
    place = corpus or os.environ.get(CORPUS_VARIABLE)
    if not place:
        raise InputError(
            f"suite 'qa' needs something to search: set corpus in [suite.options] or {CORPUS_VARIABLE} to a JSONL file"
            " of passages, or retriever to the address of a server (docs/qa.md)"
        )
    if problem := missing():
        raise InputError(f"suite 'qa': {problem}")
    return Bm25Retriever(Path(place).expanduser(), Path(index).expanduser() if index else None, k1=k1, b=b)


def _read(file: Path) -> dict[str, _Row]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")  # not splitlines: JSON texts may hold other line ends
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the tasks of suite 'qa' cannot be read from {file}: {error}") from None
    rows: dict[str, _Row] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _row(json.loads(line), f"qa-{number:04}")
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{file}, line {number} is no task ({error}): it needs questions, each with question and answers"
            ) from None
        if row.id in rows:
            raise InputError(f"{file}, line {number}: there is another task {row.id!r}")
        rows[row.id] = row
    if not rows:
        raise InputError(f"{file} has no tasks")
    return rows


def _row(data: Any, default: str) -> _Row:
    questions = tuple(_question(each) for each in data["questions"])
    if not questions:
        raise ValueError("it has no questions")
    return _Row(str(data.get("id", default)), str(data.get("split", "train")), questions)


def _question(data: Any) -> Question:
    accepted = data["answers"]
    if isinstance(accepted, str):
        accepted = [accepted]
    if not accepted or not all(isinstance(answer, str) for answer in accepted):
        raise ValueError("a question without an answer that is a text")
    return Question(str(data["question"]), tuple(accepted))
