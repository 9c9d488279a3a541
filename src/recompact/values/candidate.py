"""Candidates, the clauses that they added, and which of them was selected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from recompact.errors import InputError
from recompact.values.template import Template
from recompact.values.texts import quantity

Value = TypeVar("Value")


def read_record(kind: type[Value], data: Any) -> Value:
    """A value from the record that `asdict` made of it."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind).validate_python(data)


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
    """A sentence that a candidate added, where, and the boundaries (or tasks) whose failures it answers.

    `proof` says what interventions showed at those boundaries, where somebody tested it.
    """

    text: str
    section: str
    answers: tuple[str, ...]
    proof: str = ""

    @property
    def tells_agent(self) -> bool:
        """Whether it tells the agent how to act, instead of the compressor what to keep.

        >>> Clause("Before finishing, verify every payment.", "", ()).tells_agent
        True
        >>> Clause("Keep every token exactly.", "", ()).tells_agent
        False
        """
        return _ACTING.search(self.text) is not None

    def row(self) -> list[Any]:
        """As a row of a record."""
        return [self.text, self.section, list(self.answers), *([self.proof] if self.proof else [])]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "tells_agent": self.tells_agent}


@dataclass(frozen=True)
class Reason:
    """What was found at something that clauses answer, and the kind of information it concerns, if that is known."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Candidate:
    """A revised template, or None where there was no valid draft; `objections` say what was wrong with drafts."""

    name: str
    template: Template | None
    clauses: tuple[Clause, ...] = ()
    objections: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        template = self.template
        return {
            "name": self.name,
            "parts": {part: template.part(part) for part in PARTS} if template else None,
            "rules": [clause.row() for clause in self.clauses],
            "refused": list(self.objections),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], frame: str) -> Candidate:
        """`frame` is the original template's: candidates keep it."""
        template = Template(**data["parts"], frame=frame) if data["parts"] else None
        clauses = tuple(Clause(row[0], row[1], tuple(row[2]), *row[3:]) for row in data["rules"])
        return Candidate(data["name"], template, clauses, tuple(data["refused"]))


@dataclass(frozen=True)
class MissingKind:
    """Facts of one kind that retained boundaries lack: how many, in words too, and the section they belong under."""

    kind: str
    words: str
    section: str
    facts: int
    contradicted: int  # of those, how many have another value in the summary
    boundaries: int

    def __str__(self) -> str:
        wrong = f", {self.contradicted} contradicted" if self.contradicted else ""
        return f"{self.words} (at {self.boundaries}{wrong}; {self.section or 'no heading'})"


_RULES = {"anchors": ("secret", "identifier", "path", "number"), "pinned": ("condition",)}
"""The kinds of facts that a stage of a compressor can keep by itself."""


@dataclass(frozen=True)
class EvidenceCounts:
    """What an adaptation was made from, and how much of it could not be used. `about` is what one piece is about."""

    about: str  # "compaction", "task" or "reflection"
    pieces: int
    diagnosed: int
    abstained: int = 0  # the optimizer said that the summary does not explain the difference
    failed: int = 0  # there was no usable answer
    cut: int = 0  # pieces that did not fit into a call as a whole
    left_out: int = 0  # characters left out of those
    uncited: int = 0  # findings that cite no existing line
    dropped: int = 0  # findings and citations that did not hold up
    missing: tuple[MissingKind, ...] = ()  # where facts were counted, by kind
    outcome: str = "diagnosed"  # what became of the pieces that could be used

    @property
    def statement(self) -> str:
        """A few sentences for a terminal and a report.

        >>> EvidenceCounts("compaction", 16, 14, abstained=1, failed=1).statement
        'Of 16 compactions, 14 were diagnosed, 1 was abstained on, 1 got no usable answer.'
        >>> paths = MissingKind("path", "5 paths", "Files", 5, 1, 3)
        >>> EvidenceCounts("compaction", 4, 3, missing=(paths,), outcome="found to lack facts").statement
        'Of 4 compactions, 3 were found to lack facts: 5 paths (at 3, 1 contradicted; Files).'
        """
        parts = [f"{self.diagnosed} {_was(self.diagnosed)} {self.outcome}"]
        if self.abstained:
            parts.append(f"{self.abstained} {_was(self.abstained)} abstained on")
        if self.failed:
            parts.append(f"{self.failed} got no usable answer")
        kinds = f": {', '.join(map(str, self.missing))}" if self.missing else ""
        text = f"Of {self.pieces} {self.about}{'s' * (self.pieces != 1)}, {', '.join(parts)}{kinds}."
        if self.cut:
            text += f" The evidence about {self.cut} was cut to fit a call ({self.left_out:,} characters left out)."
        if self.uncited:
            text += f" {self.uncited} {'findings cite' if self.uncited > 1 else 'finding cites'} no line that is there."
        return text

    @property
    def by_rule(self) -> str:
        """What of the missing facts could be kept by rule, with no word of a prompt; empty where there is nothing.

        >>> paths = MissingKind("path", "5 paths", "Files", 5, 1, 3)
        >>> EvidenceCounts("compaction", 4, 3, missing=(paths,)).by_rule
        'By rule, without a prompt: anchors for 5 paths. Whether that helps, evaluate tells: --arm anchors+prompting.'
        """
        stages = {stage: [each.words for each in self.missing if each.kind in kinds] for stage, kinds in _RULES.items()}
        stages = {stage: words for stage, words in stages.items() if words}
        if not stages:
            return ""
        parts = [f"{stage} for {', '.join(words)}" for stage, words in stages.items()]
        arms = " ".join(f"--arm {stage}+prompting" for stage in stages)
        return f"By rule, without a prompt: {'; '.join(parts)}. Whether that helps, evaluate tells: {arms}."


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


