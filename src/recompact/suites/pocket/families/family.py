"""What a task family is: a kind of request, how it is planted in a world, how it is done, and what counts as done.

A family writes its request in several phrasings with named gaps; the same texts, read backwards, give the parameters
again. So whoever has the request in front of them has all that a plan needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Literal

from recompact.suites.pocket.database import Tables
from recompact.suites.pocket.grader import Expected
from recompact.suites.pocket.plans import Api, Parameters, Plan, after_gathering, in_pages_of
from recompact.suites.pocket.spec import PAGE_SIZE_MAX
from recompact.suites.pocket.world import Draft

Difficulty = Literal["easy", "medium", "hard"]
APPS_OF: Mapping[Difficulty, int] = {"easy": 1, "medium": 2, "hard": 3}


@dataclass(frozen=True)
class Family:
    """A kind of task.

    `make` adds to the world what the task is about, so that every wrong plan gives a wrong result, and returns the
    parameters. `expect` works out from the untouched tables what must have happened, without calling any API.
    """

    name: str
    difficulty: Difficulty
    apps: tuple[str, ...]
    phrasings: tuple[str, ...]
    make: Callable[[Random, Draft], Parameters]
    solve: Plan
    expect: Callable[[Tables, Parameters], Expected]
    wrong: Mapping[str, Plan]
    tempting: str = ""  # the wrong way that takes an aggregate, or a wider set, for the restricted one
    gather: Callable[[Api, Parameters], object] | None = None  # reads that may just as well come first

    def route(self, plan: Plan, other_order: bool = False, page_size: int = PAGE_SIZE_MAX) -> Plan:
        """The plan in another order, or with other pages: as good a way to the same end."""
        ordered = after_gathering(self.gather, plan) if other_order and self.gather else plan
        return ordered if page_size == PAGE_SIZE_MAX else in_pages_of(page_size, ordered)

    def instruction(self, parameters: Parameters, phrasing: int = 0) -> str:
        return self.phrasings[phrasing % len(self.phrasings)].format(**parameters)

    def parse(self, instruction: str) -> dict[str, str] | None:
        """The parameters of a request of this family."""
        for pattern in self._patterns:
            match = pattern.fullmatch(instruction.strip())
            if match:
                return match.groupdict()
        return None

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_pattern(phrasing) for phrasing in self.phrasings)


_TEXT = r"[^\n]+?"
_SHAPES = {
    "date": r"\d{4}-\d\d-\d\d",
    "since": r"\d{4}-\d\d-\d\d",
    "until": r"\d{4}-\d\d-\d\d",
    "amount": r"\d+\.\d\d",
    "relation": r"[a-z]+",
    "other_relation": r"[a-z]+",
    "month": r"[A-Z][a-z]+",
}
"""What may stand in a gap of that name; any other gap takes any text within a line."""


def _pattern(phrasing: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", phrasing)
    seen: set[str] = set()
    pattern = ""
    for index, part in enumerate(parts):
        if index % 2 == 0:
            pattern += re.escape(part)
        elif part in seen:
            pattern += f"(?P={part})"
        else:
            seen.add(part)
            pattern += f"(?P<{part}>{_SHAPES.get(part, _TEXT)})"
    return re.compile(pattern)
