"""The tests that a mutant meets: those that run its line, quick files first, as many as can be afforded."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

from mutation.changes import Mutant, in_function
from mutation.processes import WarmTests
from mutation.witnesses import CACHE, digest, file_of, files_of_tests, is_own, name_of

ALWAYS = ("tests/values/test_values.py",)  # about all modules
MOST = 12.0  # seconds of tests that a mutant meets in its own package, and again in the others
LONGEST = 6.0  # seconds of a test that may be asked; longer ones are about kills and load
OWN = "its own tests"
WIDER = "the tests of others"


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

        What a fixture ran concerns all tests in its file, and what an import ran concerns all that use the module.
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
            # Of a module that has changed since, all that is known is that the tests use it.
            same = (tree / module).exists() and digest(tree / module) == record["modules"][module]
            for line, contexts in own.items():
                tests = [record["contexts"][each] for each in contexts]
                self._lines[module, 0].update(tests)
                if same:
                    self._lines[module, int(line)].update(tests)


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


def examples_in(module: str, tree: Path) -> list[str]:
    """The test that runs the examples in the docstrings of a module, if it has any."""
    if ">>> " not in (tree / module).read_text():
        return []
    return [f"tests/test_docs.py::test_examples_in_docstrings[{name_of(module)}]"]