@dataclass(frozen=True)
class Proposal:
    """What a method came to: its candidates and the evidence behind them, or why there is no candidate."""

    candidates: tuple[Candidate, ...]
    evidence: EvidenceCounts | None = None
    statement: str = ""  # why there is nothing to select from
    unusable: bool = False  # the optimizer gave nothing usable, so it is to be asked again

    @staticmethod
    def of(proposed: Proposal | tuple[Candidate, ...]) -> Proposal:
        """A method may return its candidates alone."""
        if isinstance(proposed, Proposal):
            return proposed
        wrong = (
            proposed
            if not isinstance(proposed, list | tuple)
            else next((entry for entry in proposed if not isinstance(entry, Candidate)), None)
        )
        if wrong is not None:
            kind = type(wrong).__name__
            raise InputError(f"a method proposes a tuple of recompact.Candidate or a Proposal, not {kind}")
        return Proposal(tuple(proposed))


@dataclass(frozen=True)
class Fit:
    """How one template did on the fit tasks. Runs that the environment broke count only in `broken`."""

    name: str
    runs: int
    passed: int
    steps: float
    broken: int = 0
    failed: int = 0  # compactions in its runs: the agent went on with its whole history there

    @property
    def rate(self) -> float:
        return self.passed / self.runs if self.runs else 0.0

    @property
    def words(self) -> str:
        return f"{self.passed} of {quantity(self.runs, 'run')} passed in {self.steps:.1f} steps"


@dataclass(frozen=True)
class Selection:
    """The fits of the original and of all candidates, and the winner: a candidate's name, or the original's."""

    fits: tuple[Fit, ...]
    winner: str
    tasks: tuple[str, ...]
    rule: str = "paper"
    excluded: tuple[str, ...] = ()  # task and run: left out for all templates, since the environment broke for one
    gain: tuple[float, float, float] | None = None  # of a checked candidate over the original, with its interval

    @property
    def verdict(self) -> str:
        """What the runs say of a checked candidate; empty where a rule selected a winner by them."""
        if self.gain is None:
            return ""
        _, low, high = self.gain
        return "better" if low > 0 else "worse" if high < 0 else "cannot tell"

    @property
    def statement(self) -> str:
        return f"{self._outcome}{self._exclusions}{self._failures}"

    @property
    def _outcome(self) -> str:
        by_name = {fit.name: fit for fit in self.fits}
        best, original = by_name[self.winner], by_name[ORIGINAL]
        if not original.runs and self.excluded:
            return "The environment broke in every run on the fit tasks: nothing could be selected, the original stays."
        if not original.runs:
            return "No candidate was left to be run on the fit tasks: the original template is kept."
        if self.gain is not None:
            return self._checked
        if self.winner == ORIGINAL:
            return f"No candidate beat the original template on the fit tasks ({best.words}): it is kept."
        return (
            f"{self.winner} was selected: {best.words}; the original passed {original.passed} in {original.steps:.1f}."
            " It was chosen by these runs, so they flatter it: what it gains, only unseen tasks show."
        )

    @property
    def _checked(self) -> str:
        """What the runs say of a candidate that was taken for its tested causes."""
        value, low, high = (100 * each for each in self.gain or (0, 0, 0))
        runs = quantity({fit.name: fit for fit in self.fits}[ORIGINAL].runs, "run")
        points = f"{value:+.1f} points ({low:+.1f} to {high:+.1f}) in {runs} each on training tasks that can be solved"
        if self.winner == ORIGINAL:
            return f"The candidate is worse than the original template, by {points}: the original stays."
        taken = f"{self.winner} was taken, because it answers the tested causes."
        if self.verdict == "better":
            return f"{taken} It is better than the original, by {points}."
        return f"{taken} Whether it is better than the original, these runs cannot tell: {points}."

    @property
    def _exclusions(self) -> str:
        if not self.excluded:
            return ""
        runs = quantity(len(self.excluded), "run")
        was = _was(len(self.excluded))
        return f" {runs} of each template {was} left out, because an environment broke again and again."

    @property
    def _failures(self) -> str:
        failed = [f"{fit.failed:,} of {fit.name}" for fit in self.fits if fit.failed]
        return f" Compactions failed in these runs ({', '.join(failed)}), which say less about it." if failed else ""
