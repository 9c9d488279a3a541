"""How the official package of LLMLingua-2 is called, with a stand-in for it: its model is not at hand everywhere."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from recompact.compressors import llmlingua2
from recompact.compressors.llmlingua2 import LLMLingua2, load
from recompact.errors import InputError


class StandIn:
    """A package whose compressor notes how it was made and called, or fails."""

    def __init__(self) -> None:
        self.made: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.calls: list[tuple[list[str], dict[str, Any]]] = []
        self.failure: Exception | None = None
        self.family = "xlm-roberta"
        self.vocabularies: list[Any] = []

    def compressor(self, *args: Any, **kwargs: Any) -> SimpleNamespace:
        random.seed(0)
        os.environ["PYTHONHASHSEED"] = "0"
        self.made.append((args, kwargs))
        self.vocabularies.append(sys.modules["llmlingua"].prompt_compressor.tiktoken)
        if self.failure is not None:
            raise self.failure
        return SimpleNamespace(
            model=SimpleNamespace(config=SimpleNamespace(model_type=self.family)),
            model_name="",
            tokenizer=SimpleNamespace(tokenize=str.split),
            compress_prompt=self.compress,
        )

    def compress(self, pieces: list[str], **kwargs: Any) -> dict[str, list[str]]:
        self.calls.append((pieces, kwargs))
        return {"compressed_prompt_list": [piece.upper() for piece in pieces]}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    stand_in = StandIn()
    module, inner, torch, cuda = (ModuleType(n) for n in ("llmlingua", "inner", "torch", "torch.cuda"))
    vars(inner)["tiktoken"] = "theirs"
    vars(module).update(PromptCompressor=stand_in.compressor, prompt_compressor=inner)
    vars(cuda)["is_available"] = lambda: False
    for name, each in (("llmlingua", module), ("torch", torch), ("torch.cuda", cuda)):
        monkeypatch.setitem(sys.modules, name, each)
    monkeypatch.setattr(LLMLingua2, "missing", staticmethod(lambda: None))
    llmlingua2._load.cache_clear()
    yield stand_in
    llmlingua2._load.cache_clear()


def test_the_model_is_loaded_once_and_may_run_no_code_of_its_own(package: StandIn) -> None:
    for force_tokens in (("\n",), ()):
        load("a-model", "auto", force_tokens)
    (((model, device), settings),) = package.made
    assert (model, device) == ("a-model", "cpu")
    assert settings == {"model_config": {"trust_remote_code": False}, "use_llmlingua2": True}
    load("a-model", "cuda:1", ())
    assert package.made[1][0] == ("a-model", "cuda:1")


def test_loading_leaves_nothing_changed_behind(package: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "17")
    state = random.getstate()
    load("a-model", "cpu", ())
    assert (random.getstate(), os.environ["PYTHONHASHSEED"]) == (state, "17")
    monkeypatch.delenv("PYTHONHASHSEED")
    load("another", "cpu", ())
    assert "PYTHONHASHSEED" not in os.environ
    (ours, _), theirs = package.vocabularies, sys.modules["llmlingua"].prompt_compressor.tiktoken
    assert theirs == "theirs"
    assert ours.encoding_for_model("gpt-3.5-turbo").encode("one two")  # ours, without a download


def test_what_is_kept_is_asked_for_piece_by_piece(package: StandIn) -> None:
    extractor = load("a-model", "cpu", ("\n", "."))
    assert extractor.keep(("one", "two"), 0.25) == ("ONE", "TWO")
    assert extractor.tokens("one two three") == 3
    ((pieces, settings),) = package.calls
    assert pieces == ["one", "two"]
    expected = {"rate": 0.25, "force_tokens": ["\n", "."], "drop_consecutive": True, "use_context_level_filter": False}
    assert settings == expected


@pytest.mark.parametrize("failure", [OSError, ValueError])
def test_weights_that_cannot_be_loaded_are_an_error_with_a_way_out(package: StandIn, failure: type[Exception]) -> None:
    package.failure = failure("no\n  such file " + "x" * 1000)
    with pytest.raises(InputError, match="a-model") as caught:
        load("a-model", "cpu", ())
    (reason,) = str(caught.value).split(f"({failure.__name__}: ")[1].split("). They")[:1]
    assert reason.startswith("no such file x")
    assert len(reason) == 300
    assert "[compressor] options" in str(caught.value)


@pytest.mark.parametrize(("cuda", "device"), [(True, "cuda"), (False, "cpu")])
def test_unless_told_otherwise_it_runs_where_it_is_fastest(package: StandIn, cuda: bool, device: str) -> None:
    vars(sys.modules["torch.cuda"])["is_available"] = lambda: cuda
    load("a-model", "auto", ())
    load("a-model", "mps", ())
    assert [made[0][1] for made in package.made] == [device, "mps"]


@pytest.mark.parametrize(
    ("family", "name"), [("xlm-roberta", "xlm-roberta-large"), ("bert", "bert-base-multilingual-cased")]
)
def test_where_words_begin_is_told_by_the_family_and_not_by_the_directory(
    package: StandIn, family: str, name: str
) -> None:
    package.family = family
    extractor: Any = load("some/directory", "cpu", ("\n",))
    assert extractor.compressor.model_name == name
    assert extractor.force_tokens == ("\n",)


@pytest.mark.parametrize("seed", ["17", None])
def test_loading_that_fails_leaves_nothing_changed_behind_either(
    package: StandIn, monkeypatch: pytest.MonkeyPatch, seed: str | None
) -> None:
    if seed is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    state = random.getstate()
    package.failure = OSError("no such file")
    with pytest.raises(InputError):
        load("a-model", "cpu", ())
    assert random.getstate() == state
    assert os.environ.get("PYTHONHASHSEED") == seed
    assert sys.modules["llmlingua"].prompt_compressor.tiktoken == "theirs"


def test_another_mistake_of_the_package_is_not_taken_for_missing_weights(package: StandIn) -> None:
    package.failure = RuntimeError("a mistake")
    with pytest.raises(RuntimeError, match="a mistake"):
        load("a-model", "cpu", ())


def test_a_refused_family_is_named_with_those_that_are_known(package: StandIn) -> None:
    package.family = "gpt2"
    with pytest.raises(InputError, match=r"a-model .* gpt2 .* xlm-roberta and bert$"):
        load("a-model", "cpu", ())
