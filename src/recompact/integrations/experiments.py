"""What a tracker of experiments is told of runs, while they are recorded: parameters, metrics, tables and templates.

Each run file is one experiment of the tracker, however many commands work on it. The modules `mlflow` and `wandb`
beside this one are trackers.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from recompact.engine.shared_starts import PHASE as STARTS
from recompact.engine.store.adaptations import AdaptationRecord, AdaptationRecorded, recorded_templates
from recompact.engine.store.calls import tokens_by_phase
from recompact.engine.store.records import CONTINUE, EpisodeRecorded
from recompact.engine.store.runs import ContinuationRow, TrajectoryRow, continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Verdict, VerdictsRecorded
from recompact.values.candidate import ORIGINAL
from recompact.values.chat import canonical, sha256
from recompact.values.events import on
from recompact.values.template import PARTS, Template

Rows = Sequence[Mapping[str, Any]]
_log = logging.getLogger("recompact")


class Experiment(Protocol):
    """One experiment of a tracker."""

    def set_parameters(self, values: Mapping[str, str]) -> None: ...

    def add_metrics(self, values: Mapping[str, float], step: int) -> None: ...

    def add_table(self, name: str, rows: Rows) -> None: ...

    def add_template(self, name: str, template: Template, role: str) -> None:
        """Keep a version of a template, unless its last one has the same texts; `role` is original or adapted."""

    def end(self) -> None: ...


@dataclass(frozen=True)
class TrackedRun:
    """A run file: `key` tells it from others of the same name, and from one that was begun anew."""

    name: str
    suite: str
    key: str


def start_tracking(begin: Callable[[TrackedRun], Experiment]) -> Callable[[], None]:
    """Tell a tracker of everything that is recorded from now on; the function that is returned ends that."""
    runs: dict[Path, _Listener | None] = {}

    def listener(store: Store) -> _Listener | None:
        if store.path not in runs:
            runs[store.path] = None  # a tracker that cannot begin is not asked again, and its reason is told once
            experiment = begin(_tracked_run(store))
            experiment.set_parameters(dict(_parameters(store.metadata.identity)))
            runs[store.path] = _Listener(store.path, experiment, _name(store))
        return runs[store.path]

    def tell(event: EpisodeRecorded | VerdictsRecorded | AdaptationRecorded) -> None:
        if (heard := listener(event.store)) is not None:
            heard.take(event)

    ends = (on(EpisodeRecorded, tell), on(VerdictsRecorded, tell), on(AdaptationRecorded, tell))

    def stop() -> None:
        for end in ends:
            end()
        for each in filter(None, runs.values()):
            try:
                each.end()
            except Exception as error:
                _log.warning("the tracker failed at its end: %s: %s", type(error).__name__, error)

    return stop


def _tracked_run(store: Store) -> TrackedRun:
    key = sha256(canonical([str(store.path.resolve()), dict(store.metadata.identity)]))
    return TrackedRun(store.path.stem, store.metadata.suite or "recompact", key)


def _name(store: Store) -> str:
    """The name of a run's templates."""
    words = (store.metadata.suite or "recompact", "compaction")
    return "-".join("".join(c if c.isalnum() else "-" for c in word).strip("-") for word in words)


