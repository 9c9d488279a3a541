"""Texts of configs, for `recompact init`: first ones, and those of the paper's benchmarks in its own setting."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

from recompact.compressors.protocol import Scope


def config_text(name: str) -> str:
    """A config that comes with Recompact, with gaps for `str.format`."""
    return files("recompact.cli").joinpath("configs", name).read_text(encoding="utf-8")


BENCHMARKS: dict[str, dict[str, Any]] = tomllib.loads(config_text("benchmarks.toml"))


def config_name(benchmark: str, scope: Scope) -> str:
    """What its config is called, without the ending: the two scopes are two configs."""
    return benchmark if scope == "history" else f"{benchmark}-{scope}"


def benchmark_config(benchmark: str, scope: Scope) -> str:
    """The text of a config."""
    settings = {"models": "", **BENCHMARKS[benchmark]}
    return config_text("benchmark.txt").format(
        name=config_name(benchmark, scope), use=benchmark, scope=scope, **settings
    )
