"""Evidence comes back as it was packed, and nothing else is taken for evidence."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from hypothesis import given, strategies

from recompact.suites.appworld.grader import Unusable, pack, unpack

NAMES = strategies.from_regex(r"[a-z_]{1,40}\.jsonl?", fullmatch=True)


@given(strategies.dictionaries(NAMES, strategies.text()))
def test_it_comes_back(files: dict[str, str]) -> None:
    assert unpack(pack(files)) == files


@given(strategies.one_of(strategies.text(), strategies.none(), strategies.lists(strategies.integers())))
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(Unusable):
        unpack(value)


@pytest.mark.parametrize("name", ["../x.jsonl", "/etc/passwd", "a.py", "a/b.json", ""])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(Unusable, match="is not a file of the apps' state"):
        unpack(pack({name: ""}))


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    bomb = zlib.compressobj()
    data = b"".join(bomb.compress(bytes(1 << 24)) for _ in range(17)) + bomb.flush()
    with pytest.raises(Unusable, match="cannot be unpacked"):
        unpack(base64.b64encode(data).decode())


def test_too_much_is_said_and_not_cut() -> None:
    import random

    noise = random.Random(0).randbytes(3_000_000).hex()
    with pytest.raises(Unusable, match="too much to be judged"):
        pack({"a.json": json.dumps(noise)})
