"""What a person takes home: the adapted template, where it came from, and why each clause is there.

In goes an adapted study, out comes a directory: the template (system, first, update), `manifest.json` for programs and
`CHANGES.md` for people. The directory is written whole or not at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from recompact.adaptation.adapt import Adapted
from recompact.adaptation.fit_table import fit_table
from recompact.adaptation.revision import Candidate, Rule
from recompact.adaptation.selection import ORIGINAL
from recompact.config import config_hash
from recompact.store.store import Store
from recompact.study import Study
from recompact.tables import markdown
from recompact.template import Template, headings, save
from recompact.version import __version__


def write_result(study: Study, adapted: Adapted, directory: Path, date: str) -> None:
    """Write the result, replacing an earlier one of the same place."""
    winner = next((c for c in adapted.candidates if c.name == adapted.winner), None)
    manifest = manifest_of(study, adapted, winner, date)
    provenance = {"adapted_by": f"recompact {__version__}", "method": manifest["method"], "parent": manifest["parent"]}
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    save(replace(adapted.template, provenance=provenance), partial)
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (partial / "manifest.json").write_text(text, encoding="utf-8")
    (partial / "CHANGES.md").write_text(changes(study, adapted, winner), encoding="utf-8")
    if directory.exists():
        shutil.rmtree(directory)
    partial.rename(directory)


def manifest_of(study: Study, adapted: Adapted, winner: Candidate | None, date: str) -> dict[str, Any]:
    """Everything that a program wants to know of the result."""
    config = study.config
    selection = adapted.selection
    return {
        "hash": adapted.template.hash,
        "parent": study.template.hash,
        "method": config.adapt.method,
        "winner": adapted.winner,
        "date": date,
        "recompact": __version__,
        "config_hash": config_hash(config),
        "config": config.identity(),
        "adapt": asdict(config.adapt),
        "verify": asdict(config.verify),
        "models": {
            "agent": config.agent.model,
            "compressor": config.compressor_model,
            "optimizer": config.optimizer_model,
        },
        "rules": [_rule(rule) for rule in winner.rules] if winner else [],
        "candidates": [
            {
                "name": c.name,
                "hash": c.template.hash if c.template else None,
                "rules": [_rule(rule) for rule in c.rules],
                "refused_drafts": list(c.refused),
            }
            for c in adapted.candidates
        ],
        "selection": [{**asdict(fit), "pass_rate": fit.rate} for fit in selection.fits] if selection else [],
        "fit_tasks": list(selection.tasks) if selection else [],
        "tokens": tokens_by_phase(study.store),
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {**asdict(rule), "tells_agent": rule.tells_agent}


def tokens_by_phase(store: Store) -> dict[str, dict[str, int]]:
    """Tokens that were paid for, by phase of the work and role. The phase is the first word of a unit's name."""
    rows = store.rows(
        "SELECT substr(unit, 1, instr(unit, '/') - 1) AS phase, role, sum(input + output) AS tokens, count(*) AS calls"
        " FROM calls GROUP BY phase, role ORDER BY phase, role"
    )
    out: dict[str, dict[str, int]] = {}
    for row in rows:
        out.setdefault(row["phase"], {})[row["role"]] = row["tokens"]
    return out


def changes(study: Study, adapted: Adapted, winner: Candidate | None) -> str:
    """What changed and because of which observed failure, section by section."""
    lines = ["# What changed, and why", ""]
    if adapted.selection:
        lines += [adapted.selection.statement, "", *markdown(fit_table(adapted.selection)).splitlines(), ""]
    if adapted.winner == ORIGINAL or winner is None or winner.template is None:
        lines += ["The template is the original one, unchanged.", ""]
        lines += _refused(adapted)
        return "\n".join(lines)
    why = _reasons(study.store, study.config.adapt.method)
    for part in ("first", "update"):
        lines += [f"## {part}.md", "", *_sections(study.template, winner.template, part)]
    lines += ["## Clauses and the compactions they answer", ""]
    for rule in winner.rules:
        flag = " **(tells the agent how to act: look at this one)**" if rule.tells_agent else ""
        lines.append(f"- “{rule.clause}”{flag}")
        for boundary in rule.boundaries:
            lines.append(f"  - {boundary}: {why.get(boundary, 'no diagnosis on record')}")
    lines += ["", *_refused(adapted)]
    return "\n".join(lines)


def _sections(before: Template, after: Template, part: str) -> list[str]:
    """The guidance that was added to and taken from each section."""
    out: list[str] = []
    if headings(before.part(part)) != headings(after.part(part)):
        names = [", ".join(f"“{name}”" for name in headings(t.part(part))) for t in (before, after)]
        out += [f"The headings were {names[0]}; now they are {names[1]}.", ""]
    for old, new in zip(before.sections(part), after.sections(part), strict=False):
        removed = [line for line in old.guidance.splitlines() if line.strip() and line not in new.guidance.splitlines()]
        added = [line for line in new.guidance.splitlines() if line.strip() and line not in old.guidance.splitlines()]
        if removed or added:
            out.append(f"### {new.title or 'before the first heading'}")
            out += ["", "```diff", *(f"- {line}" for line in removed), *(f"+ {line}" for line in added), "```", ""]
    return out or ["Nothing.", ""]


def _reasons(store: Store, method: str) -> Mapping[str, str]:
    """What a clause of that method cites -> what was found there, in one line."""
    found = {}
    if method == "pair":
        for unit in sorted(store.finished("diagnosis")):
            data = store.result(unit)
            if data["findings"]:
                first = data["findings"][0]
                found[data["boundary"]] = f"{first['mechanism']} ({first['kind']}): {first['explanation']}"
        return found
    for unit in sorted(store.finished("feedback")):
        data = store.result(unit)
        found[data["task"]] = f"{data['divergence']} {data['mechanism']}"
    for unit in sorted(store.finished("analysis")):
        data = store.result(unit)
        spare, needed = (", ".join(entry["kind"] for entry in data[key]) or "nothing" for key in ("remove", "keep"))
        found[data["name"]] = f"could do without {spare}; needed {needed}"
    return found


def _refused(adapted: Adapted) -> list[str]:
    """Candidates that never became valid, and why."""
    bad = [c for c in adapted.candidates if c.template is None]
    if not bad:
        return []
    return ["## Candidates that could not be used", "", *(f"- {c.name}: {'; '.join(c.refused)}" for c in bad), ""]
