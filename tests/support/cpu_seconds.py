"""CPU seconds of every test and of what it set up, its processes included: `pytest -n 0 -p cpu_seconds`.

Wall time says little on a machine that does something else. The slowest are printed, and all are written to the file
that RECOMPACT_CPU_SECONDS names.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

_SHOWN = 60

_seconds: dict[tuple[str, str], float] = defaultdict(float)


def _now() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _measured(test: str, phase: str) -> Iterator[None]:
    before = _now()
    try:
        return (yield)
    finally:
        _seconds[test, phase] += _now() - before


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    return (yield from _measured("", "collection"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    return (yield from _measured(item.nodeid, "setup"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    return (yield from _measured(item.nodeid, "call"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    return (yield from _measured(item.nodeid, "teardown"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ordered = sorted(_seconds.items(), key=lambda entry: -entry[1])
    lines = [f"{seconds:8.2f} {phase:10} {test}" for (test, phase), seconds in ordered]
    terminalreporter.section(f"CPU seconds: {sum(_seconds.values()):.0f} measured, {_now():.0f} in all")
    terminalreporter.write_line("\n".join(lines[:_SHOWN]))
    if place := os.environ.get("RECOMPACT_CPU_SECONDS"):
        Path(place).write_text("\n".join(lines) + "\n", encoding="utf-8")
