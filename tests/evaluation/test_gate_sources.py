"""Pairs from whole tasks and from stored compactions: what is played, what is reused, and what broke."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from replay_support import (
    KEEP,
    BrittleEnvironment,
    FaintingEnvironment,
    Forbidden,
    Mute,
    VaultSuite,
    look,
    study_of,
    told,
    vault,
)

from recompact.attribution.uniform import Uniform
from recompact.attribution.verify import verify
from recompact.engine.collection import collect
from recompact.engine.config_parser import parse_config
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.functions import function_suite
from recompact.environments.protocol import Suite
from recompact.errors import InputError
from recompact.evaluation import gate_sources
from recompact.evaluation.arms import Arm
from recompact.evaluation.gate import Gate, run_gate
from recompact.evaluation.gate_sources import Side, parse_side, replay_pairs, task_pairs
from recompact.evaluation.replay import ReplayCase, case_of
from recompact.models.protocol import ChatModel
from recompact.values.outcome import BoundaryId
from recompact.values.template import default_template

KEEPING = Arm("keeping", template=told(KEEP))
PLAIN = Arm("plain")
NONE = Arm("none", "none")


def collected(path: Path, suite: Suite = vault, draws: int = 0) -> Path:
    async def work(store: Store) -> None:
        study = study_of(store, suite)
        await collect(study)
        if draws:
            await verify(study, Uniform(draws))

    with Store.open(path) as store:
        asyncio.run(work(store))
    return path


def replayed(
    path: Path, base: Arm, new: Arm, suite: Suite = vault, models: dict[str, ChatModel] | None = None, most: int = 40
) -> Gate:
    with Store.open(path) as store:
        return asyncio.run(run_gate(replay_pairs(study_of(store, suite, models=models), base, new), 30.0, most))


def test_stored_compactions_tell_which_template_keeps_the_code(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db")
    worse, better = replayed(path, KEEPING, PLAIN), replayed(path, PLAIN, KEEPING)
    assert (worse.verdict, better.verdict) == ("worse", "not worse")
    # At later boundaries the code is gone already, and no template brings it back.
    first = [pair.item.endswith("#1") for pair in worse.pairs]
    assert [pair.difference(0) for pair in worse.pairs] == [-1.0 if each else 0.0 for each in first]
    assert (worse.noun, worse.items) == ("compaction", 6)
    again = replayed(path, KEEPING, PLAIN, models={"agent": Forbidden(), "noter": Forbidden()})
    assert again == worse  # nobody was asked


def test_no_compaction_is_a_side_too(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db")
    assert replayed(path, NONE, PLAIN).verdict == "worse"
    assert replayed(path, NONE, KEEPING, most=5).difference == 0


def test_continuations_of_the_verification_are_reused(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db", draws=3)
    forbidden: dict[str, ChatModel] = {"agent": Forbidden(), "noter": Forbidden()}
    gate = replayed(path, NONE, PLAIN, models=forbidden, most=2)  # the first draws of two boundaries
    assert [(pair.base.value, pair.new.value, pair.run) for pair in gate.pairs] == [
        (float(pair.item.endswith("#1")), 0.0, 0) for pair in gate.pairs
    ]


def test_a_compressor_that_writes_nothing_fails_the_agent(tmp_path: Path) -> None:
    gate = replayed(collected(tmp_path / "run.db"), NONE, KEEPING, models={"noter": Mute()})
    assert gate.verdict == "worse"
    assert all(pair.new.reason for pair in gate.pairs)


def test_a_broken_environment_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = VaultSuite(FaintingEnvironment)
    path = collected(tmp_path / "run.db", suite)
    monkeypatch.setattr(FaintingEnvironment, "faint", True)
    gate = replayed(path, KEEPING, PLAIN, suite, most=4)
    assert (gate.verdict, gate.complete) == ("cannot tell", ())
    assert "the lamp went out" in gate.pairs[0].base.reason
    monkeypatch.setattr(FaintingEnvironment, "faint", False)
    assert replayed(path, KEEPING, PLAIN, suite).verdict == "worse"


def test_boundaries_that_cannot_be_restored_take_no_part(tmp_path: Path) -> None:
    suite = VaultSuite(BrittleEnvironment)
    gate = replayed(collected(tmp_path / "run.db", suite), KEEPING, PLAIN, suite)
    assert (gate.verdict, gate.items, len(gate.unusable)) == ("cannot tell", 0, 6)


def test_whole_tasks(tmp_path: Path) -> None:
    def played(base: Arm, new: Arm, **models: ChatModel) -> Gate:
        async def work(store: Store) -> Gate:
            study = study_of(store, models=models)
            return await run_gate(await task_pairs(Side(study, base), Side(study, new)), 30.0, 20)

        with Store.open(tmp_path / "run.db") as store:
            return asyncio.run(work(store))

    gate = played(KEEPING, PLAIN)
    assert (gate.verdict, gate.difference, gate.items, gate.noun) == ("worse", -100, 2, "task")
    assert played(KEEPING, PLAIN, agent=Forbidden(), noter=Forbidden()) == gate
    assert played(KEEPING, NONE, noter=Forbidden()).verdict == "not worse"  # BASE is there already
    same = played(PLAIN, Arm("own", template=default_template()))
    assert (same.identical, same.verdict, same.pairs) == (True, "not worse", ())


def test_sides_are_named_by_what_they_are(tmp_path: Path) -> None:
    config, own = parse_config("", tmp_path / "c.toml"), default_template()
    mine = told("Be brief.")
    mine.save(tmp_path / "my prompt")
    bare = parse_side(str(tmp_path / "my prompt"), config, own)
    assert bare.name == f"my-prompt-{mine.hash[:6]}"
    assert bare.template == mine or (bare.template and bare.template.hash == mine.hash)
    assert parse_side("default", config, own).template is not None
    assert parse_side(f"x={tmp_path / 'my prompt'}", config, own).name == "x"
    assert (parse_side("fifo@512", config, own).budget, parse_side("masking+prompting", config, own).kind) == (
        512,
        "masking+prompted",
    )
    with pytest.raises(InputError):
        parse_side("nowhere", config, own)


def test_two_configs_are_two_studies_with_the_same_tasks(tmp_path: Path) -> None:
    async def work(one: Store, other: Store, suite: Suite) -> Gate:
        sides = [Side(study_of(store, each), KEEPING) for store, each in ((one, vault), (other, suite))]
        return await run_gate(await task_pairs(sides[0], replace(sides[1], arm=PLAIN)), 30.0, 20)

    def played(suite: Suite, name: str) -> Gate:
        with Store.open(tmp_path / f"{name}-1.db") as one, Store.open(tmp_path / f"{name}-2.db") as other:
            return asyncio.run(work(one, other, suite))

    gate = played(vault, "same")
    assert (gate.verdict, gate.difference, gate.identical) == ("worse", -100, False)
    with pytest.raises(InputError):
        played(function_suite("vault", [look], {"another": ("Find it.", "x")}), "another")


def test_a_stored_compaction_that_cannot_be_read_takes_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = collected(tmp_path / "run.db")
    read = case_of

    async def fail(study: Study, id: BoundaryId) -> ReplayCase:
        if id.index == 1:
            raise InputError("the task is gone")
        return await read(study, id)

    monkeypatch.setattr(gate_sources, "case_of", fail)
    gate = replayed(path, KEEPING, PLAIN, most=12)
    assert {item.rpartition("#")[2] for item in gate.unusable} == {"1"}
    assert {pair.item.rpartition("#")[2] for pair in gate.pairs} <= {"2", "3"}
    assert (gate.items, gate.difference) == (6 - len(gate.unusable), 0)
