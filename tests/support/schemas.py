"""Schemas of answers, as servers in strict mode demand them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recompact.values.chat import Request


def strict_fields(request: Request) -> list[list[str]]:
    """The fields of all objects in the schema that a request demands; each is required, and no other is allowed."""
    objects = list(_objects(request.decoding.response_schema))
    for each in objects:
        assert each["additionalProperties"] is False
        assert sorted(each["required"]) == sorted(each["properties"])
    return [sorted(each["properties"]) for each in objects]


def _objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from _objects(value)
