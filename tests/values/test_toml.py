"""The lines of keys in a TOML text: right for every way in which TOML can write a key."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from growth import LINEAR, growth
from hypothesis import given, strategies as st

from recompact.values.reading import MOST, Place, lines_of, read_small, refuse_deep_keys

KEYS = st.sampled_from(["a", "b", "c-1", '"d.e"', "'f g'", '"="', '"#"'])
DOTTED = st.lists(KEYS, min_size=1, max_size=3).map(" . ".join)
VALUES = st.recursive(
    st.sampled_from(["1", "true", '"x"', "'[a]'", '"b = 1 # no"', '"""\n[a]\nb = 1\n"""', "'''\n\n[[c-1]]'''"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: "[\n  " + ",  # a = 1\n  ".join(each) + "\n]"),
        st.dictionaries(KEYS, inner, max_size=3).map(
            lambda table: "{ " + ", ".join(f"{key} = {value}" for key, value in table.items()) + " }"
        ),
    ),
    max_leaves=4,
)
STATEMENTS = st.one_of(
    st.tuples(DOTTED, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    DOTTED.map(lambda key: f"  [ {key} ]  # of tables"),
    DOTTED.map(lambda key: f"[[{key}]]"),
    st.sampled_from(["", "  # a = 1", "\t"]),
)


def places(value: Any, at: Place = ()) -> set[Place]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {at} | {place for key, inner in entries for place in places(inner, (*at, str(key)))}


@given(st.lists(STATEMENTS, max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_a_key_stands_where_reading_that_far_first_finds_it(candidates: list[str], newline: str) -> None:
    written: list[str] = []
    expected: dict[Place, int] = {}
    line = 1
    for statement in candidates:
        try:
            data = tomllib.loads("\n".join([*written, statement]))
        except tomllib.TOMLDecodeError:  # such as a key that is already there
            continue
        written.append(statement)
        for place in places(data) - {()}:
            expected.setdefault(place, line)
        line += 1 + statement.count("\n")
    assert lines_of(newline.join(written).replace("\r\n", "\n").replace("\n", newline)) == expected


@pytest.mark.parametrize(
    "write", [lambda n: "[t]\nids = [\n" + '"x",\n' * n + "]", lambda n: "".join(f"[t{i}]\n" for i in range(n))]
)
def test_long_texts_take_no_longer_than_their_lines(write: Callable[[int], str]) -> None:
    assert growth(lambda n: lines_of.__wrapped__(write(n)), 400) < LINEAR


@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "a = {{ {} = 1 }}", "a = [\n{{ {} = 1 }},\n]"])
def test_a_key_of_very_many_parts_is_refused_before_it_is_read(form: str) -> None:
    refuse_deep_keys(form.format(".".join(['"x.y"'] * 150)))
    refuse_deep_keys(f'a = "{"." * 5000}" # {"." * 5000}\nb = """\n{". " * 5000}"""')
    with pytest.raises(RecursionError):
        refuse_deep_keys(form.format(" . ".join(["a"] * 100_000)))


@pytest.mark.parametrize(("parts", "refused"), [(200, False), (201, False), (202, True)])
def test_a_key_of_two_hundred_points_is_the_deepest(parts: int, refused: bool) -> None:
    key = ".".join(["a"] * parts)
    for text in (f"{key} = 1", f"[{key}]"):
        if refused:
            with pytest.raises(RecursionError):
                refuse_deep_keys(text)
        else:
            refuse_deep_keys(text)
        if parts <= 200:
            assert lines_of(text)[("a",) * parts] == 1
        else:
            with pytest.raises(RecursionError):
                lines_of(text)


def test_a_small_file_is_read_up_to_its_last_byte_and_a_larger_one_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\u00e9abc")
    assert read_small(tmp_path / "a.txt", 5) == "\u00e9abc"
    with pytest.raises(ValueError, match="more than 4 bytes"):
        read_small(tmp_path / "a.txt", 4)
    with pytest.raises(ValueError, match="ordinary"):
        read_small(tmp_path)
    assert MOST == 16_777_216
