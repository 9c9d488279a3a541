"""A suite of good tasks beside environments that do whatever an environment should not do."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import fractions
import itertools
import json
import os
import pathlib
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from recompact.environments.protocol import Observation, Opening, Task
from recompact.values.chat import Message, ToolSpec, system, user
from recompact.values.trajectory import Action, Score

GOOD = 30
TEXT = " ".join(f"word{n}" for n in range(60))


class Good:
    """Counts; three steps and an end make it a success."""

    def __init__(self, task: Task) -> None:
        self.count = 0

    def start(self) -> Opening:
        return Opening((system("Count to three, then end."), user("Go.")), (ToolSpec("do", "Do it."),))

    def step(self, action: Action) -> Observation:
        self.count += 1
        return Observation(f"{self.count} {TEXT}", done=bool(action.arguments.get("end")))

    def score(self) -> Score:
        return Score.of(self.count == 4, count=self.count)

    def snapshot(self) -> bytes:
        return json.dumps(self.count).encode()

    def restore(self, state: bytes) -> None:
        self.count = json.loads(state)

    def close(self) -> None:
        pass


METHODS = ("environment", "start", "step", "score", "snapshot", "close")


class Unkind(BaseException):
    def __str__(self) -> str:
        raise self


class Odd(Exception):
    def __str__(self) -> str:
        return "half a character: \ud800, and a lot more: " + "x" * 100_000


RAISED: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(0),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "RecursionError": RecursionError,
    "GeneratorExit": GeneratorExit,
    "MemoryError": MemoryError,
    "Unkind": Unkind,
    "Odd": Odd,
}


class Liar:
    __class__ = Observation  # type: ignore[assignment]


class OwnText(str):
    def __len__(self) -> int:
        raise SystemExit("len")

    def __str__(self) -> str:
        raise SystemExit("str")

    def __eq__(self, other: object) -> bool:
        raise SystemExit("eq")

    __hash__ = str.__hash__


class OwnMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())

    def __len__(self) -> int:
        raise KeyboardInterrupt


class Color(enum.Enum):
    RED = "red"


def nested(depth: int) -> Any:
    value: Any = 1
    for _number in range(depth):
        value = [value]
    return value


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


async def coroutine() -> Observation:
    return Observation("never")


def numpy_values() -> dict[str, Any]:
    import numpy

    return {"a": numpy.float32(0.5), "b": numpy.arange(5), "c": numpy.zeros(10**6), "d": numpy.bool_(True)}


# What a method returns, and whether it can be brought into shape.
WRONG: dict[str, tuple[str, Callable[[], Any]]] = {
    "step-none": ("step", lambda: None),
    "step-int": ("step", lambda: 3),
    "step-dict": ("step", lambda: {"text": "x"}),
    "step-str": ("step", lambda: "x"),
    "step-liar": ("step", Liar),
    "step-coroutine": ("step", coroutine),
    "step-text-bytes": ("step", lambda: Observation(b"x")),  # type: ignore[arg-type]
    "step-text-none": ("step", lambda: Observation(None)),  # type: ignore[arg-type]
    "step-text-path": ("step", lambda: Observation(pathlib.Path("x"))),  # type: ignore[arg-type]
    "step-done-text": ("step", lambda: Observation("x", done="yes")),  # type: ignore[arg-type]
    "start-none": ("start", lambda: None),
    "start-tuple": ("start", lambda: ((), ())),
    "start-endless": ("start", lambda: Opening(map(str, itertools.count()), ())),  # type: ignore[arg-type]
    "start-endless-tools": ("start", lambda: Opening((), (ToolSpec(str(n), "") for n in itertools.count()))),  # type: ignore[arg-type]
    "start-role": ("start", lambda: Opening((Message("robot", "x"),), ())),  # type: ignore[arg-type]
    "start-content": ("start", lambda: Opening((user(7),), ())),  # type: ignore[arg-type]
    "start-tool-name": ("start", lambda: Opening((user("x"),), (ToolSpec("a\nb", ""),))),
    "start-tool-twice": ("start", lambda: Opening((user("x"),), (ToolSpec("a", ""), ToolSpec("a", "")))),
    "start-schema": ("start", lambda: Opening((user("x"),), (ToolSpec("a", "", 5),))),  # type: ignore[arg-type]
    "score-none": ("score", lambda: None),
    "score-true": ("score", lambda: True),
    "score-nan": ("score", lambda: Score(True, float("nan"))),
    "score-inf": ("score", lambda: Score(True, float("inf"))),
    "score-two": ("score", lambda: Score(True, 2.0)),
    "score-text": ("score", lambda: Score(True, "1")),  # type: ignore[arg-type]
    "score-maybe": ("score", lambda: Score(None, 1.0)),  # type: ignore[arg-type]
    "score-details": ("score", lambda: Score(True, 1.0, ["a"])),  # type: ignore[arg-type]
    "snapshot-none": ("snapshot", lambda: None),
    "snapshot-str": ("snapshot", lambda: "state"),
}
SHAPED: dict[str, tuple[str, Callable[[], Any]]] = {
    "score-decimal": ("score", lambda: Score(True, decimal.Decimal(1), {"x": decimal.Decimal("1.5")})),  # type: ignore[arg-type]
    "score-date": ("score", lambda: Score.of(True, day=datetime.date(2026, 1, 2), now=datetime.datetime(2026, 1, 2))),
    "score-path": ("score", lambda: Score.of(True, path=pathlib.Path("a/b"), id=uuid.UUID(int=1))),
    "score-set": ("score", lambda: Score.of(True, some={3, 1, 2}, frozen=frozenset("ab"))),
    "score-numpy": ("score", lambda: Score.of(True, **numpy_values())),
    "score-notfinite": ("score", lambda: Score.of(True, a=float("nan"), b=float("-inf"))),
    "score-deep": ("score", lambda: Score.of(True, deep=nested(5000))),
    "score-cycle": ("score", lambda: Score.of(True, cycle=cyclic())),
    "score-huge": ("score", lambda: Score.of(True, text="x" * 10**7, many=list(range(10**6)), whole=1 << 99_999)),
    "score-generator": ("score", lambda: Score.of(True, endless=itertools.count(), lock=threading.Lock())),
    "score-mapping": ("score", lambda: Score(True, 1.0, OwnMapping())),
    "score-keys": (
        "score",
        lambda: Score.of(True, keys={1: "a", (1, 2): "b", None: "c"}, rest=fractions.Fraction(1, 3)),
    ),
    "score-surrogate": ("score", lambda: Score.of(True, text="\ud800", bytes=b"\xff", color=Color.RED)),
    "score-one": ("score", lambda: Score(1, True)),  # type: ignore[arg-type]
    "step-surrogate": ("step", lambda: Observation("half \ud83d a character")),
    "step-own-text": ("step", lambda: Observation(OwnText("text"))),
    "step-done-one": ("step", lambda: Observation("x", done=0)),  # type: ignore[arg-type]
}


def misbehaving(method: str, act: Callable[..., Any], then: bool = False) -> type[Good]:
    """A good environment but for one method; `then` goes on as if nothing had happened."""

    def instead(self: Good, *arguments: Any) -> Any:
        outcome = act(self, *arguments)
        return getattr(Good, method)(self, *arguments) if then else outcome

    return type("Misbehaving", (Good,), {method: instead})


def raising(make: Callable[[], BaseException]) -> Callable[..., Any]:
    def act(*_: Any) -> Any:
        raise make()

    return act


def returning(make: Callable[[], Any]) -> Callable[..., Any]:
    return lambda *_: make()


def returned_once(method: str, make: Callable[[], Any]) -> type[Good]:
    """A method that returns this the first time, where a step must also come to an end."""

    def instead(self: Good, *arguments: Any) -> Any:
        value = getattr(Good, method)(self, *arguments)
        return make() if self.count <= 1 or method != "step" else value

    return type("Returning", (Good,), {method: instead})


IN_PROCESS: dict[str, type[Good]] = {
    **{
        f"{method}-raises-{name}": misbehaving("__init__" if method == "environment" else method, raising(make))
        for method in METHODS
        for name, make in RAISED.items()
    },
    **{name: misbehaving(method, returning(make)) for name, (method, make) in WRONG.items()},
    **{name: returned_once(method, make) for name, (method, make) in SHAPED.items()},
}


# -- hosted ----------------------------------------------------------------------------------------------------------


def sandboxed() -> bool:
    """Some of what follows would harm the machine itself if it were not in a sandbox."""
    return b"bwrap" in pathlib.Path("/proc/1/cmdline").read_bytes()


def channel() -> int:
    """The socket on which this host answers, as any code in the process can find it."""
    return int(sys.argv[sys.argv.index("--channel") + 1])


def sending(data: bytes | Callable[[], bytes]) -> Callable[..., Any]:
    """Write on the host's own socket, and stay silent."""

    def act(*_: Any) -> Any:
        os.write(channel(), data() if callable(data) else data)
        time.sleep(60)

    return act


