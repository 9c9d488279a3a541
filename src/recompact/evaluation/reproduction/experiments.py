"""The runs behind the paper's tables: adaptations, an evaluation, budgets, nine draws at every boundary, other models.

Each is one run file, so it can be stopped and resumes where it left off, and tables share the runs that they both need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recompact.adaptation.adapt import adapt
from recompact.adaptation.result import write_result
from recompact.attribution.verify import verify
from recompact.compressors.protocol import SCOPES, Scope
from recompact.compressors.registry import COMPRESSORS
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import Config
from recompact.engine.store.runs import open_run
from recompact.engine.store.store import Store
from recompact.engine.study import Watch
from recompact.errors import RecompactError
from recompact.evaluation.arms import NONE, PROMPTED, PROMPTING, Arm
from recompact.evaluation.evaluate import evaluate, open_evaluation, with_split
from recompact.evaluation.reproduction.paper import Benchmark, benchmark, test_split
from recompact.values.template import load

METHODS = ("acon-ut", "acon-utco", "pair")
LOCKED = "acon-ut-locked"
LINGUA = "llmlingua2"
DRAWS = 9  # of each arm in the diagnostic analyses


class UnusableAdaptation(RecompactError):
    """An adaptation came to nothing, so there is no template to evaluate."""


async def adapt_into(config: Config, store: Store, place: Path, name: str, watch: Watch) -> None:
    """Adapt, and write the template to a directory; what the run already has is reused."""
    async with open_study(config, store) as study:
        with watch(study, name) as shown:
            adaptation = await adapt(shown)
        if adaptation.unusable:
            raise UnusableAdaptation(
                f"{store.path}: no answer of the optimizer was usable ({adaptation.statement}); the same command asks"
                " it again"
            )
        write_result(study, adaptation, place, datetime.now(UTC).date().isoformat())


@dataclass(frozen=True)
class Setting:
    """What all experiments of one reproduction share."""

    config: Config
    directory: Path
    scopes: tuple[Scope, ...] = SCOPES
    runs: int = 3
    train: int | None = None  # tasks to adapt on; all of the split by default
    test: int | None = None
    others: tuple[Config, ...] = ()  # the same suite with other models
    released: Mapping[Scope, Path] = field(default_factory=dict)  # templates that somebody else adapted

    @property
    def known(self) -> Benchmark | None:
        """The paper's benchmark that the suite is, or stands beside."""
        return benchmark(self.config.suite.use)

    def printed(self, table: str, *keys: str) -> Any:
        """A figure of the paper's for that benchmark, or None."""
        return self.known.of(table, *keys) if self.known else None

    def path(self, name: str) -> Path:
        """The file of a run."""
        return self.directory / f"{name}.db"

    @property
    def test_split(self) -> str:
        return test_split(self.config.suite.use)

    def training(self, scope: Scope) -> Config:
        config = with_split(self.config, "train", self.train)
        return replace(config, compressor=replace(config.compressor, scope=scope))

    def template(self, method: str, scope: Scope) -> Path:
        """Where an adapted template is written."""
        return self.directory / f"{method}-{scope}"


async def _evaluate(setting: Setting, config: Config, run: str, arms: Sequence[Arm], watch: Watch) -> None:
    with open_run(setting.path(run)) as store:
        async with open_evaluation(config, store) as study:
            with watch(study, run) as shown:
                await evaluate(shown, arms, setting.runs)


@dataclass(frozen=True)
class Adaptations:
    """The methods in one scope, in one run: they share its trajectories and, where they need them, its effects."""

    scope: Scope
    methods: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"adapt-{self.scope}"

    async def play(self, setting: Setting, watch: Watch) -> None:
        config = setting.training(self.scope)
        with open_run(setting.path(self.name)) as store:
            for method in self.methods:
                chosen = replace(config, adapt=replace(config.adapt, method=method, options={}))
                place = setting.template(method, self.scope)
                await adapt_into(chosen, store, place, f"{self.name}: {method}", watch)


