"""What the documents show is true: their Python runs, their configs are valid, their links lead somewhere."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import pages as site
import recompact
from recompact.engine.config_parser import parse_config

ROOT = Path(__file__).parent.parent
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "AGENTS.md")]
PAGES = [*FRONT, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


OWN_TEST = ("environments.md",)  # its blocks build on each other, so it has a test of its own
PYTHON = [
    (page.name, n, code) for page in PAGES if page.name not in OWN_TEST for n, code in enumerate(blocks(page, "python"))
]


@pytest.mark.parametrize(("page", "number", "code"), PYTHON, ids=[f"{p}-{n}" for p, n, _ in PYTHON])
def test_python_blocks_run(page: str, number: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, f"{page}, block {number}", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_configs_are_valid_and_links_lead_somewhere(page: Path) -> None:
    for text in blocks(page, "toml"):
        parse_config(text, page)
    for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("name", sorted(recompact.__all__))
def test_every_public_name_is_there_and_stands_in_an_example(name: str) -> None:
    assert getattr(recompact, name) is not None
    assert not isinstance(getattr(recompact, name), ModuleType)
    assert any(re.search(rf"\b{name}\b", code) for page in PAGES for code in blocks(page, "python"))


SOURCE = Path(recompact.__file__).parent
MODULES = [
    ".".join(("recompact", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for file in sorted(SOURCE.rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
    assert result.attempted > 0


def test_the_map_of_the_house_is_the_contract_and_names_every_module() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*?) \|", page.partition("## The map of the house")[2], re.MULTILINE)
    rows = [re.findall(r"`([^`]+)`", cell) for cell in cells]
    files = {file.name for file in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    packages = {f"{file.parent.name}/" for file in SOURCE.glob("*/__init__.py")}
    assert sorted(name for row in rows for name in row) == sorted(files | packages)

    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [re.findall(r"\w+", layer) for layer in linter["contracts"][0]["layers"]]
    modules = [{name.removesuffix("/").removesuffix(".py") for name in row} for row in rows]
    assert modules == [{name for name in layer if {f"{name}.py", f"{name}/"} & (files | packages)} for layer in layers]


NAV = re.findall(r"[ :]([\w/.-]+\.md)$", (site.ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
GENERATED = {"reference/cli.md", "reference/config.md", *(f"reference/api/{name}.md" for name in site.API)}
WRITTEN = sorted(path.relative_to(site.DOCS).as_posix() for path in site.DOCS.rglob("*.md"))


def test_every_page_stands_in_the_navigation_once() -> None:
    elsewhere = {site.site_path(path) for path in site.linked_files() if path.endswith(".md")}
    assert sorted(NAV) == sorted({*WRITTEN, *GENERATED, *elsewhere}), "add new pages to `nav` in mkdocs.yml"


@pytest.mark.parametrize("page", WRITTEN)
def test_a_page_begins_with_what_the_reader_gets(page: str) -> None:
    text = (site.DOCS / page).read_text(encoding="utf-8")
    title, sentence = site.opening(text)
    assert text.startswith(f"# {title}\n\n")
    body = text.partition("\n\n")[2]
    assert re.match(r"[A-Z`\[]", body), "prose comes first, not code or a table"
    assert sentence[0] == body[0] or body[0] == "["


def test_the_changelog_begins_with_this_version_and_each_fits_a_screen() -> None:
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert versions[0].startswith(recompact.__version__)
    for version in versions:
        assert set(re.findall(r"^### (.+)$", version, re.MULTILINE)) <= {"Added", "Changed", "Fixed"}
        assert not re.search(r"^- ", version.partition("###")[0], re.MULTILINE), (
            "lines go under Added, Changed or Fixed"
        )
        assert len(version.splitlines()) <= 60, "merge a line into one that is there"
