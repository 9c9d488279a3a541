"""What `adapt` prints about the template that it wrote and those that it did not choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from recompact.adaptation.adapt import Adaptation
from recompact.cli.adapt import _print
from recompact.values.candidate import ORIGINAL, Candidate
from recompact.values.template import default_template

TEMPLATE = default_template()


@pytest.mark.parametrize(
    ("winner", "named", "left"),
    [("m-1", ["m-2"], ["m-1", "m-3"]), (ORIGINAL, ["m-1", "m-2"], ["m-3"]), ("m-2", ["m-1"], ["m-2", "m-3"])],
)
def test_the_usable_candidates_that_were_not_chosen_are_named(
    winner: str, named: list[str], left: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    unusable = Candidate("m-3", None, (), ("no JSON",))
    candidates = (Candidate("m-1", TEMPLATE), Candidate("m-2", TEMPLATE), unusable)
    adaptation = Adaptation(cast(Any, None), TEMPLATE, winner, candidates, None, None, "")
    _print(adaptation, Path("runs/x-m"), "select", "again")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "runs/x-m/candidates" in line]
    assert all(name in line for name in named)
    assert not any(name in line for name in left)


def test_where_the_only_candidate_was_chosen_nothing_is_said_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    adaptation = Adaptation(cast(Any, None), TEMPLATE, "m-1", (Candidate("m-1", TEMPLATE),), None, None, "")
    _print(adaptation, Path("runs/x-m"), "select", "again")
    assert "candidates" not in capsys.readouterr().out
