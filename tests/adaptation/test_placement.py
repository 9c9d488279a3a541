"""Clauses as lines under the headings of a template."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from recompact.adaptation.lock import broken_rules
from recompact.adaptation.placement import place_of, with_clauses_in_place
from recompact.values.candidate import Clause
from recompact.values.template import Template, default_template, parse_sections

TITLES = ["Goal", "Progress", "In Progress", "Critical Context", "critical context", "## Next Steps", "nowhere", ""]


@pytest.mark.parametrize(
    ("title", "section"),
    [
        ("Critical Context", "Critical Context"),
        ("## Key Decisions", "Key Decisions"),
        ("next steps", "Next Steps"),
        ("Critical Contexts", "Critical Context"),
        ("Progress", "Done"),  # it has no text of its own
        ("The weather", "Critical Context"),
    ],
)
def test_a_clause_finds_the_section_that_it_names(title: str, section: str) -> None:
    sections = parse_sections(default_template().first)
    assert sections[place_of(title, sections)].title == section


def test_a_text_without_headings_gets_its_lines_at_the_end() -> None:
    template = Template("", "{{ history }}\nSummarize.", update="{{ previous_summary }}{{ history }}")
    placed = with_clauses_in_place(template, [Clause("Keep ids.", "Goal", ())])
    assert placed.first == "{{ history }}\nSummarize.\n- Keep ids.\n"


@given(
    st.lists(
        st.tuples(st.sampled_from(TITLES), st.text(st.characters(codec="ascii", categories=["Lu", "Ll"]), min_size=1))
    )
)
def test_nothing_but_guidance_changes(clauses: list[tuple[str, str]]) -> None:
    original = default_template()
    placed = with_clauses_in_place(original, [Clause(f"Keep {text}.", title, ()) for title, text in clauses])
    assert broken_rules(original, placed) == ()
    assert all(f"- Keep {text}.\n" in placed.update for _, text in clauses)
