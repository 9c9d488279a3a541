"""How arms are written and named, what their keys are made of, and what the config adds to them."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recompact.compressors.fifo import Fifo
from recompact.compressors.protocol import CompressorKind
from recompact.engine.config import CompressorConfig
from recompact.engine.config_parser import parse_config
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.errors import InputError
from recompact.evaluation.arms import Arm, built_in_arms, label, note_arms, parse_arms
from recompact.evaluation.evaluate import open_evaluation
from recompact.values.template import Template, default_template

OWN = default_template()
OTHER = Template("Be brief.", "{{ history }}", "{{ previous_summary }} {{ history }}")
SETTINGS = CompressorConfig(budget=2048)


def parsed(*texts: str, settings: CompressorConfig = SETTINGS, **more: Any) -> tuple[Arm, ...]:
    return parse_arms(texts, settings, OWN, **more)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    OTHER.save(tmp_path / "mine")
    return tmp_path / "mine"


# --- written


def test_arms_that_need_no_directory() -> None:
    assert built_in_arms() == ("fifo", "llmlingua2", "none", "masking", "clear_tool_results", "native", "prompting")
    assert parsed("none", "fifo") == (Arm("none", "none"), Arm("fifo", "fifo", 2048))
    assert parsed("prompting") == (Arm("prompting", "prompted", 2048, "history", "quoted", OWN),)


def test_a_budget_of_its_own_stands_in_the_name() -> None:
    assert parsed("fifo@512", "prompting@1024") == (
        Arm("fifo@512", "fifo", 512),
        Arm("prompting@1024", "prompted", 1024, "history", "quoted", OWN),
    )


def test_budgets_are_for_every_arm_that_compresses_and_has_none() -> None:
    found = parsed("none", "fifo", "fifo@512", "prompting", budgets=[100, 200, 100])
    assert [(arm.name, arm.budget) for arm in found] == [
        ("none", None),
        ("fifo@100", 100),
        ("fifo@200", 200),
        ("fifo@512", 512),
        ("prompting@100", 100),
        ("prompting@200", 200),
    ]
    assert [arm.base for arm in found] == ["none", "fifo", "fifo", "fifo", "prompting", "prompting"]


def test_scopes_are_for_every_arm_with_a_template() -> None:
    settings = replace(SETTINGS, scope="prefix", rendering="appended")
    (own_scope,) = parsed("prompting", settings=settings)
    assert (own_scope.scope, own_scope.rendering) == ("prefix", "appended")
    found = parsed("fifo", "prompting", settings=settings, scopes=["prefix", "history", "prefix"])
    assert [(arm.label, arm.rendering) for arm in found] == [
        ("fifo", None),
        ("prompting/prefix", "appended"),
        ("prompting/history", "quoted"),  # a rendering is of the prefix
    ]


def test_a_template_is_read_from_its_directory(directory: Path) -> None:
    (found,) = parsed(f"pair@300={directory}")
    assert found == Arm("pair@300", "prompted", 300, "history", "quoted", OTHER, directory=str(directory))


def test_a_compressor_of_ones_own_is_named_by_its_place(tmp_path: Path) -> None:
    assert parsed("mine=my.py:Half", "mine@300=my.py:Half") == (
        Arm("mine", "my.py:Half", 2048),
        Arm("mine@300", "my.py:Half", 300),
    )
    OTHER.save(tmp_path / "a:b")  # a directory of that name comes first
    (found,) = parsed(f"mine={tmp_path / 'a:b'}")
    assert (found.kind, found.template) == ("prompted", OTHER)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "",
            "--arm '': unknown arm; use fifo, llmlingua2, none, masking, clear_tool_results, native, prompting",
        ),
        ("fifo@0", "--arm 'fifo@0': unknown arm"),
        ("fifo@", "--arm 'fifo@': unknown arm"),
        ("a b", "--arm 'a b': unknown arm"),
        (
            "pair",
            "--arm pair: unknown arm; use fifo, llmlingua2, none, masking, clear_tool_results, native, prompting",
        ),
        ("prompting=x", "--arm prompting=x: 'prompting' is an arm of its own; give the template another name"),
        ("none@5", "--arm none@5: nothing is compressed in 'none', so it has no budget: write --arm none"),
    ],
)
def test_what_is_no_arm_is_told(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(text)
    assert str(caught.value).startswith(said)


def test_an_arm_is_given_once(directory: Path) -> None:
    with pytest.raises(InputError, match=r"'fifo' .*twice"):
        parsed("fifo", "none", "fifo")
    with pytest.raises(InputError, match="--arm fifo, --arm llmlingua2, --arm none"):
        parsed()
    assert len(parsed(f"a={directory}", f"b={directory}", "fifo", "fifo@5")) == 4


# --- with which models a template was adapted


def manifest(directory: Path, **fields: Any) -> None:
    whole = {"hash": OTHER.hash, "models": {"agent": "small", "optimizer": "large"}, **fields}
    (directory / "manifest.json").write_text(json.dumps(whole))


def test_a_manifest_says_with_which_models_a_template_was_adapted(directory: Path) -> None:
    (without,) = parsed(f"pair={directory}")
    assert without.adapted_with == ()
    manifest(directory)
    (found,) = parsed(f"pair={directory}")
    assert found.adapted_with == (("agent", "small"), ("optimizer", "large"))
    assert found.to_json()["adapted_with"] == {"agent": "small", "optimizer": "large"}
    manifest(directory, config={"models": {"small": {"id": "gpt-small"}, "large": {}}})
    (found,) = parsed(f"pair={directory}")
    assert found.adapted_with == (("agent", "gpt-small"), ("optimizer", "large"))


@pytest.mark.parametrize(
    "fields", [{"hash": "of another text"}, {"models": None}, {"models": ["a"]}, {"config": {"models": ["a"]}}]
)
def test_a_manifest_about_something_else_says_nothing(directory: Path, fields: dict[str, Any]) -> None:
    manifest(directory, **fields)
    (found,) = parsed(f"pair={directory}")
    assert found.adapted_with == ()


@pytest.mark.parametrize("text", ["{", "{}", "[]", "5", f'{{"hash": "{OTHER.hash}"}}'])
def test_a_manifest_that_cannot_be_read_says_nothing(directory: Path, text: str) -> None:
    (directory / "manifest.json").write_text(text)
    (found,) = parsed(f"pair={directory}")
    assert found.adapted_with == ()


def test_a_manifest_says_on_which_tasks_a_template_was_adapted(directory: Path) -> None:
    tasks = {"training_tasks": ["t2", "t1"], "fit_tasks": ["t1", "t0"], "config": {"suite": {"use": "mine.py:suite"}}}
    manifest(directory, **tasks)
    (found,) = parsed(f"pair={directory}")
    assert (found.adapted_on, found.adapted_suite) == (("t0", "t1", "t2"), "mine.py:suite")
    told = found.to_json()
    assert (told["adapted_on"], told["adapted_suite"]) == (["t0", "t1", "t2"], "mine.py:suite")
    manifest(directory, **tasks, parent=OTHER.hash)  # the original was kept: it is not made from any task
    assert parsed(f"pair={directory}")[0].adapted_on == ()
    manifest(directory)  # an older one
    (without,) = parsed(f"pair={directory}")
    assert without.adapted_on == ()
    assert "adapted_on" not in without.to_json()


# --- keys and records


def test_a_key_is_made_of_all_that_decides() -> None:
    assert Arm("a", "fifo").key == "fifo"
    assert Arm("a", "my.py:Half", 5).key == "my.py_Half-5"
    assert Arm("my own", "prompted", 5, compressor=Fifo()).key == "my_own-5"
    hashed = OWN.hash[:16]
    assert Arm("a", "prompted", 5, "history", "appended", OWN).key == f"prompted-5-history-{hashed}"
    assert Arm("a", "prompted", 5, "prefix", "appended", OWN).key == f"prompted-5-prefix-appended-{hashed}"
    one, other = (Arm("a", "fifo", 5, options={"x": n}).key for n in (1, 2))
    assert one != other
    assert [len(part) for part in one.split("-")] == [4, 8, 1]
    assert Arm("a", "fifo", 5, options={"x": 1}).key == one


def test_an_arm_as_it_is_written_down() -> None:
    arm = Arm("pair", "prompted", 5, "prefix", "quoted", OWN)
    plain = {"name": "pair", "scope": "prefix", "kind": "prompted", "budget": 5, "rendering": "quoted"}
    assert arm.to_json() == {**plain, "template": OWN.hash, "key": arm.key}
    assert Arm("none", "none").to_json()["template"] is None
    assert replace(arm, directory="here").to_json() == {**arm.to_json(), "directory": "here"}
    assert (arm.label, Arm("fifo", "fifo").label, label("a", ""), label("a", "b")) == (
        "pair/prefix",
        "fifo",
        "a",
        "a/b",
    )


def test_arms_are_noted_in_the_order_in_which_they_were_given(tmp_path: Path) -> None:
    first, second = Arm("z", "fifo", 5), Arm("a", "prompted", 5, "history", "quoted", OTHER)
    with Store.open(tmp_path / "e.db") as store:
        note_arms(store, [first])
        note_arms(store, [second, first])
        noted = store.metadata
        assert noted.arm_order == ("z", "a/history")
        assert noted.arms == {"z": first.to_json(), "a/history": second.to_json()}
        assert noted.templates == {OTHER.hash: OTHER.parts()}
        with pytest.raises(InputError) as caught:
            note_arms(store, [Arm("z", "fifo", 6)])
        assert str(caught.value).startswith(f"{store.path} ")
        assert "'z' (fifo-5, now fifo-6)" in str(caught.value)
        assert store.metadata == noted


# --- what the config adds


@asynccontextmanager
async def opened(path: Path, text: str = "", **objects: Any) -> Any:
    with Store.open(path / "e.db") as store:
        async with open_evaluation(parse_config(text, path / "c.toml"), store, **objects) as study:
            yield study


PREFIX = '[compressor]\nbudget = 700\nscope = "prefix"\nrendering = "appended"\n'


async def test_what_an_arm_does_not_say_is_the_configs(tmp_path: Path) -> None:
    async with opened(tmp_path, PREFIX) as study:
        assert Arm("none", "none").completed(study) == Arm("none", "none")
        assert Arm("fifo", "fifo").completed(study) == Arm("fifo", "fifo", 700)
        assert Arm("fifo", "fifo", 5).completed(study) == Arm("fifo", "fifo", 5)
        whole = Arm("a", "prompted", 700, "prefix", "appended", study.template)
        assert Arm("a").completed(study) == whole
        # A rendering is of the prefix: in the other scope that of the config says nothing.
        assert Arm("a", scope="history").completed(study) == replace(whole, scope="history", rendering="quoted")
        assert Arm("a", scope="prefix").completed(study) == whole
        said = Arm("a", "prompted", 5, "prefix", "quoted", OTHER)
        assert said.completed(study) == said
        appended = Arm("a", scope="history", rendering="appended").completed(study)
        assert appended.rendering == "appended"


@pytest.mark.parametrize(
    ("own", "config", "trigger"),
    [(None, "turn", "turn"), ("phase", "turn", "phase"), (None, "budget", None), ("phase", "budget", "phase")],
)
async def test_an_arm_compacts_when_the_config_does_unless_it_says_when(
    tmp_path: Path, own: str | None, config: str, trigger: str | None
) -> None:
    async with opened(tmp_path, f'[compressor]\ntrigger = "{config}"\n') as study:
        assert Arm("fifo", "fifo", trigger=own).completed(study).trigger == trigger


KEEP_LAST = """
from dataclasses import dataclass

