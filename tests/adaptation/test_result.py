"""What a person takes home says what changed, section by section, and why."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st
from sentences import numbers_in

from recompact.adaptation.acon import reasons
from recompact.adaptation.evidence import EvidenceText
from recompact.adaptation.result import section_changes
from recompact.audit.diagnosis import Plan
from recompact.engine.store.store import Store
from recompact.values.candidate import Reason
from recompact.values.outcome import BoundaryId
from recompact.values.template import Template, default_template

ORIGINAL = default_template()
LINES = st.lists(st.sampled_from(["- Keep every path.", "- Keep every id.", "", "- Leave out moods."]), max_size=4)


def with_guidance(lines: list[str]) -> Template:
    text = "\n".join(["## Goal", *lines, "## Next steps", "- What is to be done."])
    return replace(ORIGINAL, first=text)


@given(LINES, LINES)
def test_what_was_added_and_taken_away_is_listed_and_nothing_else(before: list[str], after: list[str]) -> None:
    changes = section_changes(with_guidance(before), with_guidance(after), "first")
    removed = [f"- {line}" for line in before if line and line not in after]
    added = [f"+ {line}" for line in after if line and line not in before]
    if not removed and not added:
        assert changes == ["Nothing.", ""]
        return
    assert changes == ["### Goal", "", "```diff", *removed, *added, "```", ""]


def test_headings_that_changed_are_named_as_they_were_and_as_they_are() -> None:
    before, after = with_guidance([]), with_guidance([])
    after = replace(after, first=after.first.replace("## Next steps", "## Open points"))
    sentence = section_changes(before, after, "first")[0]
    assert re.findall(r"“(.+?)”", sentence) == ["## Goal", "## Next steps", "## Goal", "## Open points"]
    assert section_changes(before, before, "first") == ["Nothing.", ""]


def test_a_section_that_came_or_went_is_listed_whole() -> None:
    before = with_guidance(["- Keep every id."])
    after = replace(before, first=f"{before.first}\n## Files\n- Keep every path.")
    came = section_changes(before, after, "first")
    assert came[2:] == ["### Files", "", "```diff", "+ - Keep every path.", "```", ""]
    went = section_changes(after, before, "first")
    assert went[2:] == ["### Files", "", "```diff", "- - Keep every path.", "```", ""]


def test_text_before_the_first_heading_has_a_name_too() -> None:
    before = with_guidance([])
    after = replace(before, first=f"Be exact.\n{before.first}")
    assert section_changes(before, after, "first")[:4] == ["### before the first heading", "", "```diff", "+ Be exact."]


def test_sections_of_the_same_title_are_told_apart_by_their_order() -> None:
    before = replace(ORIGINAL, first="## A\none\n## B\ntwo\n## A\nthree\n## C\nfour\n## B\nfive\n")
    after = replace(before, first=before.first.replace("three", "3").replace("five", "5"))
    assert section_changes(before, after, "first") == [
        *("### A", "", "```diff", "- three", "+ 3", "```", ""),
        *("### B", "", "```diff", "- five", "+ 5", "```", ""),
    ]
    fewer = replace(before, first="## B\ntwo\n## A\none\n## C\nfour\n")
    assert [line for line in section_changes(before, fewer, "first") if line.startswith(("- ", "+ "))] == [
        "- three",
        "- five",
    ]


def test_the_reasons_of_acons_clauses_are_what_was_observed() -> None:
    results: dict[str, dict[str, Any]] = {
        "feedback/a": {"task": "a", "divergence": "It asked again.", "mechanism": "The id was lost."},
        "analyse/b": {"name": "b", "remove": [{"kind": "pages"}, {"kind": "moods"}], "keep": []},
        "analyse/c": {"name": "c", "remove": [], "keep": [{"kind": "ids"}]},
    }
    kinds = {"feedback": ["feedback/a"], "analysis": ["analyse/b", "analyse/c"]}
    store = SimpleNamespace(finished=lambda kind: set(kinds[kind]), result=results.__getitem__)
    assert reasons(cast(Store, store)) == {
        "a": (Reason("It asked again. The id was lost."),),
        "b": (Reason("could do without pages, moods; needed nothing"),),
        "c": (Reason("could do without nothing; needed ids"),),
    }


@pytest.mark.parametrize(("price", "cost"), [(0.0, None), (2.5, "0.01"), (1000.0, "5.00")])
def test_what_a_diagnosis_will_cost_is_said_before_anything_is_sent(price: float, cost: str | None) -> None:
    excerpts = tuple(EvidenceText(BoundaryId("s", n), "none", "", 2_500, {}) for n in (1, 2))
    statement = Plan("luna", "https://api.example.org", excerpts, 1, price).statement
    assert numbers_in(statement) == ["2", "5,000", *([cost] if cost else []), "1"]
    assert "luna" in statement