def frame(value: Any) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack(">I", len(data)) + data


def answer(value: Any) -> Callable[..., Any]:
    """An answer to the first step, which is the third call."""
    return sending(frame({"ok": value, "number": 3}))


def flood(descriptor: int) -> Callable[..., Any]:
    def act(*_: Any) -> Any:
        while True:
            os.write(descriptor, b"flood " * 10_000)

    return act


def daemon(*_: Any) -> None:
    """Forked twice, in a session of its own, without a variable by which it could be found."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for signal_number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(signal_number, signal.SIG_IGN)
            os.execve("/bin/sleep", ["sleep", os.environ["HOSTILE_SLEEP"]], {})
        os._exit(0)
    os.wait()
    time.sleep(0.1)


def fork_bomb(*_: Any) -> None:
    assert sandboxed()
    for _number in range(1500):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    time.sleep(60)


def hog_memory(*_: Any) -> None:
    kept = [bytearray(b"x" * (64 << 20)) for _ in range(64)]
    time.sleep(len(kept))


def hog_memory_of_children(*_: Any) -> None:
    for _number in range(8):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1 << 20) * 300)
            time.sleep(60 + len(kept))
    time.sleep(60)


def burn(*_: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))  # what a limit of the config does after an hour
    while True:
        pass


def big_file(*_: Any) -> None:
    with open("/tmp/big" if sandboxed() else os.environ["TMPDIR"] + "/big", "wb") as file:
        for _number in range(64):
            file.write(b"\0" * (1 << 20))
    time.sleep(60)


def many_files(*_: Any) -> None:
    kept = [open(os.devnull) for _ in range(5000)]  # noqa: SIM115
    time.sleep(len(kept))


def deep_tree(*_: Any) -> None:
    os.chdir(os.environ["TMPDIR"])
    for _number in range(3000):
        os.mkdir("d")
        os.chdir("d")
    os.chmod(os.environ["TMPDIR"], 0)
    os._exit(3)


def write_everywhere(*_: Any) -> None:
    here = pathlib.Path(__file__).parent
    for place in (
        here / "hostile_suite.py",
        here / "new",
        pathlib.Path(os.environ["CANARY"]),
        pathlib.Path("/etc/new"),
    ):
        try:
            target = place / "new" if place.is_dir() else place
            target.write_text("changed")
        except OSError:
            continue
        raise AssertionError(f"{place} could be written")


def look_around(*_: Any) -> None:
    """Whatever is not ours must not be there: the canary, the driver's processes and its variables."""
    assert not pathlib.Path(os.environ["CANARY"]).exists()
    assert "OPENAI_API_KEY" not in os.environ
    for place in pathlib.Path("/proc").glob("[0-9]*/environ"):
        assert b"sk-hostile" not in place.read_bytes(), place
    assert not list(pathlib.Path(os.environ["RUN"]).glob("*")) if pathlib.Path(os.environ["RUN"]).exists() else True