@dataclass(frozen=True)
class UnseenTasks:
    """All arms on the unseen tasks, with the config's models or with others."""

    methods: tuple[str, ...]
    other: int | None = None  # which of the other configs
    baselines: bool = True
    released: bool = False  # with templates that somebody else adapted

    @property
    def name(self) -> str:
        if self.released:
            return "released"
        return "evaluate" if self.other is None else f"transfer-{self.other + 1}"

    async def play(self, setting: Setting, watch: Watch) -> None:
        config = with_split(self.config(setting), setting.test_split, setting.test)
        await _evaluate(setting, config, self.name, self.arms(setting), watch)

    def config(self, setting: Setting) -> Config:
        return setting.config if self.other is None else setting.others[self.other]

    def arms(self, setting: Setting) -> tuple[Arm, ...]:
        return (*self.unscoped(), *(arm for scope in setting.scopes for arm in self._scoped_arms(setting, scope)))

    def unscoped(self) -> tuple[Arm, ...]:
        """The arms that need no template."""
        kinds = ["fifo", *([LINGUA] if lingua_installed() else [])] if self.baselines else []
        return (Arm(NONE, NONE), *(Arm(kind, kind) for kind in kinds))

    def _scoped_arms(self, setting: Setting, scope: Scope) -> list[Arm]:
        places = {method: setting.template(method, scope) for method in self.methods}
        if self.released:
            places = dict.fromkeys(self.methods, setting.released[scope])
        adapted = [
            Arm(name, PROMPTED, scope=scope, template=load(place), directory=str(place))
            for name, place in places.items()
        ]
        return [Arm(PROMPTING, PROMPTED, scope=scope), *adapted]


@dataclass(frozen=True)
class Windows:
    """Prompting under several budgets beside no compaction, on the training tasks, in one scope."""

    scope: Scope = "history"

    @property
    def name(self) -> str:
        return _in_scope("windows", self.scope)

    async def play(self, setting: Setting, watch: Watch) -> None:
        config = with_split(setting.config, "train", setting.train)
        await _evaluate(setting, config, self.name, self.arms(setting), watch)

    def arms(self, setting: Setting) -> tuple[Arm, ...]:
        swept = [Arm(f"{PROMPTING}@{budget}", PROMPTED, budget, self.scope) for budget in self.budgets(setting)]
        return (Arm(NONE, NONE), *swept)

    def budgets(self, setting: Setting) -> tuple[int, ...]:
        """Half the config's budget, the budget, and twice that: the paper does not print its own."""
        budget = setting.config.compressor.budget
        return budget // 2, budget, 2 * budget


@dataclass(frozen=True)
class Diagnostics:
    """Nine draws in each arm of every boundary of one scope: the basis of the paper's analyses of boundaries.

    Where it is `adapted` too, PAIR writes its clauses from all of these draws, which shows what fewer would support.
    """

    scope: Scope = "history"
    adapted: bool = False

    @property
    def name(self) -> str:
        return _in_scope("boundaries", self.scope)

    async def play(self, setting: Setting, watch: Watch) -> None:
        config = setting.training(self.scope)
        config = replace(
            config,
            verify=replace(config.verify, allocation=f"uniform:{DRAWS}"),
            adapt=replace(config.adapt, method="pair", options={}),
        )
        with open_run(setting.path(self.name)) as store:
            async with open_study(config, store) as study:
                with watch(study, self.name) as shown:
                    await collect(shown)
                    await verify(shown)
                    if self.adapted:
                        await adapt(shown)


Experiment = Adaptations | UnseenTasks | Windows | Diagnostics


def _in_scope(name: str, scope: Scope) -> str:
    return name if scope == "history" else f"{name}-{scope}"


def lingua_installed() -> bool:
    """Whether the LLMLingua-2 arm can be run here."""
    return LINGUA in COMPRESSORS.names() and find_spec("llmlingua") is not None


def join_experiments(experiments: Sequence[Experiment]) -> tuple[Experiment, ...]:
    """Each run once, with all the methods asked for, and adaptations before what evaluates them."""
    by_name: dict[str, Experiment] = {}
    for experiment in experiments:
        known = by_name.get(experiment.name)
        if isinstance(experiment, (Adaptations, UnseenTasks)) and isinstance(known, (Adaptations, UnseenTasks)):
            methods = tuple(dict.fromkeys([*known.methods, *experiment.methods]))
            by_name[experiment.name] = replace(known, methods=methods)
        elif not (isinstance(known, Diagnostics) and known.adapted):
            by_name[experiment.name] = experiment
    return tuple(sorted(by_name.values(), key=lambda e: not isinstance(e, Adaptations)))
