"""Weights & Biases: `recompact --track wandb` keeps each run as a run of W&B, and templates as versions of an artifact.

W&B's own variables say where (WANDB_PROJECT, WANDB_MODE); with WANDB_MODE=offline everything stays in ./wandb.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recompact.integrations.common import library
from recompact.integrations.experiments import Rows, TrackedRun, start_tracking
from recompact.values.template import Template


def start() -> Callable[[], None]:
    """Send what is recorded to W&B from now on; the function that is returned ends that."""
    wandb = library("wandb", "wandb")
    return start_tracking(lambda run: _begin(wandb, run))


def _begin(wandb: Any, run: TrackedRun) -> _Run:
    project = os.environ.get("WANDB_PROJECT") or "recompact"
    settings = wandb.Settings(console="off", silent=True)  # what a command prints is its own
    begun = wandb.init(
        project=project,
        id=run.key[:32],
        name=run.name,
        group=run.suite,
        resume="allow",
        reinit="create_new",
        settings=settings,
    )
    return _Run(wandb, begun)


@dataclass(frozen=True)
class _Run:
    wandb: Any
    run: Any

    def set_parameters(self, values: Mapping[str, str]) -> None:
        self.run.config.update(dict(values), allow_val_change=True)

    def add_metrics(self, values: Mapping[str, float], step: int) -> None:
        self.run.log(dict(values))  # W&B counts its steps itself; the number of episodes is among the values

    def add_table(self, name: str, rows: Rows) -> None:
        if rows:
            columns = list(rows[0])
            data = [[row[column] for column in columns] for row in rows]
            self.run.log({name: self.wandb.Table(columns=columns, data=data, allow_mixed_types=True)})

    def add_template(self, name: str, template: Template, role: str) -> None:
        """W&B makes a new version only where the texts differ from the last one's."""
        artifact = self.wandb.Artifact(name, type="prompt", metadata={"recompact.template": template.hash})
        for part, text in template.parts().items():
            if text:
                with artifact.new_file(f"{part}.md", encoding="utf-8") as file:
                    file.write(text)
        self.run.log_artifact(artifact, aliases=["latest", role])

    def end(self) -> None:
        self.run.finish()
