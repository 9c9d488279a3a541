"""Listeners hear of what happens, and nothing that they do ends the work."""

from __future__ import annotations

import logging
from pathlib import Path

import made_up_runs
import pytest

from recompact.engine.config import VerifyConfig
from recompact.engine.store.records import EpisodeRecorded
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import VerdictsRecorded, write_verdicts
from recompact.values.events import emit, on


class Rang:
    pass


def test_a_listener_that_fails_is_logged_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[object] = []

    def fail(event: Rang) -> None:
        raise ZeroDivisionError("no bell")

    ends = [on(Rang, fail), on(Rang, heard.append), on(str, heard.append)]
    event = Rang()
    with caplog.at_level(logging.WARNING, "recompact"):
        emit(event)
    for end in ends:
        end()
        end()  # a second time does nothing
    emit(Rang())
    assert heard == [event]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "ZeroDivisionError: no bell" in caplog.text


def test_what_ctrl_c_raises_is_not_kept(tmp_path: Path) -> None:
    def stop(event: Rang) -> None:
        raise KeyboardInterrupt

    end = on(Rang, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            emit(Rang())
    finally:
        end()


def test_records_are_told_of_once_they_are_in_the_file(tmp_path: Path) -> None:
    heard: list[tuple[str, str, str, bool]] = []
    judged: list[int] = []

    def take(event: EpisodeRecorded) -> None:
        heard.append((event.unit, event.phase, event.arm, event.unit in finished(event.store)))

    def finished(store: Store) -> set[str]:
        return {*store.finished("trajectory"), *store.finished("continuation")}

    ends = [on(EpisodeRecorded, take), on(VerdictsRecorded, lambda event: judged.append(len(event.verdicts)))]
    try:
        with Store.open(tmp_path / "run.db") as store:
            made_up_runs.begin(store, verified=VerifyConfig())
            made_up_runs.collect(store, "a")
            name = made_up_runs.draw(store, "a", 1, "PRE", 0)
            write_verdicts(store, b"s", b"r", ())
    finally:
        for end in ends:
            end()
    assert heard == [("collect/a", "collect", "", True), (name, "continue", "PRE", True)]
    assert judged == [0]