def _parameters(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _parameters(value, f"{before}{name}.")
        elif value not in (None, "", [], ()):
            yield f"{before}{name}", str(value)


@dataclass
class _Tally:
    """The episodes of a group, as sums."""

    episodes: int = 0
    success: float = 0.0
    score: float = 0.0
    steps: float = 0.0

    def add(self, success: bool, score: float, steps: int) -> None:
        self.episodes += 1
        self.success += success
        self.score += score
        self.steps += steps

    def metrics(self, group: str) -> dict[str, float]:
        means = {"success": self.success, "score": self.score, "steps": self.steps}
        return {f"{group}/episodes": float(self.episodes)} | {
            f"{group}/{name}": value / self.episodes for name, value in means.items()
        }


@dataclass
class _Listener:
    """Hears of one run. Metrics are sent as they come, tables at the end of a command, as they are then."""

    path: Path
    experiment: Experiment
    templates: str  # their name
    tallies: dict[str, _Tally] = field(default_factory=dict)
    phases: set[str] = field(default_factory=set)
    verdicts: Sequence[Verdict] = ()
    adaptations: dict[str, AdaptationRecord] = field(default_factory=dict)

    def take(self, event: EpisodeRecorded | VerdictsRecorded | AdaptationRecorded) -> None:
        if isinstance(event, EpisodeRecorded):
            self.take_episode(event)
        elif isinstance(event, VerdictsRecorded):
            self.take_verdicts(event)
        else:
            self.adaptations[event.adaptation.method] = event.adaptation

    def take_episode(self, event: EpisodeRecorded) -> None:
        if event.phase == STARTS:  # beginnings that episodes share: they are counted there
            return
        group = _group(event.store, event.phase, event.unit, event.arm)
        if event.phase in self.phases:
            score = event.trajectory.score
            self._tally(group).add(score.success, score.value, event.trajectory.steps)
        else:  # what earlier commands recorded counts, and this episode is among it
            self.phases.add(event.phase)
            for other, row in _recorded_rows(event.store, event.phase):
                self._tally(other).add(row.success, row.value, row.steps)
        tally = self._tally(group)
        self.experiment.add_metrics(tally.metrics(group), tally.episodes)

    def _tally(self, group: str) -> _Tally:
        return self.tallies.setdefault(group, _Tally())

    def take_verdicts(self, event: VerdictsRecorded) -> None:
        self.verdicts = event.verdicts
        kinds = Counter(verdict.kind for verdict in event.verdicts)
        counts = {f"verify/{kind}": float(number) for kind, number in kinds.items()}
        self.experiment.add_metrics({"verify/boundaries": float(len(event.verdicts)), **counts}, len(event.verdicts))

    def end(self) -> None:
        with Store.read(self.path) as store:
            tokens = {f"tokens/{p}/{r}": float(n) for p, by in tokens_by_phase(store).items() for r, n in by.items()}
            original = recorded_templates(store).get(store.metadata.template)
        try:
            self.experiment.add_metrics(tokens, 0)
            if self.verdicts:
                self.experiment.add_table("verdicts", [verdict.flat() for verdict in self.verdicts])
            for method, adaptation in self.adaptations.items():
                self.experiment.add_table(f"candidates-{method}", list(_candidates(adaptation)))
                self.experiment.add_table(f"clauses-{method}", list(_clauses(adaptation)))
            for role, template in self._templates(original):  # last: not every tracker's store takes prompts
                self.experiment.add_template(self.templates, template, role)
        finally:
            self.experiment.end()

    def _templates(self, original: Template | None) -> Iterator[tuple[str, Template]]:
        if original:
            yield ORIGINAL, original
        for method, adaptation in self.adaptations.items():
            if (winner := adaptation.winner) and winner.template:
                yield f"adapted-{method}", winner.template


def _group(store: Store, phase: str, unit: str, arm: str = "") -> str:
    """The episodes that belong together: of a phase, of an arm, or of a template that is selected from."""
    if phase == CONTINUE:
        return f"{phase}/{arm}"
    if phase not in ("evaluate", "select"):
        return phase
    key = unit.split("/")[1]
    labels = {each["key"]: label for label, each in store.metadata.arms.items()}
    return f"{phase}/{labels.get(key, key[:12])}"


def _recorded_rows(store: Store, phase: str) -> Iterator[tuple[str, TrajectoryRow | ContinuationRow]]:
    if phase == CONTINUE:
        for draw in continuation_rows(store):
            yield _group(store, phase, draw.name, draw.arm), draw
    for row in trajectories(store, phase=phase) if phase != CONTINUE else ():
        yield _group(store, phase, row.unit), row


def _candidates(adaptation: AdaptationRecord) -> Iterator[dict[str, Any]]:
    """One row for each template that was in the running, the original first."""
    fits = {fit.name: fit for fit in adaptation.selection.fits} if adaptation.selection else {}
    winner = adaptation.selection.winner if adaptation.selection else ""
    templates = {ORIGINAL: adaptation.template} | {each.name: each.template for each in adaptation.candidates}
    refused = {each.name: each.objections for each in adaptation.candidates}
    for name, template in templates.items():
        fit = fits.get(name)
        yield {
            "candidate": name,
            "selected": name == winner,
            "runs": fit and fit.runs,
            "passed": fit and fit.passed,
            "steps": fit and fit.steps,
            "refused": "; ".join(refused.get(name, ())),
            **{part: template.part(part) if template else "" for part in PARTS},
        }


def _clauses(adaptation: AdaptationRecord) -> Iterator[dict[str, Any]]:
    for candidate in adaptation.candidates:
        for clause in candidate.clauses:
            yield {
                "candidate": candidate.name,
                "section": clause.section,
                "clause": clause.text,
                "answers": ", ".join(clause.answers),
                "proof": clause.proof,
            }
