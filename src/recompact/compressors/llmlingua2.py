"""LLMLingua-2: a small classifier says which words of the history to keep. Nothing is written; words are only dropped.

The official package does the selecting. What is done here is the loading, the splitting into pieces that the classifier
can take in, and the budget, which is counted by the run's own counter.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from recompact.compressors.protocol import Compaction, CompactionFailed, CompressorInputs, room_beside_last
from recompact.errors import InputError
from recompact.values.chat import Usage
from recompact.values.context import Context, Summary
from recompact.values.tokens import TokenCounter
from recompact.version import install_command

MODEL = "microsoft/llmlingua-2-xlm-roberta-large-meetingbank"
"""The paper's."""

_WINDOW = 510  # tokens of the classifier in one piece: its 512 without the two at the ends
_LEAST = 0.01  # the smallest share of words that the package can be asked to keep
_TRIES = 4  # to meet the limit by a smaller share, before words are cut off
_FAMILIES = {"xlm-roberta": "xlm-roberta-large", "bert": "bert-base-multilingual-cased"}
_lock = threading.Lock()  # a model is loaded once, and asked by one episode at a time


class Extractor(Protocol):
    """Keeps about this share of the words of each piece."""

    def keep(self, pieces: Sequence[str], rate: float) -> Sequence[str]: ...

    def tokens(self, text: str) -> int:
        """How many tokens of the classifier a text has."""
        ...


class LLMLingua2:
    """A `Compressor`: the previous summary and the turns become those of their words that fit beside the last turn."""

    def __init__(
        self,
        inputs: CompressorInputs,
        *,
        model: str = MODEL,
        device: str = "auto",
        force_tokens: Sequence[str] = ("\n",),
        config_directory: Path = Path(),
    ) -> None:
        self._count = inputs.count
        place = config_directory / model  # a model of the hub has no directory there
        self._extractor = load(str(place) if place.is_dir() else model, device, tuple(force_tokens))

    @staticmethod
    def missing() -> str | None:
        """What has to be installed before it can be used; None if nothing."""
        return None if find_spec("llmlingua") else f"llmlingua cannot be imported here: {install_command('llmlingua')}"

    async def compress(self, context: Context, budget: int) -> Compaction:
        consumed = context.before_last()
        text = "\n\n".join(filter(None, (consumed.summary.text if consumed.summary else "", consumed.history)))
        limit = room_beside_last(context, budget)
        kept, was_cut = await asyncio.to_thread(extract, text, limit, self._count, self._extractor)
        if not kept:
            raise CompactionFailed("LLMLingua-2 kept no word of the history", Usage())
        summary = Summary.measured(kept, self._count)
        return Compaction(replace(context, summary=summary, turns=context.turns[-1:]), cut=was_cut)


def extract(text: str, limit: int, count: TokenCounter, extractor: Extractor) -> tuple[str, bool]:
    """The words of a text that are kept to fit into `limit` tokens, and whether some had to be cut off for that.

    The same share of each piece is kept. Forced tokens and small pieces may leave more than was asked for, so the share
    is made smaller until it fits; in the end the oldest words go, each as a whole.
    """
    size = count(text)
    if size <= limit:
        return text, False
    pieces = split(text, extractor.tokens)
    rate, kept = max(_LEAST, limit / size), text
    for _ in range(_TRIES):
        with _lock:
            selected = extractor.keep([piece for piece, _ in pieces], rate)
        kept = _join(selected, [end for _, end in pieces])
        if kept and (size := count(kept)) <= limit:
            return kept, False
        if not kept or rate == _LEAST:
            break
        rate = max(_LEAST, rate * limit / size)
    return newest_words(kept or text, limit, count), True


def split(text: str, tokens: Callable[[str], int], window: int = _WINDOW) -> list[tuple[str, str]]:
    """Pieces of a text that the classifier can take in, each with what followed it: a line end or a space.

    The package splits longer texts itself, but between any two tokens, and glues the pieces together without a space.
    Lines are kept whole where they fit; a word is always whole.
    """
    pieces: list[tuple[str, str]] = []
    lines: list[str] = []
    used = 0

    def flush(end: str) -> None:
        nonlocal used
        if lines:
            pieces.append(("\n".join(lines), end))
        lines.clear()
        used = 0

    for line in text.split("\n"):
        length = tokens(line) + 1  # and the line end
        if length > window:
            flush("\n")
            *most, last = _split_words(line, tokens, window)
            pieces += [(piece, " ") for piece in most]
            pieces.append((last, "\n"))
            continue
        if used + length > window:
            flush("\n")
        lines.append(line)
        used += length
    flush("\n")
    return [(piece, end) for piece, end in pieces if piece.strip()]


