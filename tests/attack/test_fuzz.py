"""Files and requests of strangers, changed at random from a small corpus: each is read, or refused in plain words.

`make test-attack` tries many; `make test` only the corpus as it is. Whatever fails is kept in the corpus as a
regression, under the hash of its bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import recompact
from hypothesis import HealthCheck, given, settings, strategies as st
from report_support import make_verified

from recompact.agents.wire.formats import FORMATS
from recompact.engine.config_parser import parse_config
from recompact.errors import RecompactError
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.values.session import SkippedFile, Tally

CORPUS = Path(__file__).with_name("corpus")
WORDS = [b"\0", b"\xff", b"\xed\xa0\x80", b"[" * 2000, b'"', b"{", b"}", b"null", b"-1", b"1e999", b"9" * 5000, b"\n"]
READ_BY_THE_GATEWAY = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
"""What the gateway takes for a malformed request, whoever raises it: see `recompact.agents.server`."""


def read_config(data: bytes, place: Path) -> None:
    with contextlib.suppress(RecompactError):
        parse_config(data.decode("utf-8", "replace"), place / "fuzzed.toml")


def read_transcript(data: bytes, place: Path) -> None:
    file = place / "fuzzed.jsonl"
    file.write_bytes(data)
    for transcript in read_transcripts([file]):
        if not isinstance(transcript, SkippedFile):
            list(transcript.events(Tally()))


def read_wire(data: bytes, place: Path) -> None:
    try:
        body = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return
    for form in FORMATS:
        with contextlib.suppress(RecompactError, *READ_BY_THE_GATEWAY):
            form.read(body)


def read_run(data: bytes, place: Path) -> None:
    """`data` says which bytes of a sound run become which others."""
    file = place / "fuzzed.db"
    if not (place / "sound.db").exists():
        make_verified(place / "sound.db", ["red"])
    content = bytearray((place / "sound.db").read_bytes())
    for at in range(0, len(data) - 4, 5):
        content[int.from_bytes(data[at : at + 4]) % len(content)] = data[at + 4]
    file.write_bytes(content)
    for command in (("show", file), ("boundaries", file), ("runs", "--dir", place)):
        ended = recompact(*command, cwd=place)
        assert ended.returncode in (0, 1, 2), (command, ended.stderr)


READERS: dict[str, Callable[[bytes, Path], None]] = {
    "config": read_config,
    "transcript": read_transcript,
    "wire": read_wire,
    "run": read_run,
}


def corpus(kind: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((CORPUS / kind).iterdir())]


def changed(data: bytes, chance: random.Random) -> bytes:
    """The data with one to six pieces taken out, doubled, overwritten, or put in."""
    content = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(content) + 1)
        piece = content[at : at + chance.choice((1, 3, 20, 200))]
        way = chance.randrange(5)
        if way == 0:
            del content[at : at + len(piece)]
        elif way == 1:
            content[at:at] = piece * chance.choice((1, 2, 50))
        elif way == 2:
            content[at : at + 1] = bytes([chance.randrange(256)])
        else:
            content[at:at] = chance.choice(WORDS)
    return bytes(content)


def attack(kind: str, data: bytes, place: Path) -> None:
    try:
        READERS[kind](data, place)
    except BaseException:
        (CORPUS / kind / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        raise


@pytest.mark.parametrize("kind", READERS)
def test_the_corpus_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    assert corpus(kind)
    for data in corpus(kind):
        READERS[kind](data, tmp_path)


NUMBERS = [("config", 400), ("transcript", 600), ("wire", 1500), ("run", 60)]


@pytest.mark.attack
@pytest.mark.parametrize(("kind", "number"), NUMBERS)
def test_changed_at_random(
    kind: str, number: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tried = 0

    @settings(max_examples=number, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.sampled_from(corpus(kind)), st.integers(0, 2**62))
    def attacked(data: bytes, seed: int) -> None:
        nonlocal tried
        tried += 1
        attack(kind, changed(data, random.Random(seed)), tmp_path)

    try:
        attacked()
    finally:
        record_property("tried", f"{tried} changed inputs of the kind {kind}")
