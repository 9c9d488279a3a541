"""What holds of the values of every package."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
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
