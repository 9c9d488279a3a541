from __future__ import annotations

import asyncio
import gc
import inspect
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import examples  # noqa: F401  registers the profiles
import pytest
from hypothesis import settings
from needs import skip_unmet, summary

from recompact.environments.own_directory import empty_directory
from recompact.values import events

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Jobs that a script puts into the background ignore Ctrl-C, and so would every process that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests on an event loop of their own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**wanted))
    return True


@pytest.fixture(autouse=True)
def _no_listeners_left() -> Iterator[None]:
    """A tracker that a command starts lives as long as its process, which several tests share."""
    yield
    events._listeners.clear()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory that is emptied whatever happens: what is too deep would hold up whoever removes it later."""
    yield tmp_path
    empty_directory(tmp_path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_unmet(items)


def pytest_collection_finish() -> None:
    """What was collected stays to the end, so the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not exercised, and what would bring it."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", ())]
    reasons = [longrepr[2].removeprefix("Skipped: ") for longrepr in skipped if isinstance(longrepr, tuple)]
    for line in summary(reasons):
        terminalreporter.write_line(line, yellow=True)