def _split_words(line: str, tokens: Callable[[str], int], window: int) -> list[str]:
    pieces: list[list[str]] = [[]]
    used = 0
    for word in line.split(" "):
        length = max(1, tokens(word))
        if pieces[-1] and used + length > window:
            pieces.append([])
            used = 0
        pieces[-1].append(word)
        used += length
    return [" ".join(words) for words in pieces]


def _join(selected: Sequence[str], ends: Sequence[str]) -> str:
    kept = [(text.strip(" "), end) for text, end in zip(selected, ends, strict=True) if text.strip()]
    return "".join(text + (end if n < len(kept) - 1 else "") for n, (text, end) in enumerate(kept)).strip()


def newest_words(text: str, limit: int, count: TokenCounter) -> str:
    """The longest end of a text that begins with a whole word and fits.

    >>> newest_words("one two three", 2, lambda text: len(text.split()))
    'two three'
    """
    starts = [n for n in range(len(text)) if not text[n].isspace() and (n == 0 or text[n - 1].isspace())]
    first = bisect_left(starts, -limit, key=lambda start: -count(text[start:]))
    return text[starts[first] :] if first < len(starts) else ""


@dataclass(frozen=True)
class _Official:
    """The official package's compressor with its model."""

    compressor: Any
    force_tokens: tuple[str, ...]

    def keep(self, pieces: Sequence[str], rate: float) -> Sequence[str]:
        kept = self.compressor.compress_prompt(
            list(pieces),
            rate=rate,
            force_tokens=list(self.force_tokens),
            drop_consecutive=True,  # one line end of a row is enough
            use_context_level_filter=False,  # which would drop whole pieces
        )
        return tuple(kept["compressed_prompt_list"])

    def tokens(self, text: str) -> int:
        return len(self.compressor.tokenizer.tokenize(text))


def load(model: str, device: str, force_tokens: tuple[str, ...]) -> Extractor:
    """The model, loaded once for all episodes; the weights come from the hub's cache, the hub, or a directory."""
    if problem := LLMLingua2.missing():
        raise InputError(f"compressor 'llmlingua2': {problem}")
    with _lock:
        return _Official(_load(model, device), force_tokens)


@cache
def _load(model: str, device: str) -> Any:
    from llmlingua import PromptCompressor
    from torch.cuda import is_available

    chosen = ("cuda" if is_available() else "cpu") if device == "auto" else device
    try:
        with _preserve_globals(), _own_counting():
            # The package would let a model's repository run code of its own.
            settings = {"trust_remote_code": False}
            compressor = PromptCompressor(model, chosen, model_config=settings, use_llmlingua2=True)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"compressor 'llmlingua2': the weights of {model} cannot be loaded ({type(error).__name__}: {reason}). They"
            " are downloaded from the Hugging Face hub at first use; where that cannot be reached, copy the model's"
            ' directory to this machine and name it: [compressor] options = { model = "DIRECTORY" }'
        ) from None
    family = compressor.model.config.model_type
    if family not in _FAMILIES:
        raise InputError(
            f"compressor 'llmlingua2': {model} is a {family} model; LLMLingua-2 knows {' and '.join(_FAMILIES)}"
        )
    compressor.model_name = _FAMILIES[family]  # by which the package tells where words begin, whatever the directory
    return compressor


@contextlib.contextmanager
def _preserve_globals() -> Iterator[None]:
    """The package seeds Python's own generator and sets a variable when it is loaded; neither is its business."""
    state, seed = random.getstate(), os.environ.get("PYTHONHASHSEED")
    try:
        yield
    finally:
        random.setstate(state)
        if seed is None:
            os.environ.pop("PYTHONHASHSEED", None)
        else:
            os.environ["PYTHONHASHSEED"] = seed


@contextlib.contextmanager
def _own_counting() -> Iterator[None]:
    """The package weighs words by cl100k tokens of tiktoken, which downloads its vocabulary; ours has the same one."""
    from llmlingua import prompt_compressor
    from rs_bpe.bpe import openai

    theirs = prompt_compressor.tiktoken
    prompt_compressor.tiktoken = SimpleNamespace(encoding_for_model=lambda name: openai.cl100k_base())
    try:
        yield
    finally:
        prompt_compressor.tiktoken = theirs
