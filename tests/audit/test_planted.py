"""Planted losses are found, and little else: precision and recall at least 0.95 in each format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from audit_planting import WRITERS, planted

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import Compacted
from recompact.harnesses.transcripts.registry import reader_of

SESSIONS = 12


def found_in(found: Compacted) -> dict[str, set[object]]:
    return {
        "refetch": {refetch.line for refetch in found.refetches if refetch.reading},
        "reread": {reread.line for reread in found.rereads},
        "failure": {failure.line for failure in found.failures},
        "missing": {(need.line, need.literal.form) for need in found.needs if not need.covered},
        "covered": {(need.line, need.literal.form) for need in found.needs if need.covered},
    }


@pytest.mark.parametrize("harness", WRITERS)
def test_precision_and_recall(harness: str, tmp_path: Path) -> None:
    writer, keeps = WRITERS[harness]
    right: Counter[str] = Counter()
    claimed: Counter[str] = Counter()
    true: Counter[str] = Counter()
    for seed in range(SESSIONS):
        made = planted(seed, writer, keeps)
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("\n".join(made.lines) + "\n")
        (session,) = audit_transcripts((path,), reader_of).sessions
        assert session.harness == harness
        (found,) = session.compactions
        truth: dict[str, set[object]] = {name: set(lines) for name, lines in made.truth.items()}
        truth |= {"missing": set(made.missing), "covered": set(made.covered)}
        for kind, claims in found_in(found).items():
            right[kind] += len(claims & truth[kind])
            claimed[kind] += len(claims)
            true[kind] += len(truth[kind])
    print()
    for kind in true:
        precision, recall = right[kind] / max(claimed[kind], 1), right[kind] / true[kind]
        print(f"{harness:12} {kind:8} precision {precision:.3f} recall {recall:.3f} of {true[kind]}")
    for kind in true:
        assert right[kind] >= 0.95 * claimed[kind], kind
        assert right[kind] >= 0.95 * true[kind], kind
