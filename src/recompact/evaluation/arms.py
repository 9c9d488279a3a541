"""Arms of an evaluation: a name, and what compresses.

An arm has a key made of everything that decides its trajectories, so that records are found by what they are and not by
the name of an arm; a ready compressor object has nothing else, and goes by the name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recompact.compressors.protocol import Compressor, CompressorKind, Rendering, Scope
from recompact.compressors.registry import COMPRESSORS, PLUS, WRAPPING, compressor_kind, stages_of
from recompact.engine.config import CompressorConfig
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.errors import InputError
from recompact.triggers.registry import BUDGET, load_trigger
from recompact.values.chat import canonical, sha256
from recompact.values.template import Template, resolve

NONE = "none"
PROMPTED = "prompted"
PROMPTING = "prompting"
"""The arm with the config's own template."""

_ARM = re.compile(
    r"(?P<name>[\w.+-]+)(@(?P<budget>[1-9]\d*))?(@(?P<trigger>[^\d@=][^@=]*))?(=(?P<place>.+))?", re.DOTALL
)


@dataclass(frozen=True)
class Arm:
    """What compresses in one arm: a kind of compressor by name, or a ready one.

    What is not given is the config's: the budget of an arm that compresses; the options of one of the config's own
    kind; scope, rendering and template of one that uses a template.
    """

    name: str
    kind: str = PROMPTED
    budget: int | None = None
    scope: Scope | None = None
    rendering: Rendering | None = None
    template: Template | None = None
    adapted_with: tuple[tuple[str, str], ...] = ()  # role and model, where a manifest beside the template says so
    adapted_on: tuple[str, ...] = ()  # the tasks that it was adapted on, where the manifest says so
    adapted_suite: str = ""  # the suite that these belong to
    options: Mapping[str, Any] | None = None
    compressor: Compressor | CompressorKind | None = None
    directory: str = ""  # of its template, as given
    trigger: str | None = None  # where it is not the config's

    @property
    def label(self) -> str:
        """What people call it: `fifo`, `pair/history`."""
        return label(self.name, self.scope)

    @property
    def base(self) -> str:
        """Its name without any budget."""
        return self.name.partition("@")[0]

    @property
    def compresses(self) -> bool:
        return self.kind != NONE or self.compressor is not None

    @property
    def key(self) -> str:
        """What decides its trajectories besides task and run; two arms with the same key are run once."""
        parts = [re.sub(r"[^\w.+-]+", "_", self.kind if self.compressor is None else self.name)]
        if self.options:
            parts.append(sha256(canonical(dict(self.options)))[:8])
        if self.budget is not None:
            parts.append(str(self.budget))
        if self.template is not None:
            view = f"{self.scope}-{self.rendering}" if self.scope == "prefix" else str(self.scope)
            parts += [view, self.template.hash[:16]]
        if self.trigger not in (None, BUDGET):
            parts.append(re.sub(r"[^\w.+-]+", "_", str(self.trigger)))
        return "-".join(parts)

    def settings(self, own: CompressorConfig) -> CompressorConfig:
        """[compressor] as this arm has it, with the config's `own` values for what the arm leaves open."""
        same = self.kind == own.kind and self.options in (None, own.options)
        return replace(
            own,
            kind=self.kind,
            options=own.options if same else dict(self.options or {}),
            budget=self.budget or own.budget,
            scope=self.scope or "history",
            rendering=self.rendering or "quoted",
            trigger=self.trigger or own.trigger,
        )

    def study(self, study: Study) -> Study:
        """The study with this arm's compressor in place of the config's."""
        other = study.compressing(self.settings(study.config.compressor))
        if self.compressor is not None:
            other = replace(
                other, compressor_kind=compressor_kind(self.compressor, {}, self.name, study.config.directory)
            )
        return replace(other, template=self.template or study.template)

    def completed(self, study: Study) -> Arm:
        """The arm with the config's values where it has none of its own."""
        if not self.compresses:
            return self
        settings = study.config.compressor
        if self.trigger is not None:
            load_trigger(self.trigger, study.config.directory)  # now, and not in the middle of the first episode
        arm = replace(self, budget=self.budget or settings.budget)
        if arm.trigger is None and settings.trigger != BUDGET:
            arm = replace(arm, trigger=settings.trigger)
        if self.options is None and self.compressor is None and self.kind == settings.kind and settings.options:
            arm = replace(arm, options=settings.options)  # so that its key says what it was built with
        if conflict := arm.settings(settings).scope_conflict(study.config.agent.external):
            raise InputError(f"the arm {self.label}: {conflict}")
        if not self.study(study).compressor_kind.uses_template:
            return arm
        scope = arm.scope or settings.scope
        rendering = arm.rendering or (settings.rendering if scope == "prefix" else "quoted")
        return replace(arm, scope=scope, rendering=rendering, template=arm.template or study.template)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "scope": self.scope,
            "kind": self.kind,
            "budget": self.budget,
            "rendering": self.rendering,
            "template": self.template.hash if self.template else None,
            "key": self.key,
            **({"adapted_with": dict(self.adapted_with)} if self.adapted_with else {}),
            **({"adapted_on": list(self.adapted_on), "adapted_suite": self.adapted_suite} if self.adapted_on else {}),
            **({"directory": self.directory} if self.directory else {}),
            **({"trigger": self.trigger} if self.trigger not in (None, BUDGET) else {}),
        }


def label(name: str, scope: str | None) -> str:
    return f"{name}/{scope}" if scope else name


