"""One episode: some questions, a search tool, and the answers that end it. Its state is a small value.

Exact match and F1 of an answer are as SQuAD's evaluation defines them: the best over the accepted answers.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from recompact.environments.protocol import Observation, Opening
from recompact.suites.qa.retrieval import Passage, Retriever
from recompact.values.chat import ToolSpec, system, user
from recompact.values.trajectory import Action, Score

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

SEARCH = ToolSpec(
    "search",
    "Search the corpus and get the passages that fit best.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for, in a few words"},
            "n_results": {
                "type": "integer",
                "minimum": FEWEST,
                "maximum": MOST,
                "default": FEWEST,
                "description": "how many passages to get",
            },
        },
        "required": ["query"],
    },
)
FINAL_ANSWER = ToolSpec(
    "final_answer",
    "End the task with one answer to each question.",
    {
        "type": "object",
        "properties": {
            "answers": {
                "type": "array",
                "items": {"type": "string"},
                "description": "the answers in the order of the questions, each as short as possible",
            }
        },
        "required": ["answers"],
    },
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
