"""Would the tests notice? A random sample of small changes to the code (mutants), each of which a test should fail on.

    make mutants                            # 150 mutants, seed 1
    make mutants SAMPLE=60 SEED=2
    python benchmarks/mutants.py --package attribution --sample 40

The operators are those of cosmic-ray. A mutant first meets the tests of its own package that run the changed line,
shortest files first, then all others that run it. Everything happens in copies of the tree in a temporary directory.
One process imports all tests and forks for each mutant, whose functions then get the changed code; what an import runs
is changed on disk, for a pytest of its own. What a test has killed stays killed while its module is the same, so that a
sample can be stopped and gone on with; survivors are tried again.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import gc
import hashlib
import importlib.util
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Lock
from types import CodeType, FunctionType
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "mutants"
EQUIVALENT = ROOT / "benchmarks" / "equivalent_mutants.toml"
SOURCE = Path("src/recompact")
PACKAGES: Mapping[str, tuple[str, ...]] = {  # the package with its own tests, as paths under tests/
    "values": ("test_*.py",),
    "compressors": ("compressors",),
    "rollout": ("test_rollout.py",),
    "attribution": ("attribution",),
    "adaptation": ("adaptation",),
    "evaluation": ("evaluation",),
}
NOT_VALUES = ("__init__", "__main__", "version", "rollout", "collection", "study", "config")
WITNESSES = ("compressors", "attribution", "adaptation", "evaluation")
"""The folders of tests that are asked, beside the files directly under tests/."""
STRAYS = ("test_neighbours.py", "test_observation_cap.py")  # about values and the rollout, but in another folder
SILENT = ("test_docs.py", "test_plugins.py", "test_resilience.py", "test_verify_resilience.py")
"""They start other processes, or run for minutes."""
ALWAYS = ("tests/test_values.py",)  # about all modules
MOST = 12.0  # seconds of tests that a mutant meets in its own package, and again in the others
LONGEST = 6.0  # seconds of a test that may be asked; longer ones are about kills and load
RECORDED = 12.0  # seconds of a file of tests; the others in it are not asked
PATIENCE = 30  # times the seconds that tests take of the processor may they take by the clock: others use the machine
OWN = "its own tests"
WIDER = "the tests of others"


NODES = {  # of the syntax tree, at which the large families of operators look
    "ReplaceBinaryOperator": ("operator",),
    "ReplaceComparisonOperator": ("comparison",),
    "ReplaceUnaryOperator": ("factor", "not_test"),
}


@dataclass(frozen=True)
class Mutant:
    module: str
    package: str
    operator: str
    occurrence: int
    line: int
    column: int

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line}:{self.column} {self.operator}"


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant. `fate` is killed, slow (it ran into the time limit), survived or equivalent."""

    mutant: Mutant
    fate: str
    by: str
    diff: str


def modules(root: Path) -> dict[str, str]:
    """The modules to mutate, each with its package."""
    paths: dict[str, str] = {}
    for path in sorted((root / SOURCE).rglob("*.py")):
        inside = path.relative_to(root / SOURCE)
        package = "values" if len(inside.parts) == 1 or inside.parts[0] == "template" else inside.parts[0]
        if inside == Path("rollout.py"):
            package = "rollout"
        elif package == "values" and inside.stem in NOT_VALUES:
            continue
        if package in PACKAGES:
            paths[path.relative_to(root).as_posix()] = package
    return paths


def mutants_of(module: str, package: str, text: str) -> Iterator[Mutant]:
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.operators.provider import OperatorProvider

    idle = idle_spans(text)
    provider = OperatorProvider()
    nodes = [node for node in ast_nodes(get_ast(text)) if node.type not in ("name", "newline", "string", "endmarker")]
    for name in provider:
        family = name.partition("_")[0]
        if family in ("VariableReplacer", "VariableInserter"):  # they want the names of variables
            continue
        types = NODES.get(family)
        near = [node for node in nodes if types is None or node.type in types]
        positions = [start for node in near for start, _ in provider[name]().mutation_positions(node)]
        for occurrence, start in enumerate(positions):
            if not any(low <= start < high for low, high in idle):
                yield Mutant(module, package, name, occurrence, *start)


