"""Workspace tasks of the experiment: folders of text files, made from a seed, in which one leads to others.

What is asked for stands in several of them and is written down at the end. The answer is computed here and never lies
in a workspace, and a program compares it with what the agent left.
"""

from __future__ import annotations

import random
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recompact.environments.protocol import Environment, Task
from recompact.errors import InputError
from recompact.values.trajectory import Score

ANSWER = "answer.txt"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The command by which mini-swe-agent ends a task."""

LONGEST = 10_000  # bytes of a file that is judged


@dataclass(frozen=True)
class Work:
    """One task: its files, the answer that has to be written down, and the commands by which the oracle solves it."""

    instruction: str
    files: Mapping[str, str]
    answer: str
    commands: tuple[str, ...]

    def lay_out(self, workspace: Path) -> None:
        for name, text in self.files.items():
            path = workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def judge(self, workspace: Path, answer: str) -> Score:
        """Whether the answer was written down, apart from white space; what the agent says does not count."""
        return Score.of(_content(workspace / ANSWER).split() == self.answer.split())


def _content(path: Path) -> str:
    """The text of a plain file of ordinary length; of anything else nothing."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LONGEST:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


CITIES = (
    "Aarhus", "Bergen", "Cork", "Dresden", "Evora", "Faro", "Ghent", "Izmir", "Kaunas", "Lugano", "Malmo", "Nantes",
    "Oulu", "Porto", "Riga", "Split", "Turku", "Vigo", "Wroclaw", "Zadar",
)  # fmt: skip
NAMES = (
    "Berg", "Blom", "Costa", "Dahl", "Falk", "Haas", "Holm", "Klein", "Lind", "Moen", "Novak", "Prado", "Ritter",
    "Stein", "Voss", "Weber",
)  # fmt: skip
COLORS = ("black", "blue", "brown", "green", "grey", "orange", "red", "white", "yellow")
REMARKS = (
    "Put back on the second shelf.",
    "The label was printed again.",
    "Nothing else has to be done here this month.",
    "Ask at the front desk if the box is missing.",
    "The old copy was thrown away in spring.",
    "Signed by two people, as the house rules say.",
    "Weighed without the packing.",
    "The list on the wall is out of date.",
    "Kept dry and away from the window.",
    "The next check is due after the holidays.",
    "The older papers are in the archive.",
    "Whoever takes this out leaves a note.",
)
REMARKS_EACH = 6
UNUSED = 2  # further files in each folder, which have nothing to do with the task


def _city(rng: random.Random) -> str:
    return rng.choice(CITIES)


def _name(rng: random.Random) -> str:
    return rng.choice(NAMES)


def _color(rng: random.Random) -> str:
    return rng.choice(COLORS)


def _time(rng: random.Random) -> str:
    return f"{rng.randrange(6, 22)}:{rng.randrange(10, 60)}"


def _price(rng: random.Random) -> str:
    return str(rng.randrange(20, 400))


def _phone(rng: random.Random) -> str:
    return f"555-{rng.randrange(1000, 10000)}"


def _floor(rng: random.Random) -> str:
    return str(rng.randrange(2, 30))


@dataclass(frozen=True)
class Part:
    """Something that is named by its code in a file, and what is asked for in its own file."""

    noun: str
    letter: str
    fact: str
    value: Callable[[random.Random], str]

    @property
    def folder(self) -> str:
        return f"{self.noun}s"


@dataclass(frozen=True)
class Family:
    """Tasks of one kind: a file names four things, each of which has a file with a fact."""

    noun: str
    letter: str
    parts: tuple[Part, ...]


