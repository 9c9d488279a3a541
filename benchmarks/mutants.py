"""Would the tests notice? A random sample of small changes to the code (mutants), each of which a test should fail on.

    make mutants                            # 150 mutants, seed 1
    make mutants SAMPLE=60 SEED=2
    python benchmarks/mutants.py --package attribution --sample 40

The operators are those of cosmic-ray. A mutant first meets the tests of its own package that run the changed line,
shortest first, then all others that run it. Everything happens in copies of the tree in a temporary directory. What a
test has killed stays killed while its module is the same, so that a sample can be stopped and gone on with; survivors
are tried again.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

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
MOST = 40.0  # seconds of tests that a mutant meets in its own package, and again in the others
LONGEST = 20.0  # seconds of a test that may be asked; longer ones are about kills and load
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
            for mutant in mutants_of(module, package, (root / module).read_text()):
                places[mutant.module, mutant.line, mutant.column].append(mutant)
        share = (size + len(packages) - 1 - number) // len(packages)
        chosen = random.sample(sorted(places), min(share, len(places)))
        sample += [random.choice(places[place]) for place in chosen]
    return [mutant for mutant in sample if compiles(mutated(mutant, (root / mutant.module).read_text()))]


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
    """The tree without what git ignores. Compiled files are checked by hash, since mutants come within a second."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, place / name)
    compiling = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src"]
    subprocess.run([sys.executable, *compiling], cwd=place, check=True)
    return place


PRELOADED = ["pytest", "hypothesis", "hypothesis.strategies", "openai", "pydantic", "rich.progress", "jinja2", "click"]
"""What tests import besides Recompact: loading it anew for each mutant would take longer than most tests."""


def pytest_in(
    tree: Path, arguments: Sequence[str], limit: float | None = None, record: Path | None = None
) -> int | None:
    """The exit code of pytest in a process of its own, or None at the time limit."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(PRELOADED)
    process = forks.Process(target=_run_pytest, args=(str(tree), list(arguments), record and str(record)))
    process.start()
    process.join(limit)
    code = process.exitcode
    if code is None and process.pid is not None:
        os.killpg(process.pid, signal.SIGKILL)  # with whatever the tests have started
        process.join()
    return code


def _run_pytest(tree: str, arguments: Sequence[str], record: str | None) -> None:
    import hypothesis
    import pytest

    os.setsid()
    os.chdir(tree)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
    hypothesis.settings.load_profile("patient")
    sys.dont_write_bytecode = False  # pytest compiles tests anew for each mutant otherwise
    os.environ["PYTHONPATH"] = os.pathsep.join([f"{tree}/src", f"{tree}/benchmarks"])
    sys.path[:0] = [f"{tree}/src", f"{tree}/benchmarks", tree]
    every = ["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *arguments]
    sys.exit(record_lines(Path(record), every) if record else pytest.main(["-x", *every]))


# Which test runs which line


class Lines:
    """A plugin of pytest: the lines that each test runs, with its seconds."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    def pytest_runtest_setup(self, item: Any) -> None:
        self.coverage.switch_context(f"{item.nodeid}|setup")

    def pytest_runtest_call(self, item: Any) -> None:
        self.coverage.switch_context(f"{item.nodeid}|call")

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.outcome != "passed":
            self.failed.add(report.nodeid)


def record_lines(out: Path, arguments: Sequence[str]) -> int:
    """Run pytest in this process and write which test runs which line."""
    import coverage
    import pytest

    tree = Path.cwd()
    measuring = coverage.Coverage(data_file=None, include=[f"{tree / SOURCE}/*"], config_file=False)
    plugin = Lines(measuring)
    measuring.start()
    code = pytest.main(list(arguments), plugins=[plugin])
    measuring.stop()
    data = measuring.get_data()
    numbers: dict[str, int] = {}
    lines: dict[str, dict[int, list[int]]] = {}
    for name in data.measured_files():
        lines[Path(name).relative_to(tree).as_posix()] = {
            line: [numbers.setdefault(context, len(numbers)) for context in contexts if context]
            for line, contexts in data.contexts_by_lineno(name).items()
        }
    passed = {test: seconds for test, seconds in plugin.seconds.items() if test not in plugin.failed}
    known = {module: digest(tree / module) for module in lines}
    out.write_text(json.dumps({"contexts": list(numbers), "lines": lines, "seconds": passed, "modules": known}))
    return 0 if code in (0, 1, 5) else int(code)