@dataclass(frozen=True)
class KeepLast:
    turns: int = 1
    async def compress(self, context, budget): ...
"""


async def test_a_trigger_of_ones_own_is_looked_for_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def late(moment):\n    return moment.calls > 3\n")
    settings = parse_config("", tmp_path / "c.toml")
    own, other = parsed("prompting@mine.py:late", "prompting@./other.py:late")
    async with open_evaluation(settings, tmp_path / "r.db") as study:
        assert own.completed(study).trigger == "mine.py:late"
        with pytest.raises(InputError, match="other"):
            other.completed(study)


async def test_an_arm_of_the_configs_own_kind_has_its_options(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(KEEP_LAST)
    text = '[compressor]\nkind = "mine.py:KeepLast"\noptions = { turns = 3 }\nbudget = 700\n'
    async with opened(tmp_path, text) as study:

        def built(arm: Arm) -> Any:
            return arm.completed(study).study(study).compressor_kind.build(None)  # type: ignore[arg-type]

        (arm,) = parse_arms(["last=mine.py:KeepLast"], study.config.compressor, OWN)
        assert built(arm).turns == 3
        assert arm.completed(study).key == replace(arm, options={"turns": 3}).key != arm.key
        for own, turns in (({}, 1), ({"turns": 2}, 2)):
            assert built(replace(arm, options=own)).turns == turns
            assert replace(arm, options=own).completed(study).options == own
        # Another kind has nothing to do with them, nor has a ready object.
        assert isinstance(built(Arm("fifo", "fifo")), Fifo)
        assert Arm("fifo", "fifo").completed(study).key == "fifo-700"
        assert Arm("ready", "mine.py:KeepLast", compressor=Fifo()).completed(study).key == "ready-700"


async def test_a_ready_compressor_has_the_configs_budget_too(tmp_path: Path) -> None:
    async with opened(tmp_path, PREFIX) as study:
        ready = Arm("mine", "none", compressor=Fifo())
        assert ready.completed(study) == replace(ready, budget=700)
        templated = Arm("mine", compressor=CompressorKind(lambda inputs: Fifo(), uses_template=True))
        found = templated.completed(study)
        assert (found.budget, found.scope, found.rendering, found.template) == (
            700,
            "prefix",
            "appended",
            study.template,
        )


async def test_the_study_of_an_arm_has_its_compressor_in_place_of_the_configs(tmp_path: Path) -> None:
    async with opened(tmp_path, PREFIX) as study:
        other: Study = Arm("a", "prompted", 5, "prefix", "appended", OTHER).study(study)
        settings = other.config.compressor
        assert (settings.kind, settings.budget, settings.scope, settings.rendering) == (
            "prompted",
            5,
            "prefix",
            "appended",
        )
        assert other.template == OTHER
        plain = Arm("a", "fifo").study(study)
        settings = plain.config.compressor
        assert (settings.kind, settings.budget, settings.scope, settings.rendering) == (
            "fifo",
            700,
            "history",
            "quoted",
        )
        assert plain.template == study.template
        assert isinstance(plain.compressor_kind.build(None), Fifo)  # type: ignore[arg-type]
        kind = CompressorKind(lambda inputs: None)
        assert Arm("a", compressor=kind).study(study).compressor_kind is kind


async def test_the_compressor_of_an_evaluation_is_the_configs_or_the_one_that_is_given(tmp_path: Path) -> None:
    async with opened(tmp_path, '[compressor]\nkind = "fifo"\n') as study:
        assert isinstance(study.compressor_kind.build(None), Fifo)
        assert study.config.compressor.kind == "fifo"
    given = CompressorKind(lambda inputs: None)
    async with opened(tmp_path / "given", '[compressor]\nkind = "fifo"\n', compressor=given) as study:
        assert study.compressor_kind.build(None) is None


# --- what it leaves to the config


def test_an_arm_has_the_configs_values_where_it_has_none_and_none_of_another_kinds_options() -> None:
    own = replace(
        SETTINGS,
        kind="masking",
        options={"turns": 3},
        scope="prefix",
        rendering="appended",
        trigger="turn",
        min_calls=4,
    )
    plain = Arm("a", "masking").settings(own)
    assert plain == replace(own, scope="history", rendering="quoted")  # an arm says itself what it looks at
    assert Arm("a", "fifo").settings(own) == replace(plain, kind="fifo", options={})
    assert Arm("a", "masking", options={"turns": 3}).settings(own) == plain
    assert Arm("a", "masking", options={"turns": 9}).settings(own) == replace(plain, options={"turns": 9})
    given = Arm("a", "masking", 77, "prefix", "appended", trigger="phase").settings(own)
    assert given == replace(own, budget=77, trigger="phase")
