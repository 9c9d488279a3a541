"""From the name of a method to the method: built in, installed, or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from recompact.adaptation.method import Method
from recompact.engine.config import Config
from recompact.engine.study import Study
from recompact.errors import InputError
from recompact.registry import Registry

METHODS = Registry(
    "method",
    "recompact.methods",
    {
        "pair": "recompact.adaptation.pair:PAIR",
        "causes": "recompact.adaptation.causes:causes",
        "acon-ut": "recompact.adaptation.acon:acon_ut",
        "acon-utco": "recompact.adaptation.acon:acon_utco",
        "acon-ut-locked": "recompact.adaptation.acon:acon_ut_locked",
        "facts": "recompact.adaptation.facts:FACTS",
        "facts-entries": "recompact.adaptation.facts:FACTS_ENTRIES",
        "gepa": "recompact.adaptation.gepa_search:gepa",
        "causes-random": "recompact.adaptation.causes:causes_random",
        "pair-random": "recompact.adaptation.pair:PAIR_RANDOM",
        "pair-swapped": "recompact.adaptation.pair:PAIR_SWAPPED",
    },
)


def load_method(name: str, options: Mapping[str, Any] | None = None, directory: Path = Path()) -> Method:
    """A method by name. The plug-in may be a `Method`, or anything that returns one when called with the options."""
    needs = "it must be, or give, a recompact.Method"
    method: Method = METHODS.make(name, options or {}, Method, needs, directory)
    return method


def installed_methods() -> tuple[Method, ...]:
    """All methods with a name of their own that can be used here without options."""
    methods = []
    for name in METHODS.names():
        with suppress(InputError):  # its package is missing, or it needs options
            methods.append(load_method(name))
    return tuple(methods)


def method_of(study: Study) -> Method:
    """The method that a study adapts with: the caller's own, or the one that the config names."""
    if study.method is None:
        return method_in(study.config)
    if not isinstance(study.method, Method):
        raise InputError(f"{study.method!r} is not a method: it must be a recompact.Method")
    return study.method


def method_in(config: Config) -> Method:
    """The method that a config names."""
    with config.blame("adapt", key="method"):
        return load_method(config.adapt.method, config.adapt.options, config.directory)