def built_in_arms() -> tuple[str, ...]:
    """Arms that need no directory: none, the config's own template, and compressors that need no template."""
    return (*(name for name in COMPRESSORS.names() if name not in (PROMPTED, *WRAPPING)), PROMPTING)


def parse_arms(
    texts: Sequence[str],
    settings: CompressorConfig,
    own: Template,
    scopes: Iterable[Scope] = (),
    budgets: Iterable[int] = (),
) -> tuple[Arm, ...]:
    """The arms that the user named, in that order; each prompted one once for every scope.

    `own` is the config's own template: that of the arm `prompting`. An arm's own budget is written `NAME@BUDGET`;
    `budgets` are for every arm that compresses and has none.
    """
    chosen = tuple(dict.fromkeys(scopes)) or (settings.scope,)
    swept = tuple(dict.fromkeys(budgets))
    arms: dict[str, Arm] = {}
    for text in texts:
        for arm in _parse_arm(text, settings, own, chosen, swept):
            if arm.label in arms:
                raise InputError(f"the arm {arm.name!r} is given twice: give each its own name, as in NAME=DIRECTORY")
            arms[arm.label] = arm
    if not arms:
        names = ", --arm ".join(built_in_arms())
        raise InputError(f"no arm to evaluate: give --arm {names} or --arm NAME=DIRECTORY")
    return tuple(arms.values())


def _parse_arm(
    text: str, settings: CompressorConfig, own: Template, scopes: Sequence[Scope], budgets: Sequence[int]
) -> list[Arm]:
    known = built_in_arms()
    parsed = _ARM.fullmatch(text)
    if not parsed:
        raise InputError(f"--arm {text!r}: unknown arm; use {', '.join(known)}, or NAME=DIRECTORY of a template")
    name, place = parsed["name"], parsed["place"]
    stages = [PROMPTED if stage == PROMPTING else stage for stage in stages_of(name)]
    joined = len(stages) > 1 and all(stage in COMPRESSORS.names() for stage in stages)
    if place is None and name not in known and not joined:
        raise InputError(f"--arm {name}: unknown arm; use {', '.join(known)}, or NAME=DIRECTORY of a template")
    if place is not None and (name in known or joined):
        raise InputError(f"--arm {text}: {name!r} is an arm of its own; give the template another name")
    if name == NONE:
        if parsed["budget"]:
            raise InputError(f"--arm {text}: nothing is compressed in 'none', so it has no budget: write --arm none")
        return [Arm(NONE, NONE)]
    trigger = parsed["trigger"]
    ending = f"@{trigger}" if trigger else ""
    swept = (int(parsed["budget"]),) if parsed["budget"] else budgets
    named = [(f"{name}@{budget}{ending}", budget) for budget in swept] or [(f"{name}{ending}", settings.budget)]
    if place is None and name != PROMPTING:
        template, own_scopes = (own, scopes) if PROMPTED in stages else (None, (None,))
        return [
            Arm(label, PLUS.join(stages), budget, scope, template=template, trigger=trigger)
            for label, budget in named
            for scope in own_scopes
        ]
    if place is not None and ":" in place and not Path(place).is_dir():  # the user's own compressor
        return [Arm(label, place, budget, trigger=trigger) for label, budget in named]
    template = own if place is None else resolve(place, Path())
    rendering: dict[Scope, Rendering] = {"history": "quoted", "prefix": settings.rendering, "observation": "quoted"}
    origin = _origin(Path(place), template) if place is not None else {}
    return [
        Arm(
            label, PROMPTED, budget, scope, rendering[scope], template, directory=place or "", trigger=trigger, **origin
        )
        for label, budget in named
        for scope in scopes
    ]


def _origin(directory: Path, template: Template) -> dict[str, Any]:
    """With which models and on which tasks a template was adapted, as fields of an arm, if a manifest beside it is
    about this very text. A template that an adaptation kept as it was has seen no task."""
    try:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        if manifest["hash"] != template.hash:  # the text has changed since
            return {}
        config = manifest.get("config", {})
        tables = config.get("models", {})
        names = {str(role): str(name) for role, name in manifest["models"].items()}
        models = tuple((role, str(tables.get(name, {}).get("id", name))) for role, name in names.items())
        seen = {str(task) for key in ("training_tasks", "fit_tasks") for task in manifest.get(key, ())}
        if manifest.get("parent") == manifest["hash"]:
            seen = set()
        suite = str(config.get("suite", {}).get("use", ""))
        return {"adapted_with": models, "adapted_on": tuple(sorted(seen)), "adapted_suite": suite}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def note_arms(store: Store, arms: Sequence[Arm]) -> None:
    """Record which arms a run has. A name means one thing throughout a run."""
    metadata = store.metadata
    known = metadata.arms
    for arm in arms:
        before = known.get(arm.label)
        if before is not None and before["key"] != arm.key:
            raise InputError(
                f"{store.path} has another arm {arm.label!r} ({before['key']}, now {arm.key}):"
                " give this one another name, as in --arm NAME=DIRECTORY, or its own --run NAME"
            )
    templates = dict(metadata.templates)
    for template in filter(None, (arm.template for arm in arms)):
        templates[template.hash] = template.parts()
    order = tuple(dict.fromkeys([*metadata.arm_order, *(arm.label for arm in arms)]))
    noted = {**known, **{arm.label: arm.to_json() for arm in arms}}
    if noted != known:
        # Keys are sorted when written, and tables show arms in the order in which they were given.
        store.set_metadata(replace(metadata, arms=noted, arm_order=order, templates=templates))
