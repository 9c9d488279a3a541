"""The bar: what it counts, and what it says in a log."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from recompact.cli import progress
from recompact.cli.progress import Bar, open_bar, waiting
from recompact.models.endpoint import Price
from recompact.models.limits import Spending
from recompact.values.chat import Usage
from recompact.values.progress import SILENT, Progress


class Log:
    """A bar as it is where there is no terminal."""

    def __init__(self, floor: int = 0) -> None:
        self._out = io.StringIO()
        self.spending = Spending()
        self.bar: Progress = Bar("", self.spending, None, Console(file=self._out, width=200), floor)

    @property
    def lines(self) -> list[str]:
        return self._out.getvalue().splitlines()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line at every move."""
    monkeypatch.setattr(progress, "EVERY", -1.0)


@pytest.mark.usefixtures("impatient")
def test_a_log_tells_the_stage_its_units_and_what_was_spent() -> None:
    log = Log()
    log.bar.stage("collect", 3, 1)
    log.bar.done()
    log.spending.add(Usage(1000, 500, 0, 0, 1), Price(1000.0, 0.0))
    log.bar.step()
    log.bar.stage("verify")
    log.bar.done()
    assert log.lines == [
        "collect: 2 of 3",
        "collect: 2 of 3, 1 step, 1,500 tokens, 1.00 spent",
        "verify: 1 done, 1 step, 1,500 tokens, 1.00 spent",
    ]


@pytest.mark.usefixtures("impatient")
def test_hosts_on_other_machines_are_shown() -> None:
    out = io.StringIO()
    bar = Bar("", Spending(), None, Console(file=out, width=200), hosts=lambda: "hosts: a 3, b 2")
    bar.stage("collect", 3)
    bar.step()
    assert out.getvalue() == "collect: 0 of 3, 1 step, hosts: a 3, b 2\n"


@pytest.mark.usefixtures("impatient")
def test_each_line_of_a_log_is_one_line_and_has_no_markup() -> None:
    out = io.StringIO()
    title = f"evaluate: [red]{'x' * 100}"
    bar = Bar("", Spending(), None, Console(file=out, width=80))
    bar.stage(title, 3)
    bar.step()
    assert out.getvalue() == f"{title}: 0 of 3, 1 step\n"


@pytest.mark.usefixtures("impatient")
def test_a_forecast_stands_in_for_what_is_not_due_yet() -> None:
    log = Log(floor=10)
    log.bar.stage("verify", None, 2)
    log.bar.expect(6)
    log.bar.done()
    log.bar.expect(14)
    log.bar.done()
    log.bar.expect(4)  # all that is due is done: then the forecast was too high
    log.bar.step()
    assert [line.partition(",")[0] for line in log.lines] == ["verify: 3 of 10", "verify: 4 of 14", "verify: 4 of 4"]


def test_lines_are_seldom_and_a_quiet_bar_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log()
    log.bar.stage("collect", 100)
    for _ in range(100):
        log.bar.done()
    assert log.lines == []
    with open_bar("collect", Spending(), quiet=True) as bar:
        bar.stage("collect", 1)
        bar.done()
    assert capsys.readouterr().err == ""


def test_a_quiet_bar_still_says_what_cannot_wait(capsys: pytest.CaptureFixture[str]) -> None:
    spending = Spending()
    with open_bar("collect", spending, quiet=True, warn=1.0) as bar:
        bar.note("m waits 60 s")
        bar.stage("collect", 100)
        for _ in range(5):
            spending.add(Usage(input=100_000), Price(input=1.0))
            bar.done()
    said = capsys.readouterr()
    assert said.out == ""
    waits, warns = said.err.splitlines()
    assert waits == "m waits 60 s"
    assert "about 10.00" in warns


@pytest.mark.usefixtures("impatient")
def test_a_quiet_bar_has_no_lines_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with open_bar("collect", Spending(), quiet=True) as bar:
        bar.stage("collect", 1)
        bar.step()
        bar.done()
    assert capsys.readouterr().err == ""


def test_silence_is_a_progress_too() -> None:
    nobody: Progress = SILENT
    nobody.stage("collect", 3)
    nobody.expect(4)
    nobody.step()
    nobody.done()


def test_a_log_shows_that_work_goes_on_while_nothing_is_finished(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.02)
    with open_bar("verify", Spending()) as bar:
        bar.stage("reading the boundaries", 80_000)
        time.sleep(0.2)
    with waiting("reading and drawing"):
        time.sleep(0.2)
    with waiting("nobody hears this", quiet=True):
        time.sleep(0.1)
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("verify: reading the boundaries: 0 of 80000") > 2
    assert lines.count("reading and drawing: 0 s") > 2
    assert not any("nobody" in line for line in lines)


def test_a_forecast_above_the_given_spend_is_said_once_and_not_before_it_can_be_known() -> None:
    out = io.StringIO()
    spending = Spending(money=1.0)
    bar = Bar("", spending, None, Console(file=out, width=300), warn=10.0)
    bar.stage("collect", 103, 3)
    for unit in range(1, 6):
        spending.add(Usage(input=100_000), Price(input=1.0))  # 0.10 a unit: 11.00 in all
        bar.done()
        assert ("about 11.00" in out.getvalue()) == (unit >= 3)
    assert out.getvalue().count("[ceiling] warn") == 1
    calm = Bar("", Spending(), None, Console(file=out, width=300), warn=10.0)
    calm.stage("collect", 10)
    for _ in range(10):
        calm.done()
    assert out.getvalue().count("[ceiling] warn") == 1


@pytest.mark.usefixtures("impatient")
def test_a_line_says_what_it_is_all_for_and_how_long_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    out = io.StringIO()
    bar = Bar("adapt, pair, scope history", Spending(), None, Console(file=out, width=300))
    bar.stage("collect", 100)
    for _ in range(4):
        clock[0] += 30.0
        bar.done()
    bar.stage("adapt, pair, scope history", 3)
    bar.done()
    *early, known, same = out.getvalue().splitlines()
    assert not any("left" in line for line in early[:2])
    assert known == "adapt, pair, scope history: collect: 4 of 100, about 48 min left"
    assert same == "adapt, pair, scope history: 1 of 3"