def connect(*_: Any) -> None:
    import socket

    with socket.socket() as outside:
        outside.settimeout(3)
        outside.connect(("127.0.0.1", int(os.environ["PORT"])))


def kill_everything(*_: Any) -> None:
    assert sandboxed()
    os.kill(-1, signal.SIGKILL)


def kill_parent(*_: Any) -> None:
    assert sandboxed()
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def stop(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def close_all(*_: Any) -> None:
    os.closerange(0, 1024)
    time.sleep(60)


def patch_json(*_: Any) -> None:
    json.dumps = lambda *a, **k: "nonsense"


def patch_time(*_: Any) -> None:
    time.time = time.monotonic = lambda: 0.0
    os.fork = os.kill = os.waitpid = None  # type: ignore[assignment]


def leave_threads(*_: Any) -> None:
    for _number in range(20):
        threading.Thread(target=time.sleep, args=(60,)).start()


def leave_children(*_: Any) -> None:
    for _number in range(5):
        subprocess.Popen(["sleep", os.environ["HOSTILE_SLEEP"]])


def exiting(code: int) -> Callable[..., Any]:
    return lambda *_: os._exit(code)


def dying(number: int) -> Callable[..., Any]:
    return lambda *_: os.kill(os.getpid(), number)


def asking(request: Any, role: Any = "user", times: int = 1) -> Callable[..., Any]:
    return sending(frame({"ask": role, "request": request}) * times)


REQUEST = {"messages": [{"role": "user", "content": "x"}], "tools": [], "decoding": [None] * 4 + [[], None]}
INIT = "__init__"

BROKEN: dict[str, tuple[str, Callable[..., Any]]] = {
    **{f"exit-in-{method}": (INIT if method == "environment" else method, exiting(5)) for method in METHODS[:-1]},
    **{f"exit-0-in-{method}": (INIT if method == "environment" else method, exiting(0)) for method in METHODS[:-1]},
    "segfault": ("step", dying(signal.SIGSEGV)),
    "abort": ("step", dying(signal.SIGABRT)),
    "killed": ("score", dying(signal.SIGKILL)),
    "stopped": ("step", stop),
    "hang-in-start": ("start", lambda *_: time.sleep(60)),
    "hang-in-step": ("step", lambda *_: time.sleep(60)),
    "hang-in-constructor": (INIT, lambda *_: time.sleep(60)),
    "close-all-files": ("step", close_all),
    "length-4-gb": ("step", sending(b"\xff\xff\xff\xff")),
    "length-4-gb-and-more": ("step", sending(b"\xff\xff\xff\xff" + b"x" * 50_000)),
    "length-0": ("step", sending(b"\0\0\0\0")),
    "partial-head": ("step", lambda *_: (os.write(channel(), b"\0\0"), os._exit(1))),
    "partial-body": ("step", lambda *_: (os.write(channel(), b"\0\0\1\0{"), os._exit(1))),
    "claims-60-mb": ("step", sending(struct.pack(">I", 60 << 20) + b"{")),
    "garbage": ("step", sending(bytes(range(256)) * 10)),
    "not-json": ("step", sending(frame(b"hello"))),
    "not-utf8": ("step", sending(frame(b'{"ok": "\xff\xfe"}'))),
    "json-list": ("step", sending(frame([1, 2]))),
    "json-null": ("step", sending(frame(None))),
    "json-nested": ("step", sending(frame(b"[" * 50_000))),
    "json-huge-number": ("step", sending(frame(b'{"ok": ' + b"9" * 10_000 + b"}"))),
    "no-number": ("step", sending(frame({"ok": 1}))),
    "number-of-another": ("step", sending(frame({"ok": ["x", True, False], "number": 99}))),
    "neither-ok-nor-error": ("step", sending(frame({"number": 3}))),
    "ok-none": ("step", answer(None)),
    "ok-text": ("step", answer("text")),
    "ok-empty": ("step", answer({})),
    "ok-short-list": ("step", answer(["x"])),
    "ok-wrong-types": ("step", answer([1, "a", None])),
    "exited-text": ("step", sending(frame({"exited": "never"}))),
    "exited-dict": ("step", sending(frame({"exited": {}}))),
    "error-number": ("step", sending(frame({"error": 5, "number": 3}))),
    "error-dict-kind-list": ("step", sending(frame({"error": {}, "kind": [], "number": 3}))),
    "ask-role-dict": ("step", asking(REQUEST, role={})),
    "ask-no-request": ("step", asking(None)),
    "ask-odd-message": ("step", asking({**REQUEST, "messages": [5]})),
    "ask-odd-role": ("step", asking({**REQUEST, "messages": [{"role": "user", "content": 5}]})),
    "ask-odd-decoding": ("step", asking({**REQUEST, "decoding": "abc"})),
    "ask-flood": ("step", asking(REQUEST, times=400)),
    "patch-json": ("step", patch_json),
    "flood-stdout": ("step", flood(1)),
    "flood-stderr": ("step", flood(2)),
    "fork-bomb": ("step", fork_bomb),
    "memory": ("step", hog_memory),
    "memory-of-children": ("step", hog_memory_of_children),
    "cpu": ("step", burn),
    "big-file": ("step", big_file),
    "many-files": ("step", many_files),
    "deep-tree": ("step", deep_tree),
    "network": ("step", connect),
    "kill-everything": ("step", kill_everything),
    "kill-parent": ("step", kill_parent),
    "too-large": ("step", lambda *_: Observation("x" * (30 << 20))),
}
# These go on as if nothing had happened, and the episode must come to its end.
UNHARMED: dict[str, tuple[str, Callable[..., Any]]] = {
    "daemon": ("step", daemon),
    "daemon-from-constructor": (INIT, daemon),
    "threads": ("step", leave_threads),
    "children": ("step", leave_children),
    "patch-time": ("step", patch_time),
    "write-everywhere": ("step", write_everywhere),
    "look-around": ("step", look_around),
    "hang-in-close": ("close", lambda *_: time.sleep(60)),
    "exit-in-close": ("close", exiting(5)),
    "prints": ("step", lambda *_: print("noise " * 20_000)),
}
ONLY_SANDBOXED = {
    *("fork-bomb", "kill-everything", "kill-parent", "network", "daemon", "daemon-from-constructor"),
    *("write-everywhere", "look-around", "memory-of-children"),
}

HOSTED: dict[str, type[Good]] = {
    **{name: misbehaving(method, act) for name, (method, act) in BROKEN.items()},
    **{name: misbehaving(method, act, then=True) for name, (method, act) in UNHARMED.items()},
    **{
        f"{method}-raises-{name}": misbehaving(INIT if method == "environment" else method, raising(RAISED[name]))
        for method in METHODS[1:4]
        for name in ("SystemExit", "Unkind")
    },
    **{name: misbehaving(WRONG[name][0], returning(WRONG[name][1])) for name in ("step-none", "start-endless")},
    **{name: returned_once(*SHAPED[name]) for name in ("score-decimal", "score-deep", "step-surrogate")},
}


class HostileSuite:
    """`kind` says which of the two lists stands beside the good tasks."""

    name = "hostile"

    def __init__(self, kind: str = "in process", names: Sequence[str] | None = None) -> None:
        self.behaviours = IN_PROCESS if kind == "in process" else HOSTED
        self.names = list(self.behaviours) if names is None else names

    def splits(self) -> Sequence[str]:
        return ("train",)

    def tasks(self, split: str) -> Sequence[Task]:
        """The good ones are spread among the others."""
        good = [f"good-{n:02d}" for n in range(GOOD)]
        pairs = itertools.zip_longest(self.names[::2], good, self.names[1::2])
        mixed = [id for pair in pairs for id in pair if id is not None]
        return [Task(id, "Count.") for id in mixed]

    def environment(self, task: Task) -> Good:
        return self.behaviours.get(task.id, Good)(task)
