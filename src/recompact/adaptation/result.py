"""The result: a directory with the adapted template, where it came from, and why each clause is there.

`manifest.json` is for programs and `CHANGES.md` for people. The directory is written whole or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from recompact.adaptation.adapt import Adaptation
from recompact.adaptation.missing_facts import answers_kind
from recompact.adaptation.selection import fit_table
from recompact.attribution.records import settings_of
from recompact.engine.config import config_hash
from recompact.engine.store.adaptations import note_result
from recompact.engine.store.calls import tokens_by_phase
from recompact.engine.store.runs import trajectories
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, Candidate, Clause, Reason
from recompact.values.outputs import MANIFEST, replaced_directory
from recompact.values.tables import markdown
from recompact.values.template import Template, headings
from recompact.values.texts import markdown_text
from recompact.version import __version__

RESULT = "adapted template"
"""What the manifest of such a directory says it is."""

OTHERS = "candidates"
"""The directory in it with the candidates that were not chosen."""

_FILE_NAME = re.compile(r"[A-Za-z_][\w-]{0,99}", re.ASCII)


def write_result(study: Study, adaptation: Adaptation, directory: Path, date: str) -> None:
    """Write the result; an earlier one in the same place is replaced, but never anything else."""
    winner = adaptation.winning
    manifest = manifest_of(study, adaptation, winner, date)
    provenance = {"adapted_by": f"recompact {__version__}", "method": manifest["method"], "parent": manifest["parent"]}
    with replaced_directory(directory, RESULT) as fresh:
        replace(adaptation.template, provenance=provenance).write_parts(fresh)
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (fresh / MANIFEST).write_text(text, encoding="utf-8")
        (fresh / "CHANGES.md").write_text(changes(study, adaptation, winner), encoding="utf-8")
        _write_others(adaptation, fresh / OTHERS, provenance)
    note_result(study.store, adaptation.template.hash, directory)


def _write_others(adaptation: Adaptation, directory: Path, provenance: Mapping[str, Any]) -> None:
    """The candidates that were not chosen, each a template that can be evaluated: a few runs seldom tell them apart."""
    for number, candidate in enumerate(adaptation.candidates, 1):
        if candidate.template and candidate.name != adaptation.winner:
            # A plug-in names its candidates as it likes: with slashes, or two of them alike.
            place = directory / candidate.name
            if not _FILE_NAME.fullmatch(candidate.name) or place.exists():
                place = directory / str(number)
            place.mkdir(parents=True)
            replace(candidate.template, provenance=provenance).write_parts(place)


def manifest_of(study: Study, adaptation: Adaptation, winner: Candidate | None, date: str) -> dict[str, Any]:
    """Everything that a program wants to know about the result."""
    config = study.config
    selection = adaptation.selection
    return {
        "hash": adaptation.template.hash,
        "parent": study.template.hash,
        "method": adaptation.method.name,
        "winner": adaptation.winner,
        "date": date,
        "recompact": __version__,
        "config_hash": config_hash(config),
        "config": config.identity(),
        "adapt": asdict(config.adapt),
        "verify": asdict(settings_of(study.store, config.verify) if adaptation.method.needs_effects else config.verify),
        "models": {
            "agent": config.agent.model,
            "compressor": config.compressor_model,
            "optimizer": config.optimizer_model if adaptation.method.asks_optimizer else None,
        },
        "rules": [clause_json(clause) for clause in winner.clauses] if winner else [],
        "candidates": [
            {
                "name": c.name,
                "hash": c.template.hash if c.template else None,
                "rules": [clause_json(clause) for clause in c.clauses],
                "refused_drafts": list(c.objections),
            }
            for c in adaptation.candidates
        ],
        "evidence": adaptation.evidence and asdict(adaptation.evidence),
        "statement": adaptation.statement,
        "selection_rule": selection.rule if selection else "",
        "verdict": selection.verdict if selection else "",
        "gain": selection.gain if selection else None,
        "selection": [{**asdict(fit), "pass_rate": fit.rate} for fit in selection.fits] if selection else [],
        "excluded_runs": list(selection.excluded) if selection else [],
        "fit_tasks": list(selection.tasks) if selection else [],
        "training_tasks": sorted({row.task for row in trajectories(study.store)}),
        "tokens": tokens_by_phase(study.store),
    }


def clause_json(clause: Clause) -> dict[str, Any]:
    return {
        "clause": clause.text,
        "section": clause.section,
        "boundaries": list(clause.answers),
        "proof": clause.proof,
        "tells_agent": clause.tells_agent,
    }


def changes(study: Study, adaptation: Adaptation, winner: Candidate | None) -> str:
    """What changed and because of which observed failure, section by section."""
    lines = ["# What changed, and why", ""]
    if adaptation.selection:
        lines += [adaptation.selection.statement, "", *markdown(fit_table(adaptation.selection)).splitlines(), ""]
    if adaptation.evidence:
        lines += [adaptation.evidence.statement, ""]
    if adaptation.statement:
        lines += [adaptation.statement, ""]
    if adaptation.winner == ORIGINAL or winner is None or winner.template is None:
        lines += ["The template is the original one, unchanged.", ""]
        lines += _unusable(adaptation)
        return "\n".join(lines)
    for part in ("first", "update"):
        lines += [f"## {part}.md", "", *section_changes(study.template, winner.template, part)]
    lines += [f"## Clauses and the {adaptation.method.cites}s they answer", ""]
    lines += [*clause_lines(winner.clauses, adaptation.method.reasons(study.store)), "", *_unusable(adaptation)]
    return "\n".join(lines)


def clause_lines(clauses: Sequence[Clause], reasons: Mapping[str, Sequence[Reason]]) -> list[str]:
    """Every clause with what it answers, as Markdown; where nothing there is of its kind, that is written instead."""
    lines = []
    for clause in clauses:
        flag = " **(tells the agent how to act: look at this one)**" if clause.tells_agent else ""
        proof = f" ({markdown_text(clause.proof)})" if clause.proof else ""
        lines.append(f"- “{markdown_text(clause.text)}”{flag}{proof}")
        for place in clause.answers:
            known = reasons.get(place, ())
            matching = [reason.text for reason in known if answers_kind(clause.text, reason.kind)]
            others = ", ".join(dict.fromkeys(reason.kind for reason in known))
            nothing = f"no finding of this kind; findings there: {others}" if others else "no diagnosis on record"
            lines += [f"  - {markdown_text(place)}: {markdown_text(text)}" for text in matching or [nothing]]
    return lines


def section_changes(before: Template, after: Template, part: str) -> list[str]:
    """The guidance that was added to and taken from each section."""
    out: list[str] = []
    if headings(before.part(part)) != headings(after.part(part)):
        names = [", ".join(f"“{name}”" for name in headings(t.part(part))) for t in (before, after)]
        out += [f"The headings were {names[0]}; now they are {names[1]}.", ""]
    old, new = _guidance(before, part), _guidance(after, part)
    for title, number in dict.fromkeys([*new, *old]):
        was, now = old.get((title, number), []), new.get((title, number), [])
        removed = [line for line in was if line not in now]
        added = [line for line in now if line not in was]
        if removed or added:
            out.append(f"### {title or 'before the first heading'}")
            out += ["", "```diff", *(f"- {line}" for line in removed), *(f"+ {line}" for line in added), "```", ""]
    return out or ["Nothing.", ""]


def _guidance(template: Template, part: str) -> dict[tuple[str, int], list[str]]:
    """The lines of each section, by its title and its number among those of the same title."""
    lines: dict[tuple[str, int], list[str]] = {}
    for section in template.sections(part):
        number = sum(title == section.title for title, _ in lines)
        lines[section.title, number] = [line for line in section.guidance.splitlines() if line.strip()]
    return lines


def _unusable(adaptation: Adaptation) -> list[str]:
    """Candidates that never became valid, and why."""
    bad = [c for c in adaptation.candidates if c.template is None]
    if not bad:
        return []
    return [
        "## Candidates that could not be used",
        "",
        *(f"- {c.name}: {markdown_text('; '.join(c.objections))}" for c in bad),
        "",
    ]
