"""Where `search` looks: a BM25 index over the user's own corpus, or a retriever behind HTTP like Search-R1's."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from recompact.errors import InputError, RecompactError

_KEY = "corpus.json"  # in an index: which corpus it is of, and how it was made
_OFFSETS = "offsets.npy"
_PAUSE = 0.5  # seconds before a retriever that did not answer is asked again; doubled each time


@dataclass(frozen=True)
class Passage:
    """A piece of the corpus."""

    title: str
    text: str


class Retriever(Protocol):
    """Finds passages. The same query gives the same passages throughout a run."""

    def search(self, query: str, count: int) -> Sequence[Passage]: ...


class RetrieverFailed(RecompactError):
    """The retriever does not answer, or not in the expected form."""


def as_passage(row: Any) -> Passage:
    """A row of a corpus: `title` and `text`, or `contents`, whose first line is the title, as in Search-R1's corpus.

    >>> as_passage({"id": "7", "contents": '"Tarn"\\nA mountain lake.'})
    Passage(title='Tarn', text='A mountain lake.')
    """
    if not isinstance(row, dict):
        raise ValueError("it is not a JSON object")
    if isinstance(row.get("contents"), str):
        title, _, text = row["contents"].partition("\n")
        return Passage(title.strip().strip('"'), text.strip())
    if isinstance(row.get("text"), str):
        return Passage(str(row.get("title") or ""), row["text"])
    raise ValueError("it has neither `contents` nor `text`")


class Bm25Retriever:
    """BM25 over a JSONL corpus. The index is made at the first search and kept; passages are read from the corpus."""

    def __init__(self, corpus: Path, index: Path | None = None, *, k1: float = 0.9, b: float = 0.4) -> None:
        self._corpus, self._place, self._k1, self._b = corpus, index or corpus.with_name(f"{corpus.name}.bm25"), k1, b
        self._lock = threading.Lock()
        _, first = next(_rows(corpus), (0, None))
        if first is None:
            raise InputError(f"{corpus} has no passages")

    def search(self, query: str, count: int) -> Sequence[Passage]:
        import bm25s

        with self._lock:
            index, offsets = self._opened
        words = bm25s.tokenize(query, stopwords="en", return_ids=False, show_progress=False)[0]
        known = [word for word in words if word in index.vocab_dict]
        if not known:
            return ()
        hits = index.retrieve([known], k=min(count, len(offsets)), show_progress=False, n_threads=0)
        ranked = sorted((-float(score), int(n)) for n, score in zip(hits.documents[0], hits.scores[0], strict=True))
        return tuple(self._passage(int(offsets[number])) for negative, number in ranked if negative < 0)

    def _passage(self, offset: int) -> Passage:
        with self._corpus.open("rb") as file:
            file.seek(offset)
            return as_passage(json.loads(file.readline()))

    @cached_property
    def _opened(self) -> tuple[Any, Any]:
        """The index and where in the corpus each passage begins. A large one is mapped, not read."""
        import bm25s
        import numpy

        if self._made_of() != self._key():
            self._make()
        return bm25s.BM25.load(str(self._place), mmap=True), numpy.load(self._place / _OFFSETS, mmap_mode="r")

    def _key(self) -> dict[str, Any]:
        """What an index was made from. A corpus may be many gigabytes, so its size and time have to do."""
        import bm25s

        status = self._corpus.stat()
        file = {"bytes": status.st_size, "modified": status.st_mtime_ns}
        return {"bm25s": bm25s.__version__, "k1": self._k1, "b": self._b, **file}

    def _made_of(self) -> Any:
        try:
            return json.loads((self._place / _KEY).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _make(self) -> None:
        """Build the index beside its place, and move it there by renaming: others may be reading meanwhile."""
        import bm25s
        import numpy

        key = self._key()
        if self._place.exists() and self._made_of() is None:
            raise InputError(f"{self._place} is there and is not an index of ours: name another place as `index`")
        offsets, texts = [], []
        for offset, passage in _rows(self._corpus):
            offsets.append(offset)
            texts.append(f"{passage.title}\n{passage.text}")
        index = bm25s.BM25(k1=self._k1, b=self._b)
        index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
        try:
            fresh = Path(tempfile.mkdtemp(prefix=f"{self._place.name}-", dir=self._place.parent))
        except OSError as error:
            raise InputError(
                f"the index of {self._corpus} cannot be written beside it ({error.strerror}): name a place as `index`"
            ) from None
        try:
            index.save(str(fresh))
            numpy.save(fresh / _OFFSETS, numpy.array(offsets, dtype=numpy.int64))
            (fresh / _KEY).write_text(json.dumps(key), encoding="utf-8")
            _put(fresh, self._place)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


@dataclass(frozen=True)
class HttpRetriever:
    """A server that answers POST {"queries": [...], "topk": n, "return_scores": true} as Search-R1's does."""

    url: str
    timeout: float = 60.0
    attempts: int = 3

    def search(self, query: str, count: int) -> Sequence[Passage]:
        body = json.dumps({"queries": [query], "topk": count, "return_scores": True}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        answer = self._answer(request)
        try:
            (hits,) = json.loads(answer)["result"]
            return tuple(as_passage(hit.get("document", hit)) for hit in hits[:count])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RetrieverFailed(
                f'the retriever at {self.url} answered in another form than {{"result": [[{{"document": …}}, …]]}}:'
                f" {type(error).__name__}: {error}"
            ) from None

    def _answer(self, request: urllib.request.Request) -> bytes:
        for attempt in range(self.attempts):
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as response:
                    return bytes(response.read())
            except urllib.error.HTTPError as error:
                problem, final = f"HTTP {error.code}", error.code < 500
            except (OSError, urllib.error.URLError) as error:
                problem, final = str(getattr(error, "reason", error)), False
            if final or attempt + 1 == self.attempts:
                break
            time.sleep(_PAUSE * 2**attempt)
        raise RetrieverFailed(f"the retriever at {self.url} does not answer: {problem}")


def _rows(corpus: Path) -> Iterator[tuple[int, Passage]]:
    """Each passage and where its line begins."""
    try:
        with corpus.open("rb") as file:
            offset = 0
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield offset, as_passage(json.loads(line))
                    except ValueError as error:
                        raise InputError(f"{corpus}, line {number} is not a passage: {error}") from None
                offset += len(line)
    except OSError as error:
        raise InputError(f"the corpus {corpus} cannot be read: {error.strerror}") from None


def _put(fresh: Path, place: Path) -> None:
    """Rename a directory to its place, where there may be an old one of ours."""
    old = fresh.with_name(f"{fresh.name}-old")
    try:
        if place.exists():
            os.rename(place, old)
        os.rename(fresh, place)
    except OSError:
        if not place.exists():
            raise
        # somebody else made the same index meanwhile: theirs will do
    finally:
        shutil.rmtree(old, ignore_errors=True)
