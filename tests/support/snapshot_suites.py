"""Environments of every strategy, sound and broken, for the tests and for the hosts that the tests start."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recompact.environments.functions import function_suite
from recompact.environments.protocol import Environment, Observation, Opening, Task
from recompact.environments.snapshots import VOLATILE
from recompact.values.chat import ToolSpec, system, user
from recompact.values.trajectory import Action, Score

TASK = Task("t1", "Do it.")


def do(what: str = "roll", **more: Any) -> Action:
    return Action("do", {"what": what, **more})


ROLLS = tuple(do() for _ in range(8))


class Base:
    """What they all have in common; a subclass says what `do` does."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.sum = 0

    def start(self) -> Opening:
        return Opening((system("Use do."), user(self.task.text)), (ToolSpec("do", "Do it."),))

    def step(self, action: Action) -> Observation:
        return Observation(self.do(**action.arguments))

    def do(self, what: str) -> str:
        raise NotImplementedError

    def score(self) -> Score:
        return Score.of(self.sum % 2 == 0, sum=self.sum)

    def snapshot(self) -> bytes:
        raise NotImplementedError

    def restore(self, state: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class Dice(Base):
    """State as bytes: a sum and the generator that it comes from."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.random = random.Random(task.id)

    def do(self, what: str) -> str:
        self.sum += self.random.randrange(1000)
        return f"{what}: {self.sum}"

    def snapshot(self) -> bytes:
        return json.dumps([self.sum, self.random.getstate()]).encode()

    def restore(self, state: bytes) -> None:
        self.sum, (version, inner, gauss) = json.loads(state)
        self.random.setstate((version, tuple(inner), gauss))


class OnlyReplay(Dice):
    snapshots = "replay"

    def snapshot(self) -> bytes:
        raise AssertionError("nobody should ask")


class Clocked(Base):
    """Deterministic, apart from a time and an identifier in its texts."""

    mask = VOLATILE

    def do(self, what: str) -> str:
        self.sum += len(what)
        return f"{time.strftime('%Y-%m-%d %H:%M:%S')}.{time.time_ns()} pid={os.getpid()} {uuid.uuid4().hex} {self.sum}"


class Folder(Base):
    """All state is files, besides a counter."""

    snapshots = "directory"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.directory = Path(tempfile.mkdtemp(prefix="recompact-test-"))

    def start(self) -> Opening:
        for child in self.directory.iterdir():
            shutil.rmtree(child) if child.is_dir() else child.unlink()
        (self.directory / "empty").mkdir()
        return super().start()

    def do(self, what: str) -> str:
        self.sum += 1
        folder = self.directory / f"d{self.sum % 3}"
        folder.mkdir(exist_ok=True)
        with (folder / "log.txt").open("a") as file:
            file.write(f"{self.sum}\n")
        if self.sum % 4 == 0:
            (self.directory / "empty").rename(self.directory / f"empty{self.sum}")
            (self.directory / "empty").symlink_to("d1/log.txt")
        if self.sum % 4 == 1:
            (folder / "log.txt").chmod(0o640)
        if self.sum % 4 == 2 and (self.directory / "empty").is_symlink():
            (self.directory / "empty").unlink()
            (self.directory / "empty").mkdir()
        return "\n".join(self._listing())

    def _listing(self) -> Iterator[str]:
        for path in sorted(self.directory.rglob("*")):
            content = path.read_text().replace("\n", ",") if path.is_file() and not path.is_symlink() else ""
            target = os.readlink(path) if path.is_symlink() else ""
            yield f"{path.relative_to(self.directory)} {path.lstat().st_mode:o} {content}{target}"

    def snapshot(self) -> bytes:
        return str(self.sum).encode()

    def restore(self, state: bytes) -> None:
        self.sum = int(state)

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class Living(Base):
    """State that nothing can copy, a generator, functions, the process's own random numbers, but that repeats."""

    snapshots = "replay"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        random.seed(task.id)
        self.squares = (n * n for n in itertools.count(1))
        self.adders: list[Callable[[int], int]] = []

    def do(self, what: str) -> str:
        square = next(self.squares)
        self.adders.append(lambda n: n + square)
        self.sum = sum(adder(1) for adder in self.adders)
        return f"{self.sum} {random.randrange(10**9)}"


# -- broken ones -----------------------------------------------------------------------------------------------------


class Forgets(Dice):
    """`restore` does nothing."""

    def restore(self, state: bytes) -> None:
        pass


_everybody: list[int] = []


class Shares(Dice):
    """Part of the state belongs to the module, so all branches have it in common."""

    def start(self) -> Opening:
        _everybody.clear()
        return super().start()

    def do(self, what: str) -> str:
        _everybody.append(1)
        return f"{super().do(what)} {len(_everybody)}"

    def snapshot(self) -> bytes:
        return json.dumps([list(_everybody), super().snapshot().decode()]).encode()

    def restore(self, state: bytes) -> None:
        shared, own = json.loads(state)
        _everybody[:] = shared
        super().restore(own.encode())


class Whimsical(Dice):
    """Never the same twice."""

    def do(self, what: str) -> str:
        return f"{super().do(what)} {uuid.uuid4().hex}"


class Rewinds(Dice):
    """The stream of random numbers begins anew when it is restored."""

    def restore(self, state: bytes) -> None:
        super().restore(state)
        self.random = random.Random(self.task.id)


class Disturbed(Dice):
    """Looking at it changes it."""

    def snapshot(self) -> bytes:
        self.random.random()
        return super().snapshot()


@dataclass(frozen=True)
class OneTask:
    """A suite of one task, with an environment of the class that is named."""

    kind: str = "Dice"

    @property
    def name(self) -> str:
        return self.kind

    def splits(self) -> Sequence[str]:
        return ("train",)

    def tasks(self, split: str) -> Sequence[Task]:
        return (TASK,)

    def environment(self, task: Task) -> Environment:
        environment: Environment = globals()[self.kind](task)
        return environment


# -- functions -------------------------------------------------------------------------------------------------------


def put(word: str, state: dict[str, list[str]]) -> str:
    """Keep a word."""
    state["words"].append(word)
    return " ".join(state["words"])


def lock(state: dict[str, Any]) -> str:
    """Keep something that cannot be pickled."""
    state["lock"] = threading.Lock()
    return "locked"


words = function_suite("words", [put, lock], {"t": ("Put some.", "done")}, state={"words": []})
WORDS = (*(Action("put", {"word": word}) for word in "abcde"), Action("finish", {"answer": "done"}))
