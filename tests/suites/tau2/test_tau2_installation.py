"""Where tau2-bench is looked for, and what is said where it is not found. Needs no installation of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from recompact.engine.assembly import open_suite
from recompact.engine.config_parser import load_config
from recompact.environments.installations import HOME_VARIABLE, SetupFailed, first_usable
from recompact.environments.loading import load_suite
from recompact.errors import InputError
from recompact.suites.tau2.environment import without_fence
from recompact.suites.tau2.installation import DATA_VARIABLE, PYTHON_VARIABLE, host_needs, missing


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))


@pytest.fixture
def venv(tmp_path: Path) -> tuple[str, Path]:
    """An interpreter that finds a package named tau2, and the directory of that package."""
    import venv

    venv.create(tmp_path / "venv", symlinks=True)
    libraries = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    package = libraries / "tau2"
    package.mkdir()
    (package / "__init__.py").write_text("")
    return str(tmp_path / "venv" / "bin" / "python"), package


def test_an_interpreter_is_tried_before_it_is_taken(tmp_path: Path) -> None:
    """As pyenv has it: a name on PATH that does not start unless its version was chosen."""
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    missing = str(tmp_path / "python3.12")
    remarks: list[str] = []
    assert first_usable([str(shim), missing, sys.executable], remarks.append) == sys.executable
    assert [place in remark for place, remark in zip((str(shim), missing), remarks, strict=True)] == [True, True]
    with pytest.raises(SetupFailed, match="--python"):
        first_usable([str(shim), missing], remarks.append)


@pytest.mark.usefixtures("nothing_installed")
def test_nothing_installed_names_the_way_out() -> None:
    text = missing() or ""
    assert "the package named tau2 on PyPI is something else" in text
    assert "recompact setup tau2-retail" in text
    assert PYTHON_VARIABLE in text


@pytest.mark.usefixtures("nothing_installed")
def test_the_package_of_the_same_name_is_recognised(venv: tuple[str, Path]) -> None:
    python, package = venv
    with pytest.raises(InputError, match="is not tau2-bench: it has no domain retail"):
        host_needs({}, python, Path())
    (package / "domains" / "retail").mkdir(parents=True)
    with pytest.raises(InputError, match="the benchmark's data are not part of the package"):
        host_needs({}, python, Path())


@pytest.mark.usefixtures("nothing_installed")
def test_data_of_a_config_are_seen_from_its_directory(venv: tuple[str, Path], tmp_path: Path) -> None:
    python, package = venv
    (package / "domains" / "retail").mkdir(parents=True)
    retail = tmp_path / "mine" / "tau2" / "domains" / "retail"
    retail.mkdir(parents=True)
    (retail / "db.json").write_text("{}")
    needs = host_needs({"data": "mine", "tasks": "own.json"}, python, tmp_path)
    assert needs.options == {"data": str(tmp_path / "mine"), "tasks": str(tmp_path / "own.json")}
    assert needs.python == python


@pytest.mark.usefixtures("nothing_installed")
def test_an_interpreter_without_it_is_named() -> None:
    with pytest.raises(InputError, match="has no tau2-bench"):
        host_needs({}, sys.executable, Path())


@pytest.mark.usefixtures("nothing_installed")
def test_a_config_says_where_the_mistake_is(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[suite]\nuse = "tau2-retail"\nhost = true\n')
    with pytest.raises(InputError, match=r"line 2: \[suite\] use: .*tau2-bench is not installed"):
        open_suite(load_config(file))


@pytest.mark.parametrize("options", [{"basis": "luck"}, {"temperature": "warm"}])
def test_options_are_checked(options: dict[str, str]) -> None:
    with pytest.raises(InputError):
        load_suite("tau2-retail", options, Path())


def test_a_fence_around_json_is_taken_off() -> None:
    assert without_fence("```\n{}\n```") == "{}"
    assert without_fence("{}") == "{}"
    assert without_fence("``` {}") == "``` {}"
