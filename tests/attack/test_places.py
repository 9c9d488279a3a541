"""The list in docs/security.md of all places where the driver touches what an agent or a host may write."""

from __future__ import annotations

import re

import pytest
from attacks import ROOT

SOURCE = ROOT / "src" / "recompact"
TOUCHING = re.compile(
    r"from recompact\.environments\.(files|async_channel|host_usage) import"
    r"|from recompact\.environments\.snapshots import (\([^)]*|[^\n(]*)\b(archive|unpack)\b"
    r"|import .*\b(remove_tree|empty_directory)\b|client_max_size|/proc/\{pid\}/(fd|root)"
)
"""What a module cannot do without that touches it."""

ELSEWHERE = ("suites/officebench/", "environments/cluster/", "engine/")
"""In a host, on another machine, or of directories that nobody else writes to."""


def rows() -> list[tuple[list[str], list[str]]]:
    """The modules and the tests of each row."""
    found = []
    for line in (ROOT / "docs" / "security.md").read_text(encoding="utf-8").splitlines():
        cells = line.strip("|").split("|")
        if len(cells) == 4 and ".py" in cells[1]:
            found.append((re.findall(r"[\w/]+\.py", cells[1]), re.findall(r"tests/[\w/]+\.py", cells[3])))
    return found


@pytest.mark.parametrize(("modules", "tests"), rows(), ids=lambda names: names[0])
def test_modules_and_tests_are_there(modules: list[str], tests: list[str]) -> None:
    assert modules
    assert tests
    assert all((SOURCE / module).is_file() for module in modules)
    assert all((ROOT / test).is_file() for test in tests)


def test_no_place_is_missing() -> None:
    listed = {module for modules, _ in rows() for module in modules}
    touching = {
        str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if TOUCHING.search(path.read_text("utf-8"))
    }
    assert {module for module in touching if not module.startswith(ELSEWHERE)} <= listed
    assert listed & touching, "the list and the pattern speak of different things"
