"""The state of a conversation as JSON: which entities of the shop differ from the start, and the messages.

A write changes an order and its user, so a snapshot holds a handful of the database's 1,550 entities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recompact.suites.tau2.official import Official


class Database:
    """A database of the benchmark, with a copy that stays as it was at the start."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._pristine = database.model_copy(deep=True)
        fields = type(database).model_fields
        self._tables = [name for name in fields if isinstance(getattr(database, name), dict)]
        if rest := set(fields) - set(self._tables):
            raise ValueError(f"this version of tau2-bench is not supported: its database has {', '.join(sorted(rest))}")

    def changes(self) -> dict[str, dict[str, Any]]:
        """By table and id: each entity that differs from the start, or None where it is gone."""
        changes = {}
        for table in self._tables:
            now, before = getattr(self._database, table), getattr(self._pristine, table)
            differing = [id for id in {**before, **now} if now.get(id) != before.get(id)]
            if differing:
                changes[table] = {id: now[id].model_dump(mode="json") if id in now else None for id in differing}
        return changes

    def reset(self) -> None:
        for table, entities in self.changes().items():
            now, before = getattr(self._database, table), getattr(self._pristine, table)
            for id in entities:
                _put(now, id, before[id].model_copy(deep=True) if id in before else None)

    def put_back(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Return the database to where `changes` was taken, whatever has happened since."""
        self.reset()
        for table, entities in changes.items():
            now = getattr(self._database, table)
            kind = type(next(iter(now.values())))
            for id, entity in entities.items():
                _put(now, id, kind.model_validate(entity) if entity is not None else None)


def _put(table: dict[str, Any], id: str, entity: Any) -> None:
    if entity is None:
        table.pop(id, None)
    else:
        table[id] = entity


def messages_of(official: Official, data: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Messages of the benchmark, from JSON."""
    kinds = {
        "system": official.messages.SystemMessage,
        "user": official.messages.UserMessage,
        "assistant": official.messages.AssistantMessage,
        "tool": official.messages.ToolMessage,
    }
    return [kinds[each["role"]].model_validate(each) for each in data]
