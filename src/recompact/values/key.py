"""A key of a config as a field of a dataclass: its default, and what it means to people who write configs.

pydantic reads the meaning from the field's metadata, so modules that hosts import need no pydantic.
"""

from __future__ import annotations

from copy import copy
from dataclasses import field
from typing import TypeVar

Value = TypeVar("Value")


def key(default: Value, meaning: str) -> Value:
    """A field with this default and meaning; typed as its default, as `dataclasses.field` is."""
    described = {"description": meaning}
    if isinstance(default, dict):
        return field(default_factory=lambda: copy(default), metadata=described)
    return field(default=default, metadata=described)
