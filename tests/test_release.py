"""What a release rests on: one version, a changelog in its form, and workflows that test what is claimed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import recompact

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_version_has_one_home_which_the_citation_repeats() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    home = (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert citation is not None
    assert f'__version__ = "{recompact.__version__}"' in home
    assert citation[1] == recompact.__version__


def test_the_workflow_tests_every_python_that_is_claimed() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    matrix = re.search(r"python: \[(.*?)\]", text)
    assert matrix is not None
    assert re.findall(r"3\.\d+", matrix[1]) == claimed


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_targets_that_exist_with_few_rights(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets
    assert "\t" not in text
    assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
