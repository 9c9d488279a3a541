"""A study is put together from a config and ready objects, and its run keeps to the config that it was begun with."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import Noter, Reader, pages_suite
from progress_support import Heard
from run_files import select_rows

from recompact.adaptation.method import Method, MethodInputs, method_of
from recompact.compressors.fifo import Fifo
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import Config, ConfigError
from recompact.engine.config_parser import parse_config
from recompact.engine.execution.scheduler import Unfinished, Unit
from recompact.engine.store.adaptations import recorded_templates
from recompact.engine.store.store import Store, StoreError
from recompact.errors import InputError
from recompact.evaluation.evaluate import open_evaluation
from recompact.models.failures import Overloaded
from recompact.models.journal import UnitCalls
from recompact.models.protocol import ChatModel
from recompact.values.candidate import Candidate
from recompact.values.chat import Reply, Request

SUITE = pages_suite(5)
READING = '[agent]\nmodel = "reader"\n[compressor]\nmodel = "noter"\nbudget = 500\n[optimizer]\nmodel = "reader"\n'


async def opened(config: Config | Path | str, run: Path | str | None = None) -> tuple[Path, str]:
    async with open_study(config, run) as study:
        return study.store.path, study.store.metadata.command


def config_file(directory: Path, text: str = "[suite]\nlimit = 2\n") -> Path:
    file = directory / "mine.toml"
    file.write_text(text)
    return file


# --- where a run lies


def test_a_run_lies_where_the_config_or_the_caller_says(tmp_path: Path) -> None:
    file = config_file(tmp_path)
    runs = tmp_path / "runs"
    assert asyncio.run(opened(file)) == (runs / "mine.db", "collect")
    assert asyncio.run(opened(str(file)))[0] == runs / "mine.db"
    assert asyncio.run(opened(file, "other"))[0] == runs / "other.db"
    assert asyncio.run(opened(file, tmp_path / "x.db"))[0] == tmp_path / "x.db"
    with pytest.raises(InputError, match="no name"):
        asyncio.run(opened(Config()))
    assert asyncio.run(opened(Config(), tmp_path / "python.db"))[0] == tmp_path / "python.db"


def test_an_evaluation_is_another_kind_of_run(tmp_path: Path) -> None:
    file = config_file(tmp_path)

    async def work() -> None:
        async with open_evaluation(file) as study:
            assert study.store.path == tmp_path / "runs" / "mine-evaluate.db"
            assert study.store.metadata.command == "evaluate"

    asyncio.run(work())


async def test_a_run_keeps_to_its_config_and_holds_the_text_of_its_template(tmp_path: Path) -> None:
    config = parse_config("[suite]\nlimit = 2\n", tmp_path / "c.toml")
    with Store.open(tmp_path / "run.db") as store:
        async with open_study(config, store) as study:
            assert recorded_templates(store) == {study.template.hash: study.template}
            own = study.template
        async with open_study(replace(config, run=replace(config.run, concurrency=1)), store):
            pass  # that decides nothing
        changed = replace(config, compressor=replace(config.compressor, budget=10))
        with pytest.raises(StoreError, match=r"\(compressor.budget: 4096 -> 10\)"):
            async with open_study(changed, store):
                pass
        with pytest.raises(StoreError, match="objects"):
            async with open_study(config, store, suite=SUITE):
                pass
        assert set(recorded_templates(store)) == {own.hash}


# --- what a config names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[agent]\nmodel = 'luna'", "line 2: [agent] model = 'luna' is not among the models"),
        (
            "[compressor]\nkind = 'lifo'",
            "line 2: [compressor] kind: there is no compressor 'lifo'; did you mean 'fifo'?",
        ),
        ("[suite]\nuse = 'poket'", "line 2: [suite] use: there is no suite 'poket'; did you mean 'pocket'?"),
        ("[suite.options]\nsize = 3", "line 2: [suite.options] size: there is no option 'size'"),
        (
            "[models.m]\nbase_url = 'http://127.0.0.1:9/v1'\n[agent]\nmodel = 'm'",
            "line 1: [models] m: a model at a server needs its `id`",
        ),
        (
            "[models.m]\nuse = 'opnai'\n[agent]\nmodel = 'm'",
            "line 1: [models] m: there is no model 'opnai'; did you mean 'openai'?",
        ),
    ],
)
def test_what_cannot_be_built_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    config = parse_config(text, tmp_path / "c.toml")
    with pytest.raises(ConfigError) as caught:
        asyncio.run(opened(config, tmp_path / "run.db"))
    assert said in str(caught.value)
    assert str(tmp_path / "c.toml") in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[adapt]\nmethod = 'par'", "line 2: [adapt] method: there is no method 'par'; did you mean 'pair'?"),
        (
            "[adapt]\nmethod = 'pair'\n[adapt.options]\nsamples = 3",
            "line 4: [adapt.options] samples: method 'pair' takes no options",
        ),
    ],
)
async def test_a_method_that_is_not_there_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    async with open_study(parse_config(text, tmp_path / "c.toml"), tmp_path / "run.db") as study:
        with pytest.raises(ConfigError) as caught:
            method_of(study)
    assert said in str(caught.value)


# --- ready objects


async def test_ready_objects_take_the_place_of_what_the_config_names(tmp_path: Path) -> None:
    async def propose(inputs: MethodInputs) -> tuple[Candidate, ...]:
        return ()

    mine = Method("mine", propose)
    models: dict[str, ChatModel] = {"reader": Reader(), "noter": Noter()}
    heard = Heard()
    config = parse_config(READING, tmp_path / "c.toml")
    async with open_study(
        config, tmp_path / "run.db", models=models, suite=SUITE, method=mine, progress=heard
    ) as study:
        assert method_of(study) is mine
        units = await collect(study)
        assert study.store.finished("trajectory") == set(units)
        assert heard.events[0] == ("stage", "collect", len(units), 0)
        assert heard.count("done") == len(units)
        assert heard.count("step") > len(units)
        assert study.spending.tokens > 0
        await collect(replace(study, progress=(again := Heard())))
        assert again.events == [("stage", "collect", len(units), len(units))]
        assert "objects" in study.store.metadata.identity


async def test_a_ready_compressor_compresses(tmp_path: Path) -> None:
    config = parse_config(READING, tmp_path / "c.toml")
    models: dict[str, ChatModel] = {"reader": Reader(), "noter": Noter()}
    async with open_study(config, tmp_path / "run.db", models=models, suite=SUITE, compressor=Fifo()) as study:
        await collect(study)
        roles = {row["role"] for row in select_rows(study.store, "SELECT DISTINCT role FROM calls")}
        compactions = select_rows(study.store, "SELECT sum(compactions) AS n FROM trajectories")[0]["n"]
    assert roles == {"agent"}
    assert compactions > 0


# --- units


async def test_only_what_the_run_does_not_have_is_played(tmp_path: Path) -> None:
    played: list[str] = []
    config = parse_config("[suite]\nlimit = 2\n", tmp_path / "c.toml")
    with Store.open(tmp_path / "run.db") as store:
        async with open_study(config, store) as study:

            def unit(name: str) -> Unit[str]:
                async def play(calls: UnitCalls) -> str:
                    played.append(name)
                    if name == "u1" and len(played) < 4:
                        raise Overloaded("busy")
                    return name

                def record(value: str, seconds: float) -> None:
                    with store.transaction():
                        store.finish(name, "test", "{}", seconds)

                return Unit(name, play, record)

            units = [unit(f"u{n}") for n in range(3)]
            with pytest.raises(Unfinished, match=r"^1 unit .* u1: busy"):
                await study.complete("first", "test", units)
            heard = Heard()
            await replace(study, progress=heard).complete("second", "test", units)
            assert sorted(played) == ["u0", "u1", "u1", "u2"]
            assert heard.events == [("stage", "second", 3, 2), ("done",)]


class Busy(Reader):
    async def reply(self, request: Request) -> Reply:
        raise Overloaded("busy")


async def test_a_server_that_is_gone_stops_a_collection(tmp_path: Path) -> None:
    models: dict[str, ChatModel] = {"reader": Busy(), "noter": Noter()}
    for concurrency, error in ((3, Overloaded), (16, Unfinished)):  # five in a row are too many, or too few
        config = parse_config(f"{READING}[run]\nconcurrency = {concurrency}\n", tmp_path / "c.toml")
        async with open_study(config, tmp_path / "run.db", models=models, suite=SUITE) as study:
            with pytest.raises(error):
                await collect(study)
            assert not study.store.finished("trajectory")
