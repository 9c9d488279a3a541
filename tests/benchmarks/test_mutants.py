"""The tool that asks whether tests would notice: changed code reaches every function, also those that others hold."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mutants import _plain, equivalents
from mutation.changes import Mutant, in_function
from mutation.processes import put_into_functions

TEXT = """
from functools import lru_cache
LIMIT = 3
def plain(x):
    return x < LIMIT
@lru_cache
def cached(x):
    return [n + 1 for n in range(x)]
class Thing:
    @property
    def size(self):
        return 2
    def outer(self):
        def inner():
            return 5
        return inner()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mutated_example.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    monkeypatch.delitem(sys.modules, "mutated_example", raising=False)
    return "src/mutated_example.py"


def test_functions_get_the_code_of_the_mutant_whoever_holds_them(module: str) -> None:
    import mutated_example as example  # type: ignore[import-not-found]

    plain, cached, thing = example.plain, example.cached, example.Thing()
    changed = TEXT.replace("x < LIMIT", "x <= LIMIT").replace("n + 1", "n - 1")
    changed = changed.replace("return 2", "return 3").replace("return 5", "return 6")
    put_into_functions(module, changed)
    assert plain(3)
    assert cached(2) == [-1, 0]
    assert (thing.size, thing.outer()) == (3, 6)


def test_what_only_an_import_runs_is_said_not_to_have_changed(module: str) -> None:
    with pytest.raises(AssertionError, match="no function"):
        put_into_functions(module, TEXT.replace("LIMIT = 3", "LIMIT = 4"))


def test_a_place_in_a_function_is_told_from_one_that_an_import_runs(module: str) -> None:
    lines = TEXT.splitlines()
    places = {text: lines.index(text) + 1 for text in ("LIMIT = 3", "    return x < LIMIT", "@lru_cache")}
    inside = {
        text: in_function(Mutant(module, "values", "NumberReplacer", 0, line, 0), Path.cwd())
        for text, line in places.items()
    }
    assert inside == {"LIMIT = 3": False, "    return x < LIMIT": True, "@lru_cache": False}


def test_a_mutant_that_is_listed_as_equivalent_is_recognised_whatever_its_blanks() -> None:
    assert _plain("-  a  = 1\n+  a = 2") == _plain("+ a = 2\n- a = 1\n")
    assert all(why.strip() for why in equivalents().values())
