"""Whether a task was done: the changes that it asked for, all of them, no others, and the right answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from recompact.suites.pocket.database import Contents, by_column

ChangeKind = Literal["added", "updated", "deleted"]
AnswerKind = Literal["money", "time", "phone", "text"]


@dataclass(frozen=True)
class Change:
    """One changed record. Of an added one, `values` holds the columns that matter; of an updated one, exactly those
    that changed, with their new values."""

    table: str
    kind: ChangeKind
    values: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""  # unknown beforehand for an added record


@dataclass(frozen=True)
class Answer:
    kind: AnswerKind
    value: str


@dataclass(frozen=True)
class Expected:
    """What a task demands. Without an `answer` any text may be given."""

    answer: Answer | None = None
    changes: tuple[Change, ...] = ()


def problems(expected: Expected, before: Contents, after: Contents, answer: str | None) -> list[str]:
    """What is wrong with an episode that has ended; `answer` is None where it was never finished."""
    if answer is None:
        return ["the task was not finished"]
    mistakes = _unmatched_changes(expected.changes, differences(before, after))
    if expected.answer is not None and not accepts(expected.answer, answer):
        mistakes.append(f"wrong answer: {answer[:60]!r} instead of {expected.answer.value!r}")
    return mistakes


def differences(before: Contents, after: Contents) -> list[Change]:
    """The changed records between two contents."""
    changes: list[Change] = []
    for table, old in before.items():
        new = after[table]
        for key, row in new.items():
            if key not in old:
                changes.append(Change(table, "added", by_column(table, row), key))
            elif row != old[key]:
                earlier = by_column(table, old[key])
                changed = {name: value for name, value in by_column(table, row).items() if value != earlier[name]}
                changes.append(Change(table, "updated", changed, key))
        changes.extend(Change(table, "deleted", {}, key) for key in old if key not in new)
    return changes


def _unmatched_changes(expected: tuple[Change, ...], actual: list[Change]) -> list[str]:
    """Pair expected changes with actual ones; what remains on either side is a problem."""
    unexpected = list(actual)
    missing: list[Change] = []
    for wanted in expected:
        match = next((change for change in unexpected if _same(wanted, change)), None)
        if match is None:
            missing.append(wanted)
        else:
            unexpected.remove(match)
    texts = [f"missing: {c.kind} in {c.table} {c.id} {dict(c.values)}" for c in missing]
    return texts + [f"not asked for: {c.kind} in {c.table} {c.id} {dict(c.values)}" for c in unexpected]


def _same(wanted: Change, change: Change) -> bool:
    if (wanted.table, wanted.kind) != (change.table, change.kind):
        return False
    if wanted.kind == "added":
        return all(_equal(value, change.values[name]) for name, value in wanted.values.items())
    return (
        wanted.id == change.id
        and wanted.values.keys() == change.values.keys()
        and all(_equal(value, change.values[name]) for name, value in wanted.values.items())
    )


def _equal(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, str) and isinstance(value, str):
        return _plain(wanted) == _plain(value)
    return bool(wanted == value)


def _plain(text: str) -> str:
    """Text without differences that do not matter: case and the amount of white space."""
    return " ".join(text.split()).casefold()


def accepts(expected: Answer, given: str) -> bool:
    """Whether an answer is right, whatever harmless form it has ("$786.00", "786", "9:30")."""
    if expected.kind == "money":
        return _only_number(given) == float(expected.value)
    if expected.kind == "time":
        return _only_time(given) == _only_time(expected.value)
    if expected.kind == "phone":
        return re.sub(r"[\s().+-]", "", given) == re.sub(r"\D", "", expected.value)
    return _plain(given).strip("\"'.") == _plain(expected.value)


def _only_number(text: str) -> float | None:
    """The number in the text, if there is exactly one."""
    numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
    if len(numbers) != 1:
        return None
    return round(float(numbers[0].replace(",", "")), 2)


def _only_time(text: str) -> tuple[int, int] | None:
    times = re.findall(r"(\d{1,2}):(\d{2})(?::00)?\s*([ap])?\.?m?", text.lower())
    if len(times) != 1:
        return None
    hour, minute, half = int(times[0][0]), int(times[0][1]), times[0][2]
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return hour, minute
