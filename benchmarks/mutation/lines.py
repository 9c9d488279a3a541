"""Which test runs which line: collected tests are run one by one, with coverage or without."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from mutation.witnesses import SOURCE, digest

RECORDED = 12.0  # seconds of tests per file; the others in it are not asked


class Lines:
    """A pytest plugin: the lines that each test runs, if anything measures them, its seconds, and what failed."""

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
        lines[inside(tree, name)] = {
            line: [numbers.setdefault(context, len(numbers)) for context in contexts if context]
            for line, contexts in data.contexts_by_lineno(name).items()
        }
    passed = {test: seconds for test, seconds in plugin.seconds.items() if test not in plugin.failed}
    known = {module: digest(tree / module) for module in lines}
    unfinished = out.with_suffix(".part")
    unfinished.write_text(json.dumps({"contexts": list(numbers), "lines": lines, "seconds": passed, "modules": known}))
    unfinished.rename(out)
    return 0


def inside(tree: Path, file: str) -> str:
    return Path(file).relative_to(tree).as_posix()