FAMILIES: Mapping[str, Family] = {
    "trip": Family(
        "trip",
        "G",
        (
            Part("hotel", "H", "city", _city),
            Part("train", "L", "departure", _time),
            Part("guide", "N", "surname", _name),
            Part("museum", "Q", "hall", _color),
        ),
    ),
    "order": Family(
        "order",
        "A",
        (
            Part("customer", "C", "city", _city),
            Part("item", "K", "price", _price),
            Part("carrier", "T", "phone", _phone),
            Part("crate", "W", "color", _color),
        ),
    ),
    "course": Family(
        "course",
        "R",
        (
            Part("teacher", "E", "phone", _phone),
            Part("room", "J", "floor", _floor),
            Part("book", "B", "author", _name),
            Part("exam", "X", "time", _time),
        ),
    ),
    "repair": Family(
        "repair",
        "V",
        (
            Part("machine", "Y", "color", _color),
            Part("valve", "S", "price", _price),
            Part("mechanic", "F", "surname", _name),
            Part("yard", "U", "city", _city),
        ),
    ),
}
SPLITS: Mapping[str, int] = {"train": 8, "unseen": 10}
"""Tasks of each family."""


def work(seed: str, family: str) -> Work:
    """The task that a seed gives."""
    rng, kind = random.Random(seed), FAMILIES[family]
    first = f"{kind.noun}s/{_code(rng, kind.letter)}.txt"
    codes = [_code(rng, part.letter) for part in kind.parts]
    values = [part.value(rng) for part in kind.parts]
    named = [(part.noun, code) for part, code in zip(kind.parts, codes, strict=True)]
    files = {first: _file(rng, (kind.noun, Path(first).stem), *named)}
    for part, code, value in zip(kind.parts, codes, values, strict=True):
        files[f"{part.folder}/{code}.txt"] = _file(rng, (part.noun, code), (part.fact, value))
        for _ in range(UNUSED):
            files.setdefault(f"{part.folder}/{_code(rng, part.letter)}.txt", _file(rng, (part.noun, "not in use")))
    answer = " ".join(values)
    read = [first, *(f"{part.folder}/{code}.txt" for part, code in zip(kind.parts, codes, strict=True))]
    nouns = _listed([f"{'an' if part.noun[0] in 'aeiou' else 'a'} {part.noun}" for part in kind.parts])
    folders = _listed([f"{part.folder}/" for part in kind.parts])
    facts = _listed([f"the {part.noun}'s {part.fact}" for part in kind.parts])
    return Work(
        f"Read {first}. It names {nouns}. Read the file of each, in {folders}, one by one. Then write {facts} to"
        " answer.txt, on one line, with spaces between them.",
        files,
        answer,
        (*(f"cat {name}" for name in read), f'echo "{answer}" > {ANSWER} && {SUBMIT}'),
    )


def _code(rng: random.Random, letter: str) -> str:
    return f"{letter}{rng.randrange(100, 1000)}"


def _file(rng: random.Random, *facts: tuple[str, str]) -> str:
    """Facts, and remarks that nobody needs."""
    date = f"2024-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
    lines = (*(f"{key}: {value}" for key, value in facts), f"checked: {date}", *rng.sample(REMARKS, REMARKS_EACH))
    return "\n".join(lines) + "\n"


def _listed(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


class MiniFiles:
    """The suite. Only agents that are programs play it."""

    name = "mini-files"

    def splits(self) -> Sequence[str]:
        return tuple(SPLITS)

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in SPLITS:
            raise InputError(f"there is no split {split!r}: there are {', '.join(SPLITS)}")
        return [_task(split, family, n) for n in range(SPLITS[split]) for family in FAMILIES]

    def environment(self, task: Task) -> Environment:
        raise InputError("these tasks are played by an agent that is a program: name it in [agent] command")

    def hidden_places(self) -> tuple[Path, ...]:
        return (Path(__file__).resolve().parent,)

    def workspace_task(self, task: Task) -> Work:
        return work(task.id, task.groups["family"])


def _task(split: str, family: str, number: int) -> Task:
    id = f"{split}-{family}-{number:02d}"
    return Task(id, work(id, family).instruction, {"family": family})


def suite() -> MiniFiles:
    return MiniFiles()
