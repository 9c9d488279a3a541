"""LLMLingua-2 with the official package and a real classifier, tiny and made on the spot: `make test-llmlingua`."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from needs import require
from tiny_classifier import tiny_xlm_roberta

from recompact.compressors import llmlingua2
from recompact.compressors.llmlingua2 import extract, load
from recompact.compressors.protocol import CompressorInputs
from recompact.compressors.registry import load_compressor
from recompact.errors import InputError
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.context import Context, Turn
from recompact.values.template import default_template
from recompact.values.tokens import counter

require("llmlingua")

COUNT = counter()
LINES = [
    f"[result of look]\nshelf {n} holds a book about number {n * 37}; its price is {n}.50 euros (<|endoftext|>)"
    for n in range(60)
]
TEXT = "\n\n".join(LINES)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_xlm_roberta(tmp_path_factory.mktemp("model") / "any-name", LINES))


@pytest.mark.parametrize("limit", [1200, 400, 100, 20])
def test_the_words_that_stay_fit_and_come_in_their_order(model: str, limit: int) -> None:
    kept, _ = extract(TEXT, limit, COUNT, load(model, "cpu", ("\n",)))
    assert 0 < COUNT(kept) <= limit
    letters = iter(TEXT)
    assert all(letter in letters for letter in kept if not letter.isspace())
    assert kept == extract(TEXT, limit, COUNT, load(model, "cpu", ("\n",)))[0]


def test_most_of_the_room_is_used_and_line_ends_are_kept(model: str) -> None:
    kept, was_cut = extract(TEXT, 1000, COUNT, load(model, "cpu", ("\n",)))
    assert not was_cut
    assert COUNT(kept) > 700
    assert kept.count("\n") > 20
    assert "\n" not in extract("one two three. " * 60, 100, COUNT, load(model, "cpu", ("\n",)))[0]


def test_long_texts_are_not_glued_together_where_they_were_split(model: str) -> None:
    """The package joins its own pieces without a space; words of ours must still be words of the text."""
    words = [f"word{n}" for n in range(1500)]
    extractor = load(model, "cpu", ())
    assert extractor.tokens(" ".join(words)) > 3 * 510
    kept, _ = extract(" ".join(words), 2000, COUNT, extractor)
    assert set(kept.split()) <= set(words)


async def test_a_context_through_the_registry(model: str, tmp_path: Path) -> None:
    def turn(n: int) -> Turn:
        call = ToolCall(f"c{n}", "look", f'{{"shelf": {n}}}')
        return Turn.measured(assistant("", call), (Message("tool", LINES[n], call_id=f"c{n}"),), COUNT)

    context = Context((system("You are an agent."), user("Find it.")), None, tuple(map(turn, range(40))))
    inputs: Any = CompressorInputs(model=None, template=default_template(), count=COUNT)  # type: ignore[arg-type]
    compressor = load_compressor("llmlingua2", {"model": model, "device": "cpu"}, tmp_path).build(inputs)
    assert compressor is not None
    for _ in range(2):  # the second time with a summary
        after = (await compressor.compress(context, 500)).context
        assert after.size <= 500
        assert after.turns == context.turns[-1:]
        context = after
        for n in range(40, 60):
            context = context.extended(turn(n))


def test_loading_leaves_the_process_as_it_was(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    random.seed(7)
    expected = random.random()
    random.seed(7)
    llmlingua2._load.cache_clear()
    load(model, "cpu", ())
    assert random.random() == expected
    assert "PYTHONHASHSEED" not in os.environ


def test_weights_that_cannot_be_had_are_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(InputError) as error:
        load("nobody/has-this-model", "cpu", ())
    for words in ("the weights of nobody/has-this-model cannot be loaded", "options = { model = "):
        assert words in str(error.value)
