"""The figures of causes against planted truth that the repository keeps."""

from __future__ import annotations

import json

from causes import KEPT, Accuracy, total


def test_the_kept_figures_add_up() -> None:
    rows = [Accuracy(**row) for own, _, _ in json.loads(KEPT.read_text()).values() for row in own]
    for loss in ("success", "steps"):
        every = total(loss, rows)
        assert every.found + every.wrong <= every.compactions == sum(r.compactions for r in rows if r.loss == loss)
        assert min(r.draws for r in rows) <= every.draws <= max(r.draws for r in rows)
