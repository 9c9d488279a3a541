"""Any value of an environment as JSON, bounded in depth and size; what had to be changed is named.

Nothing of a value's own code is trusted: it may raise, lie about its type or never end.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import math
import pathlib
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from recompact.values.chat import canonical

Changes = list[str]
"""What was changed in a value, a few words for each kind of change."""

VALUE_LIMIT: Final = 20_000
"""Values inside one JSON value."""

_DEPTH = 40  # levels of nesting that are kept
_CHARACTERS = 4_000_000  # of all texts inside one JSON value
_BITS = 1024  # of an integer


def shape_json(value: Any, what: str, changes: Changes) -> Any:
    """Any value as JSON."""
    shaper = _JsonShaper(what, changes)
    shaped = shaper.shape(value, 0)
    changes.extend(shaper.report())
    return shaped


def make_encodable(text: str, what: str, changes: Changes) -> str:
    """Half a character has no encoding, so nobody could send or store it."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        changes.append(f"half characters in {what}")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@dataclass
class _JsonShaper:
    """Makes JSON of anything, bounded in depth and size. What JSON cannot express becomes a text."""

    what: str
    changes: Changes
    values: int = 0
    characters: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def report(self) -> list[str]:
        times = {what: f" ({count} times)" if count > 1 else "" for what, count in self.counts.items()}
        return [f"{what} in {self.what}{count}" for what, count in times.items()]

    def shape(self, value: Any, depth: int) -> Any:
        self.values += 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, enum.Enum):
            return self.shape(value._value_, depth + 1) if depth < _DEPTH else self._odd("deep nesting", "…")
        if isinstance(value, str):
            return self._string(str.__str__(value))
        if isinstance(value, int):
            whole = int.__index__(value)
            return whole if whole.bit_length() <= _BITS else self._odd("a huge integer", f"⟨{whole.bit_length()} bits⟩")
        if isinstance(value, float):
            number = float.__float__(value)
            return number if math.isfinite(number) else self._odd(f"{number!r}", f"{number!r}")
        if isinstance(value, dict | list | tuple | set | frozenset):
            return self._shape_nested(value, depth)
        return self._foreign(value, depth)

    def _shape_nested(self, value: Any, depth: int) -> Any:
        if depth >= _DEPTH:
            return self._odd("deep nesting", "…")
        if isinstance(value, dict):
            return {self._key(key): self.shape(each, depth + 1) for key, each in self._bound(dict.items(value))}
        if isinstance(value, list | tuple):
            items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
            return [self.shape(each, depth + 1) for each in self._bound(items)]
        self._odd("a set")
        kind_of_set = set if isinstance(value, set) else frozenset
        members = [self.shape(each, depth + 1) for each in self._bound(kind_of_set.__iter__(value))]
        return sorted(members, key=canonical)

    def _bound(self, items: Iterable[Any]) -> Iterable[Any]:
        for item in items:
            if self.values >= VALUE_LIMIT:
                self._odd(f"more than {VALUE_LIMIT:,} values")
                return
            yield item

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return self._string(str.__str__(key))
        shaped = self.shape(key, _DEPTH)
        self._odd("a key that is no str")
        return shaped if isinstance(shaped, str) else canonical(shaped)

    def _string(self, text: str) -> str:
        room = max(0, _CHARACTERS - self.characters)
        if len(text) > room:
            self._odd(f"more than {_CHARACTERS:,} characters")
            text = text[:room] + "…"
        self.characters += len(text)
        encodable = make_encodable(text, "", [])
        if encodable != text:
            self._odd("half characters")
        return encodable

    def _foreign(self, value: Any, depth: int) -> Any:
        """Values that JSON cannot express. Only types whose text is known to be their own are asked for it."""
        kind = kind_of(value)
        for known, text in _WORDS.items():
            if isinstance(value, known):
                self._odd(kind)
                try:
                    return self._string(text(value))
                except Exception:
                    return f"⟨{kind}⟩"
        plain = from_numpy(value)
        if plain is not value and depth < _DEPTH:
            self._odd(kind)
            return self.shape(plain, depth + 1)
        return self._odd(kind, f"⟨{kind}⟩")

    def _odd(self, what: str, instead: Any = None) -> Any:
        self.counts[what] = self.counts.get(what, 0) + 1
        return instead


_WORDS: dict[type, Callable[[Any], str]] = {
    decimal.Decimal: decimal.Decimal.__str__,
    datetime.datetime: datetime.datetime.isoformat,
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
    datetime.timedelta: datetime.timedelta.__str__,
    pathlib.PurePath: pathlib.PurePath.__str__,
    fractions.Fraction: fractions.Fraction.__str__,
    uuid.UUID: uuid.UUID.__str__,
    complex: complex.__repr__,
    bytes: lambda value: bytes.decode(value, "utf-8", "replace"),
    bytearray: lambda value: bytearray.decode(value, "utf-8", "replace"),
}  # a datetime is a date, so it comes first


def from_numpy(value: Any) -> Any:
    """The plain value of a numpy one, recognised by its type's module so that nothing has to be imported."""
    if (type(value).__module__ or "").split(".")[0] != "numpy":
        return value
    try:
        return value.tolist() if value.size <= VALUE_LIMIT else f"⟨{kind_of(value)} of {int(value.size):,} values⟩"
    except Exception:
        return value


def is_plain(text: str) -> bool:
    return all(character.isprintable() for character in text)


def kind_of(value: Any) -> str:
    name = type.__getattribute__(type(value), "__name__")
    return name if isinstance(name, str) and len(name) <= 80 and is_plain(name) else "value of an unnameable type"
