"""The compactions of each arm, verified like those of any collected run: every arm has a run of its own beside the
evaluation, whose stored verdicts are read for H and B."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from recompact.attribution.judgement import read_verdicts
from recompact.attribution.means import MeanEffects, ViolationEffect, mean_effects, violations_added
from recompact.attribution.verify import verify
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import Config
from recompact.engine.store.runs import open_run
from recompact.engine.store.store import Store
from recompact.engine.study import Watch
from recompact.evaluation.arms import Arm


@dataclass(frozen=True)
class ArmVerification:
    """What verifies one arm: its config and its run."""

    arm: Arm
    config: Config
    run: Path


@dataclass(frozen=True)
class ArmVerdicts:
    """What the verdicts on an arm's compactions come to. `violations` are there where the suite reports them."""

    run: Path
    effects: MeanEffects
    violations: ViolationEffect | None

    def to_json(self) -> dict[str, Any]:
        rules = self.violations and asdict(self.violations)
        return {"run": str(self.run), **asdict(self.effects), "violations": rules}


NOT_VERIFIED: Mapping[str, ArmVerdicts] = {}


def plan_verifications(config: Config, arms: Sequence[Arm], run: Path) -> list[ArmVerification]:
    """For each arm that compresses, a run named after the evaluation's and the arm."""
    plans = []
    for arm in arms:
        if arm.compresses:
            name = re.sub(r"[^\w.@+-]+", "-", arm.label)
            own = replace(config, compressor=arm.settings(config.compressor))
            plans.append(ArmVerification(arm, own, run.with_name(f"{run.stem}-{name}{run.suffix}")))
    return plans


async def verify_arm(plan: ArmVerification, watch: Watch, **opened: Any) -> None:
    """Collect the tasks under the arm, and verify its compactions; what the run already has is reused. `opened` is for
    `open_study`."""
    with open_run(plan.run) as store:
        async with open_study(plan.config, store, template=plan.arm.template, **opened) as study:
            with watch(study, f"verify {plan.arm.label}") as shown:
                await collect(shown)
                await verify(shown)


def read_arm_verdicts(plans: Sequence[ArmVerification]) -> Mapping[str, ArmVerdicts]:
    """By the label of the arm, for those that were verified."""
    verdicts = {}
    for plan in plans:
        if plan.run.is_file():
            with Store.read(plan.run) as store:
                if store.metadata.verified:
                    effects = mean_effects(read_verdicts(store))
                    verdicts[plan.arm.label] = ArmVerdicts(plan.run, effects, violations_added(store))
    return verdicts
