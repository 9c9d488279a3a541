"""What an import in a file of the user's own finds: its neighbours, by every form of the statement."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from recompact.values.neighbours import _Finder, load_with_neighbours


def write(directory: Path, **texts: str) -> Path:
    """Files by name; `pack_inner` is inner.py in the package pack."""
    for name, text in texts.items():
        place = directory / f"{name.replace('_', '/')}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
        if "_" in name:
            (place.parent / "__init__.py").touch()
    return directory / "main.py"


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("import side\nVALUE = side.NAME", "side"),
        ("from side import NAME as VALUE", "side"),
        ("from side import *\nVALUE = NAME", "side"),
        ("import pack.inner\nVALUE = pack.inner.NAME", "inner"),
        ("import pack.inner as other\nVALUE = other.NAME", "inner"),
        ("from pack import inner\nVALUE = inner.NAME", "inner"),
        ("from pack.inner import NAME as VALUE", "inner"),
        ("from .side import NAME as VALUE", "side"),
        ("from . import side\nVALUE = side.NAME", "side"),
        ("VALUE = __import__('side').NAME", "side"),
        ("def later():\n    import side\n    return side.NAME\nVALUE = later()", "side"),
        ("from pack.inner import up as VALUE", "side"),
        ("import json\nVALUE = json.loads('\"real\"')", "real"),
        ("import os.path\nVALUE = os.path.basename('a/b')", "b"),
    ],
)
def test_every_form_of_an_import_finds_the_files_beside(statement: str, value: str, tmp_path: Path) -> None:
    main = write(
        tmp_path,
        main=statement,
        side="NAME = 'side'\n",
        pack_inner="from side import NAME as up\nNAME = 'inner'\n",
        json="raise SystemError('this must not be imported')",
    )
    module = load_with_neighbours(main)
    assert value == module.VALUE


def test_a_name_that_is_no_neighbour_is_missed_as_ever(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for text in ("import nowhere_at_all", "import empty.inner", "from side import nothing"):
        with pytest.raises(ImportError):
            load_with_neighbours(write(tmp_path, main=text, side="NAME = 1"))


def test_a_file_that_fails_leaves_no_module_and_is_run_anew_the_next_time(tmp_path: Path) -> None:
    before = set(sys.modules)
    with pytest.raises(KeyboardInterrupt):
        load_with_neighbours(write(tmp_path, main="raise KeyboardInterrupt"))
    assert not [name for name in set(sys.modules) - before if name.endswith(".main")]
    first = load_with_neighbours(write(tmp_path, main="VALUE = []"))
    again = load_with_neighbours(tmp_path / "main.py")
    assert first.VALUE is not again.VALUE
    assert sys.modules[again.__name__] is again
    assert first.__name__ == again.__name__


def test_directories_are_packages_of_their_own_and_one_finder_serves_all(tmp_path: Path) -> None:
    names = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        module = load_with_neighbours(write(tmp_path / place, main="from side import NAME", side=f"NAME = {place!r}"))
        assert place == module.NAME
        assert str(module.__file__) == str(tmp_path / place / "main.py")
        names.append(module.__name__)
    assert len(set(names)) == 2
    assert all(name.startswith("recompact_files_") and name.endswith(".main") for name in names)
    assert sum(isinstance(finder, _Finder) for finder in sys.meta_path) == 1


def test_the_finder_minds_only_such_packages(tmp_path: Path) -> None:
    module = load_with_neighbours(write(tmp_path, main="", side=""))
    package = module.__name__.partition(".")[0]
    finder = _Finder()
    assert finder.find_spec("side", [str(tmp_path)]) is None
    assert finder.find_spec(f"{package}.side", None) is None
    found = finder.find_spec(f"{package}.side", [str(tmp_path)])
    assert found is not None
    assert type(found.loader).__name__ == "_Loader"
    assert finder.find_spec(f"{package}.nowhere", [str(tmp_path)]) is None
