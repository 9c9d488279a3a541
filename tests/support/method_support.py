"""The inputs of a method, as far as a test needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recompact.adaptation.method import MethodInputs
from recompact.engine.config import AdaptConfig
from recompact.values.progress import SILENT
from recompact.values.template import default_template

_CALLS = ("complete", "optimizer", "run", "select", "bisect", "collect_more", "expected_draws")


def method_inputs(**given: Any) -> MethodInputs:
    """Inputs with these fields; whatever else a method may have done fails the test."""
    fields: dict[str, Any] = {
        "template": default_template(),
        "tasks": (),
        "records": None,
        "settings": AdaptConfig(),
        "scope": "history",
        "seed": 0,
        "count": len,
        "progress": SILENT,
        "spare_tasks": 0,
        **{name: _unexpected(name) for name in _CALLS},
    }
    return MethodInputs(**{**fields, **given})


def _unexpected(name: str) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"{name} was not expected")

    return fail
