"""Arms of an evaluation: a name, and what compresses.

Comes in: what a person wrote (`none`, `fifo`, `prompting`, `NAME=DIRECTORY`). Goes out: arms as values, each with a key
made of everything that decides its trajectories, so that records are found by what they are and not by how an arm was
called. An evaluation notes its arms in the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from recompact.compressors.prompted import Rendering, Scope
from recompact.config import CompressorConfig
from recompact.errors import InputError
from recompact.store.store import Store
from recompact.study import Study
from recompact.template import Template, load

Kind = Literal["none", "fifo", "prompted"]
PROMPTING = "prompting"
BUILT_IN = ("none", "fifo", PROMPTING)
SCOPES: tuple[Scope, ...] = ("history", "prefix")

_ARM = re.compile(r"(?P<name>[\w.+-]+)(@(?P<budget>[1-9]\d*))?(=(?P<directory>.+))?", re.DOTALL)


@dataclass(frozen=True)
class Arm:
    """What compresses in one arm. Scope, rendering and template are of prompted ones only, the budget not of `none`."""

    name: str
    kind: Kind
    budget: int | None = None
    scope: Scope | None = None
    rendering: Rendering | None = None
    template: Template | None = None

    @property
    def label(self) -> str:
        """How people name it: `fifo`, `pair/history`."""
        return label(self.name, self.scope)

    @property
    def key(self) -> str:
        """What decides its trajectories besides task and run; two arms with the same key are run once."""
        parts: list[str] = [self.kind]
        if self.budget is not None:
            parts.append(str(self.budget))
        if self.template is not None:
            shown = f"{self.scope}-{self.rendering}" if self.scope == "prefix" else str(self.scope)
            parts += [shown, self.template.hash[:16]]
        return "-".join(parts)

    def study(self, study: Study) -> Study:
        """The study with this arm's compressor in place of the config's."""
        settings = replace(
            study.config.compressor,
            kind=self.kind,
            budget=self.budget or study.config.compressor.budget,
            scope=self.scope or "history",
            rendering=self.rendering or "quoted",
        )
        config = replace(study.config, compressor=settings)
        return replace(study, config=config, template=self.template or study.template)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "scope": self.scope,
            "kind": self.kind,
            "budget": self.budget,
            "rendering": self.rendering,
            "template": self.template.hash if self.template else None,
            "key": self.key,
        }


def label(name: str, scope: str | None) -> str:
    return f"{name}/{scope}" if scope else name


def parse_arms(
    texts: Sequence[str], settings: CompressorConfig, own: Template, scopes: Iterable[Scope] = ()
) -> tuple[Arm, ...]:
    """The arms that a person named, in that order; each prompted one once for every scope.

    `own` is the config's own template: that of the arm `prompting`. A budget of its own is written `NAME@BUDGET`.
    """
    chosen = tuple(dict.fromkeys(scopes)) or (settings.scope,)
    arms: dict[str, Arm] = {}
    for text in texts:
        for arm in _parse_arm(text, settings, own, chosen):
            if arm.label in arms:
                raise InputError(f"the arm {arm.name!r} is given twice: give each its own name, as in NAME=DIRECTORY")
            arms[arm.label] = arm
    if not arms:
        raise InputError(f"there is no arm to evaluate: give --arm {', --arm '.join(BUILT_IN)} or --arm NAME=DIRECTORY")
    return tuple(arms.values())


def _parse_arm(text: str, settings: CompressorConfig, own: Template, scopes: Sequence[Scope]) -> list[Arm]:
    found = _ARM.fullmatch(text)
    if not found:
        raise InputError(f"--arm {text!r} is no arm: {', '.join(BUILT_IN)}, or NAME=DIRECTORY of a template")
    name, directory = found["name"], found["directory"]
    budget = int(found["budget"]) if found["budget"] else settings.budget
    shown = f"{name}@{budget}" if found["budget"] else name
    if directory is None and name not in BUILT_IN:
        raise InputError(f"--arm {name}: {name!r} is none of {', '.join(BUILT_IN)}; a template is NAME=DIRECTORY")
    if directory is not None and name in BUILT_IN:
        raise InputError(f"--arm {text}: {name!r} is an arm of its own; give the template another name")
    if name == "none":
        return [Arm(name, "none")]
    if name == "fifo":
        return [Arm(shown, "fifo", budget)]
    template = own if directory is None else load(Path(directory))
    return [
        Arm(shown, "prompted", budget, scope, settings.rendering if scope == "prefix" else "quoted", template)
        for scope in scopes
    ]


def note_arms(store: Store, arms: Sequence[Arm]) -> None:
    """Write down which arms a run has. A name stands for one thing throughout a run."""
    meta = store.meta
    known: dict[str, Any] = meta.get("arms", {})
    for arm in arms:
        before = known.get(arm.label)
        if before is not None and before["key"] != arm.key:
            raise InputError(
                f"{store.path} has another arm {arm.label!r} ({before['key']}, now {arm.key}):"
                " give this one another name, as in --arm NAME=DIRECTORY, or its own --run NAME"
            )
    templates: dict[str, Any] = meta.get("templates", {})
    for template in filter(None, (arm.template for arm in arms)):
        parts = ("system", "first", "update", "frame")
        templates[template.hash] = {part: template.part(part) for part in parts}
    order = list(dict.fromkeys([*meta.get("arm_order", ()), *(arm.label for arm in arms)]))
    noted = {**known, **{arm.label: arm.to_json() for arm in arms}}
    if noted != known:
        # Keys are sorted when they are written, and the order in which arms were given is that of the tables.
        store.set_meta(arms=noted, arm_order=order, templates=templates)
