"""The tables of boundaries: what is said beside the counts."""

from __future__ import annotations

from figures_support import Drawn, found

from recompact.presentation.report.content.overview import counts_table
from recompact.presentation.report.figures.boundaries import _caption, panels

LOST, RESCUED = (1.0, 5, 0.0, 5), (0.0, 5, 1.0, 20)


def notes(*boundaries: Drawn) -> tuple[str, ...]:
    return counts_table(found(boundaries), {f"collect/{task}": passed for task, _, passed, _ in boundaries}).notes


def test_counts_say_where_boundaries_do_not_have_equally_many_draws() -> None:
    equal = [("a", 1, True, [LOST] * 3), ("b", 1, True, [LOST] * 3)]
    unequal = [("a", 1, True, [LOST] * 3), ("b", 1, True, [LOST])]
    assert not any("biased" in note for note in notes(*equal))
    assert any(note.startswith("Boundaries have 1 to 3 draws") and "biased" in note for note in notes(*unequal))
    for boundaries, said in ((equal, False), (unequal, True)):
        findings = found(boundaries)
        assert ("biased" in _caption(findings, panels(findings))) == said


def test_what_clearly_helped_is_named_where_it_is_not_counted() -> None:
    assert notes(("a", 1, True, [RESCUED] * 3))[-1] == (
        "Not under “either”, since the compaction clearly helped: 1 with B ≥ 5."
    )
    assert not any("helped" in note for note in notes(("a", 1, True, [LOST] * 3)))
