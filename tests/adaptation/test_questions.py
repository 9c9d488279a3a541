"""Questions to the optimizer are answered once; what came to nothing is asked again under new names, and only then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from method_support import method_inputs
from sentences import numbers_in

from recompact.adaptation.method import MethodInputs, answers, draw_candidates, without_usable
from recompact.adaptation.optimizer import Optimizer, optimizer_of
from recompact.engine.config import AdaptConfig, OptimizerConfig
from recompact.engine.execution.scheduler import Unit
from recompact.engine.study import Study
from recompact.values.candidate import Candidate, Clause
from recompact.values.template import default_template


@dataclass
class Memory:
    """A store that remembers results by kind and unit."""

    units: dict[str, dict[str, Any]] = field(default_factory=dict)

    def finished(self, kind: str) -> set[str]:
        return set(self.units.get(kind, ()))

    def result(self, unit: str) -> Any:
        return next(own[unit] for own in self.units.values() if unit in own)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield

    def finish(self, unit: str, kind: str, text: str, seconds: float) -> None:
        self.units.setdefault(kind, {})[unit] = json.loads(text)


def inputs_with(store: Memory, candidates: int = 2) -> tuple[MethodInputs, list[str]]:
    """Inputs that play units one by one, and the names of those that were played."""
    played: list[str] = []

    async def complete(stage: str, kind: str, units: Sequence[Unit[Any]]) -> None:
        for unit in units:
            if unit.name not in store.finished(kind):
                played.append(unit.name)
                calls = SimpleNamespace(bound=lambda model, role: (model, role))
                unit.record(await unit.play(cast(Any, calls)), 1.0)

    settings = AdaptConfig(redraws=7, candidates=candidates)
    config = SimpleNamespace(
        optimizer=OptimizerConfig(max_output_tokens=77, temperature=0.5), optimizer_model="sol", adapt=settings
    )
    study = cast(Study, SimpleNamespace(config=config, models={"sol": "SOL"}))
    given = {"records": store, "complete": complete, "settings": settings}
    return method_inputs(**given, optimizer=lambda calls: optimizer_of(study, calls)), played


def asked(
    records: Mapping[str, int], say: Callable[[str], int] = lambda name: 1, failed: Any = None
) -> tuple[dict[str, Any], list[str]]:
    """Two questions, a and b, to a store with these records. An answer above 0 is useful."""
    store = Memory({"kind": dict(records)})
    inputs, played = inputs_with(store)

    async def answer(optimizer: Optimizer, name: str) -> Any:
        assert cast(Any, optimizer.model) == ("SOL", "optimizer")
        assert (optimizer.redraws, optimizer.decoding.max_output_tokens) == (7, 77)
        return say(name)

    units = {name: f"ask/{name}" for name in ("b", "a")}
    found = asyncio.run(
        answers(inputs, "stage", "kind", units, answer, useful=lambda answer: answer > 0, failed=failed)
    )
    return found, played


def test_new_questions_are_asked_in_their_order() -> None:
    found, played = asked({})
    assert list(found.items()) == [("b", 1), ("a", 1)]
    assert played == ["ask/b", "ask/a"]


def test_what_was_answered_is_read_back() -> None:
    assert asked({"ask/a": 3, "ask/b": 4}) == ({"b": 4, "a": 3}, [])


def test_a_question_that_is_new_beside_an_answered_one_is_asked_for_the_first_time() -> None:
    assert asked({"ask/a": 3}) == ({"b": 1, "a": 3}, ["ask/b"])
    assert asked({"ask/a": 0, "ask/a~2": 3}) == ({"b": 1, "a": 3}, ["ask/b"])


def test_one_useful_answer_is_enough_and_what_failed_beside_it_is_left() -> None:
    assert asked({"ask/a": 3, "ask/b": 0}) == ({"b": 0, "a": 3}, [])


def test_where_nothing_is_useful_all_that_failed_are_asked_again_under_new_names() -> None:
    assert asked({"ask/a": 0, "ask/b": 0}) == ({"b": 1, "a": 1}, ["ask/b~2", "ask/a~2"])
    again = {"ask/a": 0, "ask/b": 0, "ask/a~2": 0, "ask/b~2": 0}
    assert asked(again) == ({"b": 1, "a": 1}, ["ask/b~3", "ask/a~3"])


def test_an_answer_that_did_not_fail_stands_though_it_is_of_no_use() -> None:
    """An abstention is an answer."""
    found, played = asked({"ask/a": -1, "ask/b": 0}, failed=lambda answer: answer == 0)
    assert (found, played) == ({"b": 1, "a": -1}, ["ask/b~2"])
    found, played = asked({"ask/a": -1, "ask/b": -1}, failed=lambda answer: answer == 0)
    assert (found, played) == ({"b": -1, "a": -1}, [])


def test_a_second_attempt_that_was_stopped_halfway_is_finished_first() -> None:
    assert asked({"ask/a": 0, "ask/b": 0, "ask/a~2": 0}) == ({"b": 1, "a": 0}, ["ask/b~2"])
    assert asked({"ask/a": 0, "ask/b": 0, "ask/a~2": 5}) == ({"b": 1, "a": 5}, ["ask/b~2"])


def test_a_first_answer_of_use_is_not_asked_again_because_another_was() -> None:
    assert asked({"ask/a": 3, "ask/b": 0, "ask/b~2": 0}) == ({"b": 0, "a": 3}, [])
    found, played = asked({"ask/a": -1, "ask/b": 0, "ask/b~2": 0}, failed=lambda answer: answer == 0)
    assert (found, played) == ({"b": 1, "a": -1}, ["ask/b~3"])


def test_no_questions_have_no_answers() -> None:
    inputs, played = inputs_with(Memory())
    assert asyncio.run(answers(inputs, "stage", "kind", {}, cast(Any, None), useful=bool)) == {}
    assert played == []


# --- candidates are drawn by such questions


def drawn(store: Memory, usable: bool, number: int = 2, under: str = "") -> tuple[tuple[Candidate, ...], list[str]]:
    inputs, played = inputs_with(store, number)

    async def draw(optimizer: Optimizer, name: str) -> Candidate:
        template = default_template() if usable else None
        return Candidate(name, template, (Clause("Keep ids.", "Goal", ("a#1",)),), ("a slip",))

    return asyncio.run(draw_candidates(inputs, "pair", draw, under)), played


@pytest.mark.parametrize("number", [1, 2, 5])
def test_as_many_candidates_are_drawn_as_the_config_asks_for(number: int) -> None:
    candidates, played = drawn(Memory(), True, number)
    assert [candidate.name for candidate in candidates] == [f"pair-{n}" for n in range(1, number + 1)]
    assert played == [f"revise/pair/pair-{n}" for n in range(1, number + 1)]
    assert candidates[0].template == default_template()
    assert candidates[0].clauses == (Clause("Keep ids.", "Goal", ("a#1",)),)
    assert candidates[0].objections == ("a slip",)


def test_candidates_of_another_start_have_units_of_their_own() -> None:
    assert drawn(Memory(), True, under="other/")[1] == ["revise/pair/other/pair-1", "revise/pair/other/pair-2"]


def test_candidates_that_cannot_be_used_are_drawn_again_and_others_are_not() -> None:
    store = Memory()
    assert [candidate.template for candidate in drawn(store, False)[0]] == [None, None]
    candidates, played = drawn(store, True)
    assert played == ["revise/pair/pair-1~2", "revise/pair/pair-2~2"]
    assert all(candidate.template for candidate in candidates)
    assert drawn(store, False)[1] == []


def test_where_no_candidate_gave_a_reason_that_is_said() -> None:
    words = without_usable([Candidate("pair-1", None), Candidate("pair-2", None)])
    assert numbers_in(words) == ["2"]
    assert words.endswith(": none")
