"""The suite: tasks of several questions from a JSONL file, where to look for their answers, and an episode: a search
tool, and the answers that end it. Its state is a small value.

Options are those of [suite.options] in a config; docs/qa.md says what they mean. Exact match and F1 of an answer are as
SQuAD's evaluation defines them: the best over the accepted answers.
"""

from __future__ import annotations

import json
import os
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from recompact.environments.protocol import Behaviour, Literals, Observation, Opening, Task, tool
from recompact.errors import InputError, OptionError
from recompact.registry import Limit
from recompact.suites.qa.retrieval import Bm25Retriever, HttpRetriever, Passage, Retriever
from recompact.values.chat import system, user
from recompact.values.trajectory import Action, Score
from recompact.version import install_command

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize(text: str) -> str:
    """Lower case, without punctuation, articles and superfluous space.

    >>> normalize("The  Cat's-eye, an  agate.")
    'catseye agate'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """Whether the answer is one of those accepted, once both are normalized.

    >>> exact_match("the Blue Nile", ["Nile", "Blue Nile"])
    1.0
    """
    return _best(lambda gold: float(normalize(answer) == normalize(gold)), accepted)


def f1(answer: str, accepted: Sequence[str]) -> float:
    """The harmonic mean of the shares of words that the answer and an accepted one have in common.

    >>> f1("the Blue Nile river", ["Nile", "Blue Nile"])
    0.8
    """
    return _best(lambda gold: _overlap(normalize(answer).split(), normalize(gold).split()), accepted)


def _best(score: Callable[[str], float], accepted: Sequence[str]) -> float:
    return max((score(gold) for gold in accepted), default=0.0)


def _overlap(words: Sequence[str], gold: Sequence[str]) -> float:
    if not words or not gold:  # as in SQuAD 2.0: an empty answer is right only if nothing is left of the accepted one
        return float(words == gold)
    common = (Counter(words) & Counter(gold)).total()
    return 2 * common / (len(words) + len(gold))


FEWEST, MOST = 3, 10  # passages of one search, as in ACON's harness

_PASSAGES = {"type": "integer", "minimum": FEWEST, "maximum": MOST, "default": FEWEST}
SEARCH = tool(
    "search",
    "Search the corpus and get the passages that fit best.",
    ["query"],
    query={"type": "string", "description": "what to look for, in a few words"},
    n_results=_PASSAGES | {"description": "how many passages to get"},
)
_LIST = {"type": "array", "items": {"type": "string"}}
FINAL_ANSWER = tool(
    "final_answer",
    "End the task with one answer to each question.",
    ["answers"],
    answers=_LIST | {"description": "the answers in the order of the questions, each as short as possible"},
)

_INSTRUCTIONS = """\
Answer all questions by searching the corpus. One call of a tool at a time; read what comes back before the next one.
- search(query, n_results) gives passages, best first. Look for one question at a time, and put a query in other words \
if it finds nothing of use.
- final_answer(answers) ends the task. It takes a list with exactly one answer to each question, in the order of the \
questions. An answer is a name, a date, a number or a few words, not a sentence; where you found nothing, give your \
best guess."""


@dataclass(frozen=True)
class Question:
    """One objective. Any of the accepted answers is right."""

    text: str
    accepted: tuple[str, ...]


class QaEnvironment:
    """An `Environment`. Searching changes nothing but the count of searches, so its state is that and the answer."""

    def __init__(self, questions: Sequence[Question], retriever: Retriever) -> None:
        self._questions = tuple(questions)
        self._retriever = retriever
        self._answers: tuple[str, ...] | None = None
        self._searches = 0

    def start(self) -> Opening:
        self._answers, self._searches = None, 0
        prefix = (system(_INSTRUCTIONS), user(task_text(self._questions)))
        return Opening(prefix, (SEARCH, FINAL_ANSWER))

    def step(self, action: Action) -> Observation:
        if self._answers is not None:
            return Observation("Error: the task is ended already.", done=True, error=True)
        if action.name == FINAL_ANSWER.name:
            return self._final_answer(action.arguments.get("answers"))
        if action.name == SEARCH.name:
            return self._search(action.arguments.get("query"), action.arguments.get("n_results", FEWEST))
        return Observation(f"Error: there is no tool {action.name!r}; use search or final_answer.", error=True)

    def score(self) -> Score:
        """A task succeeds if every question is answered exactly; its value is the share of those that are."""
        given = self._answers or ()
        answers = [given[n] if n < len(given) else "" for n in range(len(self._questions))]
        pairs = list(zip(answers, self._questions, strict=True))
        if self._answers is None:
            exact = overlap = [0.0] * len(pairs)
        else:
            exact = [exact_match(answer, question.accepted) for answer, question in pairs]
            overlap = [f1(answer, question.accepted) for answer, question in pairs]
        details = {"em": exact, "f1": overlap, "answers": list(given), "searches": self._searches}
        return Score(all(exact), fmean(exact), details)

    def snapshot(self) -> bytes:
        return json.dumps({"answers": self._answers, "searches": self._searches}).encode()

    def restore(self, state: bytes) -> None:
        data = json.loads(state)
        self._answers = None if data["answers"] is None else tuple(data["answers"])
        self._searches = data["searches"]

    def close(self) -> None:
        pass

    def _search(self, query: object, wanted: object) -> Observation:
        if not isinstance(query, str) or not query.strip():
            return Observation("Error: search needs a query, a text.", error=True)
        if isinstance(wanted, bool) or not isinstance(wanted, int):
            return Observation(f"Error: n_results is a whole number from {FEWEST} to {MOST}.", error=True)
        self._searches += 1
        passages = self._retriever.search(query, min(max(wanted, FEWEST), MOST))
        if not passages:
            return Observation(f"Nothing was found for {query!r}.")
        return Observation("\n\n".join(_show_passage(n, passage) for n, passage in enumerate(passages, 1)))

    def _final_answer(self, answers: object) -> Observation:
        if isinstance(answers, str):  # in ACON's harness they are one text
            answers = answers.split(";")
        if not isinstance(answers, list | tuple):
            return Observation("Error: final_answer needs answers, a list of texts.", error=True)
        self._answers = tuple(str(answer).strip() for answer in answers)
        return Observation("The task is ended.", done=True)


def task_text(questions: Sequence[Question]) -> str:
    return "\n".join(f"{n}. {question.text}" for n, question in enumerate(questions, 1))


def _show_passage(number: int, passage: Passage) -> str:
    return f"[{number}] {passage.title}\n{passage.text}"


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
        return {"numbers": tuple(_NUMBER.findall(text))}


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
