"""Candidates, the clauses that they added, and which of them was selected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from recompact.template import Template

ORIGINAL = "original"
"""The name of the template that candidates are measured against."""

PARTS = ("system", "first", "update")

_ACTING = re.compile(
    r"(?i)\b(?:before (?:finishing|any|each|every|submitting)|after (?:each|every|any) (?:call|action|mutation)|verify"
    r"|double-?check|re-?check|retry|ask the user|stop (?:after|when)|call (?:the|any|finish)|the agent (?:must|should)"
    r"|next agent|do not call|always call|repeat any)\b"
)


@dataclass(frozen=True)
class Clause:
    """A sentence that a candidate added, where, and the boundaries (or tasks) whose failures it answers."""

    text: str
    section: str
    answers: tuple[str, ...]

    @property
    def tells_agent(self) -> bool:
        """Whether it tells the agent how to act, instead of the compressor what to keep.

        >>> Clause("Before finishing, verify every payment.", "", ()).tells_agent
        True
        >>> Clause("Keep every token exactly.", "", ()).tells_agent
        False
        """
        return _ACTING.search(self.text) is not None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "tells_agent": self.tells_agent}


@dataclass(frozen=True)
class Candidate:
    """A revised template, or None where no valid draft could be had; `objections` say what was wrong with drafts."""

    name: str
    template: Template | None
    clauses: tuple[Clause, ...] = ()
    objections: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        template = self.template
        return {
            "name": self.name,
            "parts": {part: template.part(part) for part in PARTS} if template else None,
            "rules": [[clause.text, clause.section, list(clause.answers)] for clause in self.clauses],
            "refused": list(self.objections),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], frame: str) -> Candidate:
        """`frame` is the original template's: candidates keep it."""
        template = Template(**data["parts"], frame=frame) if data["parts"] else None
        clauses = tuple(Clause(text, section, tuple(answers)) for text, section, answers in data["rules"])
        return Candidate(data["name"], template, clauses, tuple(data["refused"]))


@dataclass(frozen=True)
class Fit:
    """How one template did on the fit tasks."""

    name: str
    runs: int
    passed: int
    steps: float

    @property
    def rate(self) -> float:
        return self.passed / self.runs if self.runs else 0.0


@dataclass(frozen=True)
class Selection:
    """The fits of the original and of all candidates, and the winner: a candidate's name, or the original's."""

    fits: tuple[Fit, ...]
    winner: str
    tasks: tuple[str, ...]

    @property
    def statement(self) -> str:
        by_name = {fit.name: fit for fit in self.fits}
        best, original = by_name[self.winner], by_name[ORIGINAL]
        runs = f"{best.passed} of {best.runs} runs passed in {best.steps:.1f} steps"
        if self.winner == ORIGINAL:
            return f"No candidate beat the original template on the fit tasks ({runs}): it is kept."
        return f"{self.winner} was selected: {runs}; the original passed {original.passed} in {original.steps:.1f}."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Selection:
        return Selection(tuple(Fit(**fit) for fit in data["fits"]), data["winner"], tuple(data["tasks"]))
