"""The site without mkdocs: every page has its place, what is generated is complete, links lead on."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

import pages
import pictures
import recompact
from recompact.cli.main import COMMANDS
from recompact.engine.config_parser import config_schema


def test_every_public_name_has_a_docstring_and_a_place() -> None:
    assert not pages.undocumented_names()
    text = "".join(map(pages.api_page, pages.API))
    places = re.findall(r"^::: recompact\.[\w.]+\.(\w+)$", text, re.MULTILINE)
    assert sorted(places) == sorted(set(recompact.__all__) - {"__version__"})


def test_a_name_without_a_docstring_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompact.Suite.tasks, "__doc__", None)
    assert pages.undocumented_names() == ["Suite.tasks"]


def test_every_command_and_option_is_in_the_reference() -> None:
    text = pages.command_page()
    titles = re.findall(r"^## ([\w-]+) ", text, re.MULTILINE)
    assert titles == list(COMMANDS)
    assert "### prompts import " in text
    assert "--dry-run" in text
    assert "Sentinel" not in text


def test_every_key_is_in_the_reference() -> None:
    text = pages.config_page()
    keys = {key for table in config_schema()["$defs"].values() for key in table.get("properties", {})}
    assert keys <= set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


def test_links_lead_to_the_same_file_on_the_site() -> None:
    text = "[a](../benchmarks/protocol.md#x) [b](pocket.md) [c](https://x.org/a.md)\n\n    [e](../benchmarks)\n"
    assert pages.rewrite_links(text, "docs/what-is-known.md") == text.replace("../bench", "bench", 1)
    assert pages.rewrite_links("[a](../docs/pocket.md)", "experiments/README.md") == "[a](../pocket.md)"
    assert pages.rewrite_links("[a](docs/pocket.md)", "CONTRIBUTING.md") == "[a](../pocket.md)"
    assert pages.rewrite_links("[a](nowhere.md)", "docs/pocket.md") == "[a](nowhere.md)"


@given(st.text(alphabet="ab`# \n[](xmd)-"))
def test_text_without_links_out_is_left_alone(text: str) -> None:
    assert pages.rewrite_links(text, "docs/pocket.md") == text


@pytest.mark.parametrize("name", sorted(pictures.DRAWINGS))
def test_the_drawings_are_those_of_the_script(name: str) -> None:
    drawn = pictures.DRAWINGS[name]()
    ElementTree.fromstring(drawn)
    assert drawn == (pages.DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
