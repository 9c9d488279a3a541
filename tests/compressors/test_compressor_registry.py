"""What may stand for a compressor, and what is said of something that is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import Noter

from recompact.compressors.fifo import Fifo
from recompact.compressors.llmlingua2 import LLMLingua2
from recompact.compressors.prompted import Prompted
from recompact.compressors.protocol import Compaction, CompressorInputs, CompressorKind
from recompact.compressors.registry import COMPRESSORS, compressor_kind, load_compressor, stages_of
from recompact.errors import InputError, OptionError
from recompact.values.context import Context
from recompact.values.template import default_template

INPUTS = CompressorInputs(Noter(), default_template(), len)


class Half:
    """A plug-in of somebody's own."""

    def __init__(self, share: float = 0.5) -> None:
        self.share = share

    async def compress(self, context: Context, budget: int) -> Compaction:
        return Compaction(context)


class Templated(Half):
    uses_template = True


class Lacking(Half):
    @staticmethod
    def missing() -> str:
        return "a package has to be installed"


class Complete(Half):
    @staticmethod
    def missing() -> None:
        return None


def test_a_kind_stays_what_it_is() -> None:
    kind = CompressorKind(lambda inputs: Fifo(), uses_template=True)
    assert compressor_kind(kind, {}) is kind


def test_a_compressor_is_used_by_all_episodes() -> None:
    half = Half()
    kind = compressor_kind(half, {})
    assert kind.build(INPUTS) is half
    assert kind.build(INPUTS) is half
    assert not kind.uses_template


def test_a_class_is_built_for_each_episode_with_its_options() -> None:
    kind = compressor_kind(Half, {"share": 0.25})
    one, other = kind.build(INPUTS), kind.build(INPUTS)
    assert isinstance(one, Half)
    assert one is not other
    assert one.share == 0.25
    assert not kind.uses_template


class Placed(Half):
    def __init__(self, config_directory: Path) -> None:
        super().__init__()
        self.place = config_directory


def test_a_class_may_ask_where_the_config_is(tmp_path: Path) -> None:
    built = compressor_kind(Placed, {}, "mine", tmp_path).build(INPUTS)
    assert isinstance(built, Placed)
    assert built.place == tmp_path
    with pytest.raises(OptionError, match="'config_directory'"):
        compressor_kind(Placed, {"config_directory": "elsewhere"}, "mine", tmp_path)


def test_a_class_may_say_that_it_works_by_a_template() -> None:
    assert compressor_kind(Templated, {}).uses_template is True


def test_a_function_is_given_the_inputs_and_may_compress_nothing() -> None:
    seen: list[CompressorInputs] = []

    def never(inputs: CompressorInputs) -> None:
        seen.append(inputs)

    assert compressor_kind(never, {}).build(INPUTS) is None
    assert seen == [INPUTS]


@pytest.mark.parametrize("plugin", [Half(), CompressorKind(lambda inputs: None)])
def test_what_is_ready_takes_no_options(plugin: Any) -> None:
    with pytest.raises(OptionError, match="'mine'") as caught:
        compressor_kind(plugin, {"share": 1, "other": 2}, "mine")
    assert caught.value.key == "share"


@pytest.mark.parametrize("plugin", [5, object(), None])
def test_what_has_no_way_to_compress_is_refused(plugin: Any) -> None:
    with pytest.raises(InputError, match=r"'mine' .*`async def compress"):
        compressor_kind(plugin, {}, "mine")


def test_what_gives_no_compressor_is_refused_when_it_is_built() -> None:
    kind = compressor_kind(lambda: 5, {}, "mine")
    with pytest.raises(InputError, match=r"'mine' .*\bint\b.*`compress`"):
        kind.build(INPUTS)


def test_what_has_to_be_installed_first_is_said_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"^compressor 'mine': a package has to be installed$"):
        compressor_kind(Lacking, {}, "mine")
    assert isinstance(compressor_kind(Complete, {}, "mine").build(INPUTS), Complete)


def test_options_that_do_not_fit_are_refused_before_anything_runs() -> None:
    with pytest.raises(OptionError, match="'size'"):
        compressor_kind(Half, {"size": 3}, "mine")


def test_the_built_in_ones_are_found_by_name(tmp_path: Path) -> None:
    assert COMPRESSORS.names()[:4] == ("prompted", "fifo", "llmlingua2", "none")
    assert COMPRESSORS.find("llmlingua2") is LLMLingua2
    prompted = load_compressor("prompted", {}, tmp_path)
    assert isinstance(prompted.build(INPUTS), Prompted)
    assert prompted.uses_template
    fifo = load_compressor("fifo", {}, tmp_path)
    assert fifo.build(INPUTS) == Fifo()
    assert not fifo.uses_template
    none = load_compressor("none", {}, tmp_path)
    assert none.build(INPUTS) is None
    assert not none.uses_template


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("masking+prompted", ["masking", "prompted"]),
        ("c++/mine.py:Half", ["c++/mine.py:Half"]),
        (r"c++\mine.py:Half", [r"c++\mine.py:Half"]),
    ],
)
def test_a_plus_in_a_path_joins_nothing(name: str, stages: list[str]) -> None:
    assert stages_of(name) == stages


@pytest.mark.parametrize(
    ("name", "options", "recall"),
    [
        ("fifo", {}, 0),
        ("masking", {"turns": 3}, 0),
        ("anchors+fifo", {"anchors": {"tokens": 60}}, 0),
        ("recall+fifo", {}, 1_000),
        ("recall+fifo", {"recall": {"tokens": 300}}, 300),
        ("masking+recall+fifo", {}, 1_000),
    ],
)
def test_only_recall_lets_the_agent_search(name: str, options: dict[str, Any], recall: int) -> None:
    assert load_compressor(name, options, Path()).recall == recall
