"""What holds of the values of every package."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import recompact

# What goes on while something is played, kept nowhere.
STATE = ("_Course", "_State", "Bridge", "DrawAgenda", "Notices", "Search", "Turns")
PACKAGES = ("attribution", "adaptation", "compressors", "evaluation", "template")


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


@pytest.mark.parametrize("module", sorted(modules()))
def test_what_a_class_defines_takes_an_instance_or_can_be_called_on_one_all_the_same(module: str) -> None:
    for name, value in inspect.getmembers(importlib.import_module(module), inspect.isclass):
        if value.__module__ == module:
            fields = getattr(value, "__dataclass_fields__", {})  # whose defaults may be functions
            for own, method in vars(value).items():
                if inspect.isfunction(method) and own not in fields and not own.startswith("__"):
                    first = next(iter(inspect.signature(method).parameters), "nothing")
                    assert first == "self", f"{name}.{own} of {module} takes {first}"
