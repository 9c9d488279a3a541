"""What is said to install is what can be installed, from wherever this copy came, with the Pythons that are tested."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from types import SimpleNamespace

import pytest
from needs import ROOT

from recompact.version import install_command


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///a%20b/recompact", "dir_info": {"editable": True}}, "pip install -e '/a b/recompact[qa]'"),
        ({"url": "file:///recompact", "dir_info": {}}, "pip install '/recompact[qa]'"),
        ({"url": "file:///w/recompact-1-py3-none-any.whl"}, "pip install '/w/recompact-1-py3-none-any.whl[qa]'"),
        (
            {"url": "https://example.org/recompact", "vcs_info": {"vcs": "git"}},
            "pip install 'recompact[qa] @ git+https://example.org/recompact'",
        ),
        (None, "pip install 'recompact[qa]'"),
    ],
)
def test_an_extra_comes_from_where_the_rest_came(origin: object, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    assert install_command("qa") == command


def test_sources_that_were_never_installed_are_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", nothing)
    assert install_command("qa") == "pip install '.[qa]' in a clone of recompact"


def test_the_pythons_that_are_claimed_are_those_that_the_workflow_runs() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    (run,) = re.findall(r"^ +python: \[(.*?)\]", workflow, re.MULTILINE)
    assert claimed == re.findall(r"3\.\d+", run)
    assert len(claimed) > 1
