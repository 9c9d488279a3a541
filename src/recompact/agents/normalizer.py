"""Makes what a model sees of an agent's tools the same in every run: names that are drawn anew each time are replaced
by steady ones, and put back where the model uses them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from recompact.errors import InputError

_NUMERIC = re.compile(r"\((\\d|\[0-9\])")  # a group of digits in a pattern


class Normalizer:
    """The names of one run of an agent, as they are and as the model knows them."""

    def __init__(
        self, replacements: Mapping[str, str], ids: Sequence[str], places: Mapping[str, str] | None = None
    ) -> None:
        self._replacements = [(check_replacement(pattern, text), text) for pattern, text in replacements.items()]
        self._ids = [check_pattern(pattern, groups=1) for pattern in ids]
        self._places = dict(places or {})  # paths that differ in each run -> the steady ones
        self._steady: dict[str, str] = {}  # the name in this run -> the steady one

    def steady(self, text: str) -> str:
        """What an agent sends, as the model is to see it."""
        for place, steady in self._places.items():
            text = text.replace(place, steady)
        for pattern, replacement in self._replacements:
            text = pattern.sub(replacement, text)
        for pattern in self._ids:
            text = pattern.sub(self._steady_name, text)
        return text

    def own(self, value: Any) -> Any:
        """What the model says, as the agent of this run understands it."""
        if not self._steady and not self._places:
            return value
        if isinstance(value, str):
            for name, steady in (*self._places.items(), *self._steady.items()):
                value = name.join(re.split(rf"(?<!\w){re.escape(steady)}(?!\w)", value))
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return int(self.own(str(value)))
        if isinstance(value, list):
            return [self.own(each) for each in value]
        if isinstance(value, Mapping):
            return {key: self.own(each) for key, each in value.items()}
        return value

    def _steady_name(self, match: re.Match[str]) -> str:
        name = match[1]
        if name not in self._steady:
            number = len(self._steady) + 1
            # What is always a number stays one, because a schema may ask for it; few in a command are so large.
            numeric = _NUMERIC.search(match.re.pattern) is not None
            self._steady[name] = str(90_000_000 + number) if numeric else f"name{number:04d}"
        start, end = match.start(1) - match.start(), match.end(1) - match.start()
        return match[0][:start] + self._steady[name] + match[0][end:]


def check_replacement(pattern: str, text: str) -> re.Pattern[str]:
    """The pattern, compiled, if this text can replace what it matches."""
    compiled = check_pattern(pattern)
    try:
        compiled.sub(text, "")
    except (re.error, IndexError) as error:
        raise InputError(f"{text!r} cannot replace what {pattern!r} matches: {error}") from None
    return compiled


def check_pattern(text: str, groups: int = 0) -> re.Pattern[str]:
    """The pattern, compiled, if it is one and has so many groups."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"{text!r} is not a regular expression: {error}") from None
    if pattern.groups < groups:
        raise InputError(f"{text!r} needs a group, in parentheses, around the name that differs")
    return pattern
