"""MLflow: `recompact --track mlflow` keeps each run as a run of MLflow, and templates as versions of a prompt.

Where it goes is MLflow's own setting, MLFLOW_TRACKING_URI; its experiment is MLFLOW_EXPERIMENT_NAME, or the suite.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from recompact.integrations.common import library
from recompact.integrations.experiments import Rows, TrackedRun, start_tracking
from recompact.values.template import Template

_TAG = "recompact.run"
_VALUE = 6000  # characters of a parameter that MLflow takes
_PROMPTS: tuple[Literal["first", "update"], ...] = ("first", "update")


def start() -> Callable[[], None]:
    """Send what is recorded to MLflow from now on; the function that is returned ends that."""
    mlflow = library("mlflow", "mlflow")
    return start_tracking(lambda run: _begin(mlflow, run))


def _begin(mlflow: Any, run: TrackedRun) -> _Run:
    """The run of MLflow for a run file: the one that an earlier command began, or a new one."""
    client = mlflow.MlflowClient()
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.suite
    experiment = client.get_experiment_by_name(name)
    id = experiment.experiment_id if experiment else client.create_experiment(name)
    earlier = client.search_runs([id], f"tags.`{_TAG}` = '{run.key}'", max_results=1)
    begun = earlier[0] if earlier else client.create_run(id, run_name=run.name, tags={_TAG: run.key})
    client.set_terminated(begun.info.run_id, "RUNNING")
    return _Run(mlflow, client, begun.info.run_id)


@dataclass(frozen=True)
class _Run:
    mlflow: Any
    client: Any
    id: str

    def set_parameters(self, values: Mapping[str, str]) -> None:
        entities = self.mlflow.entities
        params = [entities.Param(_safe(name), value[:_VALUE]) for name, value in values.items()]
        self.client.log_batch(self.id, params=params)

    def add_metrics(self, values: Mapping[str, float], step: int) -> None:
        named = {_safe(name): value for name, value in values.items()}
        self.mlflow.log_metrics(named, step=step, synchronous=False, run_id=self.id)  # the work does not wait for it

    def add_table(self, name: str, rows: Rows) -> None:
        """MLflow adds to a table that is there, so that one from an earlier command keeps its name and stays."""
        if not rows:
            return
        there = {each.path for each in self.client.list_artifacts(self.id)}
        names = (f"{name}{number}.json" for number in ("", *(f"-{n}" for n in range(2, len(there) + 3))))
        columns = {column: [row[column] for row in rows] for column in rows[0]}
        self.client.log_table(self.id, columns, next(each for each in names if each not in there))

    def add_template(self, name: str, template: Template, role: str) -> None:
        """Two prompts, as a compressor is sent them: of the first compaction, and of later ones."""
        genai, mark = self.mlflow.genai, f"t{template.hash[:16]}"  # an alias for its texts
        for part in _PROMPTS:
            prompt = f"{name}-{part}"
            version = genai.load_prompt(f"prompts:/{prompt}@{mark}", allow_missing=True, link_to_model=False)
            if version is None:
                messages = [{"role": "user", "content": template.framed(part)}]
                if template.system:
                    messages.insert(0, {"role": "system", "content": template.system})
                tags = {"recompact.template": template.hash, _TAG: self.id}
                version = genai.register_prompt(prompt, messages, commit_message=role, tags=tags)
                genai.set_prompt_alias(prompt, mark, version.version)
            genai.set_prompt_alias(prompt, _safe(role), version.version)

    def end(self) -> None:
        self.mlflow.flush_async_logging()
        self.client.set_terminated(self.id)


def _safe(name: str) -> str:
    """A name with nothing in it that MLflow refuses."""
    return re.sub(r"[^\w. /-]", "_", name)
