"""The share of cached input: by phase and for later draws, and an unknown share is not a share of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import numbers_in

from recompact.attribution.cached_input import cache_sentence, cache_text, cached_input
from recompact.engine.store.store import Store
from recompact.models.journal import JournaledReply
from recompact.values.chat import Reply, Usage, assistant

CALLS = (  # unit, input, cached (None: not reported)
    ("collect/a", 100, 10),
    ("continue/a/1/PRE/0", 200, 0),
    ("continue/a/1/PRE/1", 200, 150),
    ("continue/a/1/PRE/1#aside/9", 50, 50),
    ("continue/a/1/PRE/10", 200, 160),
    ("continue/a/1/POST/1", 100, 20),  # number 0 was read off the trajectory: this one is the first that was made
    ("continue/a/1/POST/2", 100, None),
    ("control/b/c/2/PRE/0", 100, 0),
    ("control/b/c/2/PRE/1", 100, 90),
)


def journaled(path: Path, calls: tuple[tuple[str, int, int | None], ...] = CALLS) -> Path:
    with Store.open(path) as store:
        for ordinal, (unit, sent, cached) in enumerate(calls):
            usage = Usage(sent, 1, cached or 0, 0, 1, 0, 0 if cached is None else sent)
            store.journal(
                JournaledReply(unit, ordinal, "agent", "local", "00" * 32, Reply(assistant("yes"), usage), 0.1)
            )
    return path


def test_shares_by_phase_and_for_the_draws_after_the_first(tmp_path: Path) -> None:
    with Store.read(journaled(tmp_path / "run.db")) as store:
        cache = cached_input(store)
    assert cache.phase("continue") == Usage(850, 6, 380, 0, 6, 0, 750)
    assert cache.first_draws == Usage(400, 3, 20, 0, 3, 0, 400)
    assert cache.later_draws == Usage(650, 5, 450, 0, 5, 0, 550)
    figures = cache.to_json()
    assert figures["phases"]["collect"]["share"] == 0.1
    assert figures["phases"]["continue"]["roles"]["agent"] == {
        "input": 850,
        "reported": 750,
        "cached": 380,
        "share": 0.5067,
    }
    assert figures["later_draws"] == {"input": 650, "reported": 550, "cached": 450, "share": 0.8182}
    assert numbers_in(cache_sentence(cache, "continue")) == ["51", "750", "100", "82", "550", "100"]
    assert numbers_in(cache_text(cache))[:3] == ["10", "100", "51"]
    assert cache_sentence(cache, "evaluate") == ""


@pytest.mark.parametrize(
    ("cached", "share", "text"), [(None, None, "not reported"), (0, 0.0, "continuations 0 % of 9")]
)
def test_nothing_cached_and_nothing_said_are_two_things(
    tmp_path: Path, cached: int | None, share: float | None, text: str
) -> None:
    with Store.read(journaled(tmp_path / "run.db", (("continue/a/1/PRE/0", 9, cached),))) as store:
        cache = cached_input(store)
    assert cache.to_json()["phases"]["continue"]["share"] == share
    assert cache.to_json()["phases"]["continue"]["cached"] == cached
    assert text in cache_sentence(cache, "continue")
    assert cache.to_json()["later_draws"] == {"input": 0, "reported": 0, "cached": None, "share": None}


def test_calls_that_were_dropped_count_for_their_phase(tmp_path: Path) -> None:
    with Store.open(journaled(tmp_path / "run.db")) as store:
        before = cached_input(store).phases
        store.forget("continue/a/1/PRE/1", 0)
        store.forget("collect/a", 0)
        assert cached_input(store).phases == before
        assert cached_input(store).later_draws.input == 450  # what came beside the draw is there still


@pytest.mark.parametrize(
    ("phases", "text"),
    [
        (("collect",), "collection 10 % of 100 tokens"),
        (
            ("continue", "collect"),
            "continuations 51 % of 750 tokens (of 100 it is not reported); collection 10 % of 100 tokens; draws after"
            " the first of an arm 82 % of 550 tokens (of 100 it is not reported)",
        ),
        (("control", "evaluate"), "the A/A control 45 % of 200 tokens"),
        (("evaluate",), "not reported by the server"),
    ],
)
def test_the_cache_in_words_by_phase(tmp_path: Path, phases: tuple[str, ...], text: str) -> None:
    with Store.read(journaled(tmp_path / "run.db")) as store:
        cache = cached_input(store)
    assert cache_text(cache, *phases) == text
    sentence = cache_sentence(cache, *phases)
    assert sentence == ("" if phases == ("evaluate",) else f"Cached input: {text}.")


def test_a_phase_without_a_name_of_its_own_is_called_as_it_is(tmp_path: Path) -> None:
    with Store.read(journaled(tmp_path / "run.db", (("adapt/x", 10, 5), ("confirm/a/1/PRE/0", 10, None)))) as store:
        cache = cached_input(store)
    assert numbers_in(cache_text(cache)) == ["50", "10"]
    assert cache_text(cache).startswith("adapt ")
    assert cache.first_draws.input == 10
    assert cache.phase("nowhere") == Usage()
