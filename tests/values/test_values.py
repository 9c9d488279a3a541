"""What holds of the values of every package."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import FunctionType, ModuleType

import pytest

import recompact

# What goes on while something is played, kept nowhere.
STATE = (
    "Bridge",
    "DrawAgenda",
    "GepaSearch",
    "Notices",
    "Tally",
    "Turns",
    "_Agenda",
    "_Course",
    "_Inquiry",
    "_Open",
    "_State",
    "_View",
)
# Settings: whoever gives none gets these. What is not a setting counts nothing and says no unless it is told to.
USUAL: Mapping[str, float] = {
    "Anchors.tokens": 256,
    "Checked.tokens": 256,
    "ClearToolResults.keep": 3,
    "DrawAgenda._changed": True,
    "Gate.margin": 3.0,
    "Halving.rounds": 3,
    "Lengths.dispersion": 0.42,
    "Levels.spread": 1.0,
    "Masking.turns": 10,
    "Method.asks_optimizer": True,
    "Method.selections": 1,
    "Native.over": 50_000,
    "Number.digits": 1,
    "Optimizer.redraws": 3,
    "Pinned.rules": True,
    "PostOnly.draws": 3,
    "Prior.dispersion": 0.42,
    "Range.first": 1,
    "Range.last": 10**9,
    "Recall.tokens": 1_000,
    "RunEpisodes.compaction": True,
    "Search.most": 40,
    "SequentialTest.error": 0.15,
    "SequentialTest.fewest": 2,
    "SequentialTest.most": 8,
    "Setting.runs": 3,
    "Settings.contrast": True,
    "Settings.prior": True,
    "Settings.weights": True,
    "StoppingRule.cap": 10,
    "StoppingRule.harmful": 0.9,
    "Tail.turns": 1,
    "Thresholds.burden": 5.0,
    "Thresholds.hazard": 0.5,
    "Uniform.draws": 3,
    "UnseenTasks.baselines": True,
    "ViolationEffect.trajectories": 6,
    "acon_ut.samples": 30,
    "acon_ut_locked.samples": 30,
    "acon_utco.samples": 30,
    "allowance.share": 0.5,
    "behaviours.resamples": 10_000,
    "bisect.share": 0.5,
    "bootstrap.resamples": 10_000,
    "bootstrap_crossed.resamples": 10_000,
    "bootstrap_ratios.resamples": 10_000,
    "burden_estimate.dispersion": 0.42,
    "causes.contrast": True,
    "causes.prior": True,
    "causes.weights": True,
    "check_directory.whole": True,
    "check_identity.resamples": 2_000,
    "compaction_unit.generations": 2,
    "compare.resamples": 10_000,
    "compare_many.resamples": 10_000,
    "estimate_cell.scale": 1.0,
    "estimates.resamples": 10_000,
    "first_above.error": 0.05,
    "gepa.minibatch": 3,
    "headline.settled": True,
    "imagined_draws.steps": 15,
    "lower_bound.error": 0.05,
    "of.dispersion": 0.42,
    "percentile_estimate.confidence": 0.95,
    "probable_count.confidence": 0.95,
    "read_small.most": 16 * 2**20,
    "replay.draws": 3,
    "resampled_means.resamples": 10_000,
    "rollouts.rounds": 3,
    "safe.limit": 400,
    "safe_line.limit": 200,
    "sensitivity_to_draws.subsamples": 1_000,
    "sensitivity_to_thresholds.draws": 3,
    "shown_turn.long": 1_600,
    "split.window": 510,
}
PACKAGES = ("attribution", "adaptation", "compressors", "evaluation", "values")


def modules() -> Iterator[str]:
    for module in pkgutil.iter_modules(recompact.__path__):
        if not module.ispkg and module.name not in ("__main__",):
            yield f"recompact.{module.name}"
    for package in PACKAGES:
        path = importlib.import_module(f"recompact.{package}").__path__
        yield from (module.name for module in pkgutil.walk_packages(path, f"recompact.{package}."))


@pytest.mark.parametrize("module", sorted(modules()))
def test_values_are_frozen_so_that_what_was_compared_or_recorded_stays_as_it_was(module: str) -> None:
    for name, value in inspect.getmembers(importlib.import_module(module), inspect.isclass):
        if value.__module__ == module and dataclasses.is_dataclass(value) and name not in STATE:
            frozen = value.__dataclass_params__.frozen  # type: ignore[attr-defined]
            assert frozen, f"{name} of {module} can be changed"


def functions(value: type | ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """The functions of a module and the methods of its classes, as they were written there."""
    for name, member in vars(value).items():
        if isinstance(member, FunctionType):
            yield name, member
        elif isinstance(member, staticmethod | classmethod) and isinstance(member.__func__, FunctionType):
            yield name, member.__func__


def own_classes(module: str) -> list[type]:
    found = [value for _, value in inspect.getmembers(importlib.import_module(module), inspect.isclass)]
    return [value for value in found if value.__module__ == module]


@pytest.mark.parametrize("module", sorted(modules()))
def test_what_needs_no_value_of_its_class_can_be_called_on_one_all_the_same(module: str) -> None:
    for owner in own_classes(module):
        for name, member in vars(owner).items():
            a_default = name in getattr(owner, "__dataclass_fields__", {})
            if isinstance(member, FunctionType) and member.__module__ == module and not a_default:
                first = next(iter(inspect.signature(member).parameters), "")
                assert first == "self", f"{owner.__name__}.{name} of {module} takes a value for {first!r}"


@pytest.mark.parametrize("module", sorted(modules()))
def test_every_parameter_can_be_given_by_its_name(module: str) -> None:
    owners: list[type | ModuleType] = [importlib.import_module(module), *own_classes(module)]
    for owner in owners:
        for name, function in functions(owner):
            kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
            assert inspect.Parameter.POSITIONAL_ONLY not in kinds or function.__module__ != module, name


def defaults(module: str) -> Iterator[tuple[str, object]]:
    """What fields and parameters of a module are where nobody says otherwise."""
    for kind in own_classes(module):
        if dataclasses.is_dataclass(kind):
            yield from ((f"{kind.__name__}.{field.name}", field.default) for field in dataclasses.fields(kind))
    owners: list[type | ModuleType] = [importlib.import_module(module), *own_classes(module)]
    for owner in owners:
        for name, function in functions(owner):
            if function.__module__ == module and not (name == "__init__" and dataclasses.is_dataclass(owner)):
                called = owner.__name__ if name in ("__init__", "__call__") else name
                yield from ((f"{called}.{p.name}", p.default) for p in inspect.signature(function).parameters.values())


@pytest.mark.parametrize("module", sorted(modules()))
def test_what_nobody_says_counts_nothing_and_is_off_unless_it_is_a_setting(module: str) -> None:
    for name, default in defaults(module):
        if isinstance(default, bool | int | float) and not name.startswith("_"):
            assert default == USUAL.get(name, 0), f"{name} of {module}"


@pytest.mark.parametrize("module", sorted(modules()))
def test_what_is_read_off_a_value_of_a_kind_is_read_off_all_of_that_kind(module: str) -> None:
    for owner in own_classes(module):
        for name, member in vars(owner).items():
            for base in owner.__mro__[1:]:
                if isinstance(vars(base).get(name), property | cached_property):
                    read = isinstance(member, property | cached_property) or not callable(member)
                    assert read, f"{owner.__name__}.{name} of {module} has to be called"