@dataclass(frozen=True)
class Selection:
    """Which tests run a line, and how long they take. Line 0 of a module stands for all of it."""

    lines: Mapping[tuple[str, int], Collection[str]]
    seconds: Mapping[str, float]

    def of(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """The package's own tests and the others, shortest first.

        What a fixture ran is the concern of all tests in its file, and what an import ran of all that use the module.
        """
        names: set[str] = set()
        files: set[str] = set(ALWAYS)
        line = mutant.line if in_function(mutant) else 0
        for context in self.lines.get((mutant.module, line)) or self.lines.get((mutant.module, 0), ()):
            test, _, phase = context.rpartition("|")
            names.add(test)
            if phase == "setup":
                files.add(file_of(test))
        names |= {test for test in self.seconds if file_of(test) in files}
        tests = sorted(
            (test for test in names if self.seconds.get(test, LONGEST) < LONGEST), key=lambda test: self.seconds[test]
        )
        own = examples_in(mutant.module) + [test for test in tests if is_own(mutant.package, test)]
        return own, [test for test in tests if test not in set(own)]


def in_function(mutant: Mutant) -> bool:
    """Whether a mutant changes the body of a function, and not what an import runs."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse((ROOT / mutant.module).read_text())) if isinstance(node, functions)]
    return any(node.body[0].lineno <= mutant.line <= (node.end_lineno or 0) for node in nodes)


def examples_in(module: str) -> list[str]:
    """The test that runs the examples in the docstrings of a module, if it has any."""
    if ">>> " not in (ROOT / module).read_text():
        return []
    name = module.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return [f"tests/test_docs.py::test_examples_in_docstrings[{name}]"]


def file_of(test: str) -> str:
    return test.partition("::")[0]


def is_own(package: str, test: str) -> bool:
    path = Path(file_of(test)).relative_to("tests")
    if len(path.parts) == 1:
        return any(path.match(pattern) for pattern in PACKAGES[package])
    return path.parts[0] in PACKAGES[package]


def selection(tree: Path) -> Selection:
    """From a record of each file of tests; a file that changed is recorded again."""
    lines: dict[tuple[str, int], set[str]] = defaultdict(set)
    seconds: dict[str, float] = {}
    files = [path for path in sorted((tree / "tests").rglob("test_*.py")) if _has_a_say(path.relative_to(tree).parts)]
    for number, path in enumerate(files, 1):
        name = path.relative_to(tree).as_posix()
        out = CACHE / f"{name.replace('/', '-')}-{digest(path)}.json"
        if not out.exists():
            print(f"recording what {name} runs ({number} of {len(files)})", flush=True)
            if code := pytest_in(tree, [name], record=out):
                sys.exit(f"pytest could not run {name} (exit code {code})")
        record = json.loads(out.read_text())
        seconds |= record["seconds"]
        for module, own in record["lines"].items():
            # Of a module that changed since, only that the tests use it is known.
            same = (tree / module).exists() and digest(tree / module) == record["modules"][module]
            for line, contexts in own.items():
                tests = [record["contexts"][each] for each in contexts]
                lines[module, 0].update(tests)
                if same:
                    lines[module, int(line)].update(tests)
    return Selection(lines, seconds)


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


def judge(mutant: Mutant, tree: Path, tests: Selection) -> Verdict:
    file = tree / mutant.module
    text = file.read_text()
    code = mutated(mutant, text)
    diff = difference(text, code)
    if why := equivalents().get((mutant.module, _plain(diff))):
        return Verdict(mutant, "equivalent", why, diff)
    try:
        file.write_text(code)
        return _judged(mutant, tree, tests, diff)
    finally:
        file.write_text(text)


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


def _judged(mutant: Mutant, tree: Path, tests: Selection, diff: str) -> Verdict:
    chosen = tree / "chosen-tests"
    for by, names in zip((OWN, WIDER), tests.of(mutant), strict=True):
        names = affordable(names, tests.seconds)
        if not names:
            continue
        chosen.write_text("\n".join(names))
        limit = 60 + 6 * sum(tests.seconds.get(name, 1.0) for name in names)
        code = pytest_in(tree, [f"@{chosen.name}"], limit)
        if code != 0:
            return Verdict(mutant, "slow" if code is None else "killed", by, diff)
    return Verdict(mutant, "survived", "" if any(tests.of(mutant)) else "no test runs it", diff)


def verdicts(sample: Sequence[Mutant], workers: int) -> list[Verdict]:
    CACHE.mkdir(parents=True, exist_ok=True)
    known = CACHE / "killed.jsonl"
    killed = {tuple(key): verdict for key, verdict in map(json.loads, _lines(known))}
    done: dict[Mutant, Verdict] = {}
    for mutant in sample:
        if record := killed.get(_key(mutant)):
            done[mutant] = Verdict(mutant, *record)
    waiting = [mutant for mutant in sample if mutant not in done]
    print(f"{len(sample)} mutants, {len(done)} of them killed before", flush=True)
    if not waiting:
        return [done[mutant] for mutant in sample]
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            trees.put(copy_of_tree(Path(scratch) / str(number)))
        first = Path(scratch) / "0"
        tests = selection(first)

        def work(mutant: Mutant) -> Verdict:
            tree, begin = trees.get(), time.monotonic()
            try:
                verdict = judge(mutant, tree, tests)
            finally:
                trees.put(tree)
            print(f"{verdict.fate:10} {time.monotonic() - begin:5.1f} s  {mutant.name}", flush=True)
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
            pool.shutdown(cancel_futures=True)
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
