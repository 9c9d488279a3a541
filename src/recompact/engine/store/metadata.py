"""What a run file says about itself: which command began it, with which settings, and what later commands added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from recompact.engine.rollout import OBSERVATION_TOKENS

_LISTS = ("arm_order", "skipped", "added", "simulated", "suite_changes")


@dataclass(frozen=True)
class RunMetadata:
    """The metadata of a run. A field that the file does not have yet is empty (None for `verified`)."""

    command: str = ""  # the one that began the run
    suite: str = ""
    version: str = ""  # of Recompact
    config_hash: str = ""
    config_file: str = ""  # relative to the run file's directory
    fingerprint: Mapping[str, str] = field(default_factory=dict)  # of the suite's source and package
    suite_changes: tuple[Mapping[str, Any], ...] = ()  # that the user went on with: what changed, and after how much
    identity: Mapping[str, Any] = field(default_factory=dict)  # the settings that may not change within a run
    verified: Mapping[str, Any] | None = None  # the [verify] table that boundaries were verified with
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by label
    arm_order: tuple[str, ...] = ()  # labels as they were given: keys of JSON objects are sorted
    templates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # parts by hash of the template
    adaptations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what each method came to
    skipped: tuple[str, ...] = ()  # tasks that the run goes on without
    added: tuple[str, ...] = ()  # training tasks that a method took in besides those that the config chooses
    simulated: tuple[str, ...] = ()  # the models that are simulated, by the names that the config gives them
    results: Mapping[str, str] = field(default_factory=dict)  # hash -> directory, relative to the run file's
    planned: Mapping[str, Any] = field(default_factory=dict)  # the stage that last did something: see `plan`
    others: Mapping[str, Any] = field(default_factory=dict)  # keys that this version does not know, kept as they are

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        names = {each.name for each in fields(cls)} - {"others"}
        values = {key: value for key, value in data.items() if key in names}
        for key in _LISTS:
            if key in values:
                values[key] = tuple(values[key])
        return cls(**values, others={key: value for key, value in data.items() if key not in names})

    def to_json(self) -> dict[str, Any]:
        """As the file has it: by key, without empty fields."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "others"}
        values |= {key: list(getattr(self, key)) for key in _LISTS}
        return {key: value for key, value in values.items() if value is not None and value not in ("", [], {})} | dict(
            self.others
        )

    @property
    def step_limit(self) -> int:
        return int(self.identity["run"]["step_limit"])

    @property
    def observation_tokens(self) -> int:
        """What the agent was shown of one observation; the identity has it only where it is not the default."""
        return int(self.identity["run"].get("observation_tokens", OBSERVATION_TOKENS))

    @property
    def seed(self) -> int:
        return int(self.identity["run"]["seed"])

    @property
    def split(self) -> str:
        return str(self.identity["suite"]["split"])

    @property
    def template(self) -> str:
        """The hash of the template that the run began with; empty where it had none."""
        return str(self.identity.get("template") or "")
