"""Where the arms of a comparison come from: a run of `recompact evaluate`, or released records."""

from __future__ import annotations

from pathlib import Path

from recompact.engine.store.runs import find_run
from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import ArmRuns, read_arms
from recompact.evaluation.released import is_released, read_released
from recompact.evaluation.summary import Evaluation, evaluation


def load_arms(run: str, directory: Path) -> tuple[ArmRuns, ...]:
    """The arms of an evaluation by name or path, or of released records."""
    if is_released(run):
        return read_released(Path(run))
    with Store.read(find_run(run, directory)) as store:
        return read_arms(store)


def load_evaluation(run: str, directory: Path, runs: int | None = None) -> Evaluation:
    """All arms of an evaluation side by side, with its suite and its models; released records name neither."""
    if is_released(run):
        return evaluation(Path(run).stem, read_released(Path(run)), runs=runs)
    with Store.read(find_run(run, directory)) as store:
        return evaluation(
            store.path.stem, read_arms(store), runs=runs, suite=store.metadata.suite, models=models_of(store)
        )


def models_of(store: Store) -> dict[str, str]:
    """The models that answered the calls of a run, by role, as their servers call them."""
    tables = store.metadata.identity.get("models", {})
    by_role: dict[str, list[str]] = {}
    for name, role in sorted(store.spent()):
        by_role.setdefault(role, []).append(str(tables.get(name, {}).get("id", name)))
    return {role: " + ".join(names) for role, names in sorted(by_role.items())}