def idle_spans(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Places whose change nothing can notice (annotations, caches, `strict` of zip), and stars that unpack."""
    spans = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Starred) or (isinstance(node, ast.keyword) and node.arg is None):
            spans.append(((node.lineno, node.col_offset), (node.lineno, node.col_offset + 2)))
        if isinstance(node, ast.Dict):
            unpacked = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
            spans += [((each.lineno, each.col_offset - 2), (each.lineno, each.col_offset)) for each in unpacked]
        parts: list[Any] = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts += [each for each in node.decorator_list if "cache" in ast.unparse(each)]
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
            parts += [keyword for keyword in node.keywords if keyword.arg == "strict"]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts.append(node)
        for part in filter(None, parts):
            before = 1 if "cache" in ast.unparse(part) and part.col_offset else 0  # the @ of a decorator
            spans.append(((part.lineno, part.col_offset - before), (part.end_lineno, part.end_col_offset)))
    return spans


def sampled(root: Path, size: int, seed: int, packages: Sequence[str]) -> list[Mutant]:
    """As many of each package, one for each of its places that the seed picks."""
    random = Random(seed)
    sample: list[Mutant] = []
    everything = modules(root)
    for number, package in enumerate(packages):
        places: dict[tuple[str, int, int], list[Mutant]] = defaultdict(list)
        for module in (path for path, own in everything.items() if own == package):
            for mutant in _known_mutants(root, module, package):
                places[mutant.module, mutant.line, mutant.column].append(mutant)
        share = (size + len(packages) - 1 - number) // len(packages)
        chosen = random.sample(sorted(places), min(share, len(places)))
        sample += [random.choice(places[place]) for place in chosen]
    return [mutant for mutant in sample if compiles(mutated(mutant, (root / mutant.module).read_text()))]


def _known_mutants(root: Path, module: str, package: str) -> list[Mutant]:
    """All mutants of a module; looking for them takes as long as many tests."""
    known = CACHE / f"{name_of(module)}-{digest(root / module)}.mutants.json"
    if not known.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        mutants = mutants_of(module, package, (root / module).read_text())
        known.write_text(json.dumps([[m.operator, m.occurrence, m.line, m.column] for m in mutants]))
    return [Mutant(module, package, *each) for each in json.loads(known.read_text())]


def compiles(code: str) -> bool:
    try:
        compile(code, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def mutated(mutant: Mutant, text: str) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.operators.provider import OperatorProvider

    code = mutate_code(text, OperatorProvider()[mutant.operator](), mutant.occurrence)
    assert isinstance(code, str), f"{mutant.name} changes nothing"
    return code


def difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


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


PRELOADED = ["pytest", "hypothesis", "hypothesis.strategies", "openai", "pydantic", "rich.progress", "jinja2", "click"]
"""What tests import besides Recompact: loading it anew for each mutant would take longer than most tests."""


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
    sys.exit(pytest.main(["-x", *_settled(tree), *arguments]))


def limit_processor(seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))


def _settled(tree: str) -> list[str]:
    """Settle this process in a copy of the tree, silently; the arguments that pytest gets there."""
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


# One process that has imported everything, and forks


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
        return self._asked(("record", file, str(out), PATIENCE * 60.0))

    def judge(self, mutant: Mutant, code: str, names: Sequence[str], seconds: float) -> int | None:
        """1 where one of the tests fails on the changed code, and None at the time limit."""
        return self._asked(("judge", mutant.module, code, list(names), seconds))

    def close(self) -> None:
        """End it, with whatever it is doing."""
        self._process.terminate()
        self._process.join()

    def _asked(self, request: tuple[Any, ...]) -> int | None:
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

    arguments = _settled(tree)
    # What an import runs cannot be changed afterwards, so it must be known.
    measuring = coverage.Coverage(data_file=None, include=[f"{Path(tree) / SOURCE}/*"], config_file=False)
    measuring.start()
    sys.exit(pytest.main([*arguments, *names], plugins=[_Serving(connection, measuring)]))


class _Serving:
    """A plugin of pytest that does what it is asked to, instead of running the tests."""

    def __init__(self, connection: Any, measuring: Any) -> None:
        self.connection, self.measuring = connection, measuring

    def pytest_runtestloop(self, session: Any) -> bool:
        self.measuring.stop()
        data, tree = self.measuring.get_data(), Path.cwd()
        self.connection.send({_inside(tree, name): data.lines(name) for name in data.measured_files()})
        items = {item.nodeid: item for item in session.items}
        gc.collect()
        gc.freeze()  # so that forks share their memory
        while (request := self.connection.recv()) is not None:
            self.connection.send(_forked(request, items))
        return True


def _forked(request: tuple[Any, ...], items: Mapping[str, Any]) -> int | None:
    """What a request came to in a process of its own; None where it ran out of time."""
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


def run_items(items: Sequence[Any], plugin: Lines) -> int:
    """Run collected tests in this order; 1 where one failed."""
    if items:
        items[0].config.pluginmanager.register(plugin)
    begin = time.process_time()
    for item, following in pairwise([*items, None]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if plugin.failed and plugin.stops:
            break
        if not plugin.stops and time.process_time() - begin > RECORDED:
            break
    return int(bool(plugin.failed))


# Which test runs which line


class Lines:
    """A plugin of pytest: the lines that each test runs, if anything measures them, its seconds, and what failed."""

    def __init__(self, coverage: Any = None, stops: bool = False) -> None:
        self.coverage, self.stops = coverage, stops
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        self._begin = 0.0

    def pytest_runtest_setup(self, item: Any) -> None:
        self._enter(item, "setup")

    def pytest_runtest_call(self, item: Any) -> None:
        self._enter(item, "call")

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += time.process_time() - self._begin
        self._begin = time.process_time()
        if report.failed or (report.skipped and not self.stops):
            self.failed.add(report.nodeid)

    def _enter(self, item: Any, phase: str) -> None:
        self._begin = time.process_time()
        if self.coverage is not None:
            self.coverage.switch_context(f"{item.nodeid}|{phase}")


def record_lines(out: Path, items: Sequence[Any]) -> int:
    """Run tests in this process and write which of them runs which line."""
    import coverage

    tree = Path.cwd()
    measuring = coverage.Coverage(data_file=None, include=[f"{tree / SOURCE}/*"], config_file=False)
    plugin = Lines(measuring)
    measuring.start()
    run_items(items, plugin)
    measuring.stop()
    data = measuring.get_data()
    numbers: dict[str, int] = {}
    lines: dict[str, dict[int, list[int]]] = {}
    for name in data.measured_files():
        lines[_inside(tree, name)] = {
            line: [numbers.setdefault(context, len(numbers)) for context in contexts if context]
            for line, contexts in data.contexts_by_lineno(name).items()
        }
    passed = {test: seconds for test, seconds in plugin.seconds.items() if test not in plugin.failed}
    known = {module: digest(tree / module) for module in lines}
    unfinished = out.with_suffix(".part")
    unfinished.write_text(json.dumps({"contexts": list(numbers), "lines": lines, "seconds": passed, "modules": known}))
    unfinished.rename(out)
    return 0


def _inside(tree: Path, file: str) -> str:
    return Path(file).relative_to(tree).as_posix()


class Selection:
    """Which tests run a line, and how long they take. Line 0 of a module stands for all of it.

    Files of tests are recorded when they are first asked for.
    """

    def __init__(self, warm: WarmTests) -> None:
        self._warm = warm
        self._lines: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._files: set[str] = set()
        self._lock = Lock()
        self.seconds: dict[str, float] = {}

    def of(self, mutant: Mutant, by: str) -> list[str]:
        """The package's own tests or the others, by file, so that its fixtures are made once, and quick files first.

        What a fixture ran is the concern of all tests in its file, and what an import ran of all that use the module.
        """
        tree = self._warm.tree
        for path in files_of_tests(tree):
            name = path.relative_to(tree).as_posix()
            with self._lock:
                if is_own(mutant.package, name) == (by == OWN) and name not in self._files:
                    self._learn(path, name)
        names: set[str] = set()
        files: set[str] = set(ALWAYS)
        line = mutant.line if in_function(mutant, tree) else 0
        for context in self._lines.get((mutant.module, line)) or self._lines.get((mutant.module, 0), set()):
            test, _, phase = context.rpartition("|")
            names.add(test)
            if phase == "setup":
                files.add(file_of(test))
        names |= {test for test in self.seconds if file_of(test) in files}
        chosen = sorted(
            (test for test in names if self.seconds.get(test, LONGEST) < LONGEST), key=self.seconds.__getitem__
        )
        chosen = [test for test in chosen if is_own(mutant.package, test) == (by == OWN)]
        examples = examples_in(mutant.module, tree) if by == OWN else []
        return self._by_file(affordable([*examples, *chosen], self.seconds))

    def _by_file(self, tests: Sequence[str]) -> list[str]:
        sums: dict[str, float] = defaultdict(float)
        for test in tests:
            sums[file_of(test)] += self.seconds.get(test, 1.0)
        return sorted(tests, key=lambda test: (sums[file_of(test)], file_of(test)))

    def _learn(self, path: Path, name: str) -> None:
        """From the record of a file of tests; a file that changed is recorded again."""
        tree = self._warm.tree
        out = CACHE / f"{name.replace('/', '-')}-{digest(path)}.json"
        if not out.exists():
            print(f"recording what {name} runs", flush=True)
            if self._warm.record(name, out) != 0:
                sys.exit(f"pytest could not run {name}")
        self._files.add(name)
        record = json.loads(out.read_text())
        self.seconds |= record["seconds"]
        for module, own in record["lines"].items():
            # Of a module that changed since, only that the tests use it is known.
            same = (tree / module).exists() and digest(tree / module) == record["modules"][module]
            for line, contexts in own.items():
                tests = [record["contexts"][each] for each in contexts]
                self._lines[module, 0].update(tests)
                if same:
                    self._lines[module, int(line)].update(tests)


def in_function(mutant: Mutant, tree: Path) -> bool:
    """Whether a mutant changes the body of a function."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse((tree / mutant.module).read_text())) if isinstance(node, functions)]
    return any(node.body[0].lineno <= mutant.line <= (node.end_lineno or 0) for node in nodes)


def examples_in(module: str, tree: Path) -> list[str]:
    """The test that runs the examples in the docstrings of a module, if it has any."""
    if ">>> " not in (tree / module).read_text():
        return []
    return [f"tests/test_docs.py::test_examples_in_docstrings[{name_of(module)}]"]


def name_of(module: str) -> str:
    return module.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def file_of(test: str) -> str:
    return test.partition("::")[0]


def is_own(package: str, test: str) -> bool:
    path = Path(file_of(test)).relative_to("tests")
    if len(path.parts) == 1:
        return any(path.match(pattern) for pattern in PACKAGES[package])
    return path.parts[0] in PACKAGES[package]


def files_of_tests(tree: Path) -> list[Path]:
    return [path for path in sorted((tree / "tests").rglob("test_*.py")) if _has_a_say(path.relative_to(tree).parts)]


def _has_a_say(parts: Sequence[str]) -> bool:
    return parts[-1] not in SILENT and (len(parts) == 2 or parts[1] in WITNESSES or parts[-1] in STRAYS)


@cache
def digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


# What becomes of a mutant


@cache
def equivalents() -> dict[tuple[str, str], str]:
    """Mutants that no test can tell from the original, with a word each, by module and difference."""
    if not EQUIVALENT.exists():
        return {}
    entries = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return {(entry["module"], _plain(entry["diff"])): entry["why"] for entry in entries}


def _plain(diff: str) -> str:
    """Without blanks, and without the order of lines."""
    return "\n".join(sorted("".join(line.split()) for line in diff.splitlines() if line.strip()))


def judge(mutant: Mutant, warm: WarmTests, tests: Selection) -> Verdict:
    file = warm.tree / mutant.module
    text = file.read_text()
    code = mutated(mutant, text)
    diff = difference(text, code)
    if why := equivalents().get((mutant.module, _plain(diff))):
        return Verdict(mutant, "equivalent", why, diff)
    some = False
    for by in (OWN, WIDER):
        if not (names := tests.of(mutant, by)):
            continue
        some = True
        seconds = 20 + 4 * sum(tests.seconds.get(name, 1.0) for name in names)
        exit_code = _exit_code(mutant, code, warm, names, seconds)
        if exit_code != 0:
            return Verdict(mutant, "slow" if exit_code is None else "killed", by, diff)
    return Verdict(mutant, "survived", "" if some else "no test runs it", diff)


NOT_PUT = 3  # the exit code where functions could not be changed


def _exit_code(mutant: Mutant, code: str, warm: WarmTests, names: Sequence[str], seconds: float) -> int | None:
    """What the tests come to on a mutant: 0 where all pass, None at the time limit."""
    file = warm.tree / mutant.module
    text = file.read_text()
    compiled = Path(importlib.util.cache_from_source(str(file)))  # is known by the second, which is too long here
    compiled.unlink(missing_ok=True)
    (warm.tree / "chosen-tests").write_text("\n".join(names))
    try:
        file.write_text(code)  # also for the processes that tests start
        if in_function(mutant, warm.tree) and mutant.line not in warm.imported.get(mutant.module, ()):
            exit_code = warm.judge(mutant, code, names, seconds)
            if exit_code != NOT_PUT:
                return exit_code
        return pytest_in(warm.tree, ["@chosen-tests"], seconds)
    finally:
        file.write_text(text)
        compiled.unlink(missing_ok=True)


def affordable(names: Sequence[str], seconds: Mapping[str, float]) -> list[str]:
    """As many of the shortest tests as fit into `MOST` seconds: a line that everything runs has hundreds of them."""
    chosen: list[str] = []
    total = 0.0
    for name in names:
        total += seconds.get(name, 1.0)
        if total > MOST:
            break
        chosen.append(name)
    return chosen


def verdicts(sample: Sequence[Mutant], workers: int) -> list[Verdict]:
    CACHE.mkdir(parents=True, exist_ok=True)
    known = CACHE / "killed.jsonl"
    killed = {tuple(key): verdict for key, verdict in map(json.loads, _lines(known))}
    done: dict[Mutant, Verdict] = {}
    for mutant in sample:
        if record := killed.get(_key(mutant)):
            done[mutant] = Verdict(mutant, *record)
    waiting = [mutant for mutant in sample if mutant not in done]
    Random(len(sample)).shuffle(waiting)  # so that those that were judged are a sample too, wherever it is stopped
    print(f"{len(sample)} mutants, {len(done)} of them killed before", flush=True)
    if not waiting:
        return [done[mutant] for mutant in sample]
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copies = [WarmTests(copy_of_tree(Path(scratch) / str(number))) for number in range(workers)]
        idle: SimpleQueue[WarmTests] = SimpleQueue()
        tests = Selection(copies[0])
        for warm in copies:
            idle.put(warm)

        def work(mutant: Mutant) -> Verdict:
            warm, begin = idle.get(), time.monotonic()
            try:
                verdict = judge(mutant, warm, tests)
            finally:
                idle.put(warm)
            print(f"{verdict.fate:10} {time.monotonic() - begin:5.1f} s  {mutant.name}", flush=True)
            if verdict.fate == "survived":
                print(verdict.diff, flush=True)
            return verdict

        pool = ThreadPoolExecutor(workers)
        try:
            with known.open("a") as out:
                for future in as_completed([pool.submit(work, mutant) for mutant in waiting]):
                    verdict = future.result()
                    done[verdict.mutant] = verdict
                    if verdict.fate in ("killed", "slow"):
                        out.write(json.dumps([_key(verdict.mutant), [verdict.fate, verdict.by, verdict.diff]]) + "\n")
                        out.flush()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for warm in copies:
                warm.close()
    return [done[mutant] for mutant in sample]


def _key(mutant: Mutant) -> tuple[str, ...]:
    return (mutant.module, digest(ROOT / mutant.module), mutant.operator, str(mutant.occurrence))


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


# What is printed


def table(everything: Sequence[Verdict]) -> list[dict[str, Any]]:
    rows = []
    for package in [*dict.fromkeys(verdict.mutant.package for verdict in everything), "all"]:
        own = [verdict for verdict in everything if package in (verdict.mutant.package, "all")]
        killed = [verdict for verdict in own if verdict.fate in ("killed", "slow")]
        survived = sum(verdict.fate == "survived" for verdict in own)
        counted = len(killed) + survived
        rows.append(
            {
                "package": package,
                "mutants": len(own),
                "killed": len(killed),
                "by its own tests": sum(verdict.by == OWN for verdict in killed),
                "by time": sum(verdict.fate == "slow" for verdict in killed),
                "survived": survived,
                "equivalent": len(own) - counted,
                "share killed": len(killed) / counted if counted else 1.0,
            }
        )
    return rows


def show(everything: Sequence[Verdict]) -> None:
    rows = table(everything)
    columns = list(rows[0])
    print("  ".join(f"{name:>{max(len(name), 11)}}" for name in columns))
    for row in rows:
        cells = [f"{row[name]:.1%}" if isinstance(row[name], float) else str(row[name]) for name in columns]
        print("  ".join(f"{cell:>{max(len(name), 11)}}" for name, cell in zip(columns, cells, strict=True)))
    for fate in ("survived", "equivalent"):
        for verdict in everything:
            if verdict.fate == fate:
                print(f"\n{fate}: {verdict.mutant.name}{verdict.by and f' ({verdict.by})'}\n{verdict.diff}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=150, help="how many mutants, the same number for each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", choices=list(PACKAGES), action="append", help="only this one; can be repeated")
    parser.add_argument("--workers", type=int, default=1, help="copies of the tree that are worked in at once")
    parser.add_argument("--at-least", type=float, default=0.9, help="exit code 1 if a smaller share is killed")
    parser.add_argument("--list", action="store_true", help="only show the sample")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copies are removed
    sample = sampled(ROOT, options.sample, options.seed, options.package or list(PACKAGES))
    if options.list:
        for mutant in sample:
            text = (ROOT / mutant.module).read_text()
            print(f"{mutant.name}\n{difference(text, mutated(mutant, text))}\n")
        return
    everything = verdicts(sample, options.workers)
    if options.json:
        print(json.dumps({"table": table(everything), "mutants": [asdict(verdict) for verdict in everything]}))
    else:
        show(everything)
    sys.exit(table(everything)[-1]["share killed"] < options.at_least)


if __name__ == "__main__":
    main()
