"""Copies of the tree and the processes that run tests in them: one that has imported everything and forks for each
mutant, and a pytest of its own for what an import runs."""

from __future__ import annotations

import contextlib
import gc
import importlib
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from types import CodeType, FunctionType
from typing import Any, NoReturn

from mutation.changes import Mutant
from mutation.lines import Lines, inside, record_lines, run_items
from mutation.witnesses import ROOT, SOURCE, file_of, files_of_tests, name_of

PATIENCE = 30  # tests may take this many times their processor seconds by the clock: others use the machine too
PRELOADED = ["pytest", "hypothesis", "hypothesis.strategies", "openai", "pydantic", "rich.progress", "jinja2", "click"]
"""What tests import besides Recompact: loading it anew for each mutant would take longer than most tests."""
NOT_PUT = 3  # the exit code where functions could not be changed


def copy_of_tree(place: Path) -> Path:
    """The tree without what git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, place / name)
    return place


def pytest_in(tree: Path, arguments: Sequence[str], seconds: float) -> int | None:
    """The exit code of pytest in a process of its own, or None at the time limit."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(PRELOADED)
    process = forks.Process(target=_run_pytest, args=(str(tree), list(arguments), seconds))
    process.start()
    process.join(PATIENCE * seconds)
    code = process.exitcode
    if code is None and process.pid is not None:
        os.killpg(process.pid, signal.SIGKILL)  # with whatever the tests have started
        process.join()
    return None if code is not None and code < 0 else code


def _run_pytest(tree: str, arguments: Sequence[str], seconds: float) -> None:
    import pytest

    os.setsid()
    limit_processor(seconds)
    sys.exit(pytest.main(["-x", *_settle(tree), *arguments]))


def limit_processor(seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))


def _settle(tree: str) -> list[str]:
    """Settle this process in a copy of the tree, silently, and return the arguments that pytest gets there."""
    import hypothesis

    os.chdir(tree)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    patient = {"deadline": None, "suppress_health_check": list(hypothesis.HealthCheck), "database": None}
    hypothesis.settings.register_profile("patient", **patient)  # type: ignore[arg-type]
    hypothesis.settings.load_profile("patient")
    sys.dont_write_bytecode = False  # pytest compiles tests anew for each mutant otherwise
    os.environ["PYTHONPATH"] = os.pathsep.join([f"{tree}/src", f"{tree}/benchmarks"])
    sys.path[:0] = [f"{tree}/src", f"{tree}/benchmarks", tree]
    return ["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", f"--basetemp={tree}/temporary"]


class WarmTests:
    """All tests, collected once in a process of their own, which forks for each request."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        files = [path.relative_to(tree).as_posix() for path in files_of_tests(tree)]
        names = [*files, "tests/test_docs.py"]
        self._lock = Lock()
        spawning = multiprocessing.get_context("spawn")
        self._connection, other = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(str(tree), names, other))
        self._process.start()
        other.close()
        self.imported: dict[str, list[int]] = self._answer()

    def record(self, file: str, out: Path) -> int | None:
        """Write which test of a file runs which line; the exit code."""
        return self._ask(("record", file, str(out), PATIENCE * 60.0))

    def judge(self, mutant: Mutant, code: str, names: Sequence[str], seconds: float) -> int | None:
        """1 where one of the tests fails on the changed code, and None at the time limit."""
        return self._ask(("judge", mutant.module, code, list(names), seconds))

    def close(self) -> None:
        """End it, with whatever it is doing."""
        self._process.terminate()
        self._process.join()

    def _ask(self, request: tuple[Any, ...]) -> int | None:
        with self._lock:
            self._connection.send(request)
            code: int | None = self._answer()
            return code

    def _answer(self) -> Any:
        try:
            return self._connection.recv()
        except EOFError:
            sys.exit("the tests could not be collected: does `pytest --collect-only` work?")


def _serve(tree: str, names: Sequence[str], connection: Any) -> None:
    import coverage
    import pytest

    arguments = _settle(tree)
    # What an import runs cannot be changed afterwards, so it must be known.
    measuring = coverage.Coverage(data_file=None, include=[f"{Path(tree) / SOURCE}/*"], config_file=False)
    measuring.start()
    sys.exit(pytest.main([*arguments, *names], plugins=[_Serving(connection, measuring)]))


class _Serving:
    """A pytest plugin that does what it is asked to, instead of running the tests."""

    def __init__(self, connection: Any, measuring: Any) -> None:
        self.connection, self.measuring = connection, measuring

    def pytest_runtestloop(self, session: Any) -> bool:
        self.measuring.stop()
        data, tree = self.measuring.get_data(), Path.cwd()
        self.connection.send({inside(tree, name): data.lines(name) for name in data.measured_files()})
        items = {item.nodeid: item for item in session.items}
        gc.collect()
        gc.freeze()  # so that forks share their memory
        while (request := self.connection.recv()) is not None:
            self.connection.send(_run_in_fork(request, items))
        return True


def _run_in_fork(request: tuple[Any, ...], items: Mapping[str, Any]) -> int | None:
    """The exit code of a request in a process of its own; None where it ran out of time."""
    kind, *details, seconds = request
    child = os.fork()
    if not child:
        _in_fork(kind, details, seconds, items)
    signal.signal(signal.SIGTERM, partial(_end_with, child))
    end = time.monotonic() + PATIENCE * seconds
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended and time.monotonic() < end:
        time.sleep(0.02)
        ended, status = os.waitpid(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # with whatever the tests have started
    if not ended:
        os.waitpid(child, 0)
        return None
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


def _end_with(child: int, *_: object) -> NoReturn:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os._exit(1)


def _in_fork(kind: str, details: Sequence[Any], seconds: float, items: Mapping[str, Any]) -> NoReturn:
    code = NOT_PUT
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        limit_processor(seconds)
        if kind == "record":
            file, out = details
            code = record_lines(Path(out), [item for name, item in items.items() if file_of(name) == file])
        else:
            module, text, names = details
            put_into_functions(module, text)
            code = run_items([items[name] for name in names if name in items], Lines(stops=True))
    finally:
        os._exit(code)


def put_into_functions(module: str, text: str) -> None:
    """Give the functions of a module the code that they have in another text."""
    importlib.import_module(name_of(module))
    gc.unfreeze()
    codes = {
        (code.co_qualname, code.co_firstlineno): code
        for code in _codes(compile(text, module, "exec", dont_inherit=True))
    }
    file, changed = str(Path.cwd() / module), 0
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == file:
            code = codes.get((each.__code__.co_qualname, each.__code__.co_firstlineno))
            if code is not None and code != each.__code__:
                each.__code__ = code.replace(co_filename=file)
                changed += 1
    assert changed, f"no function of {module} changed"


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
