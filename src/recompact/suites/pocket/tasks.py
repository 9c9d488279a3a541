"""From a seed and a family to a task: the world with the task planted in it, its parameters and its request.

Everything here is a pure function of its arguments, so the results are cached and can be made again anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random

from recompact.suites.pocket.database import Contents, as_tables, connect, contents, create
from recompact.suites.pocket.families import BY_NAME
from recompact.suites.pocket.grader import Expected
from recompact.suites.pocket.world import Draft, Person, draft, pristine_rows


@dataclass(frozen=True)
class TaskWorld:
    """A world with one task in it."""

    world: Draft
    parameters: dict[str, str]
    instruction: str

    @property
    def owner(self) -> Person:
        return self.world.owner


@lru_cache(maxsize=64)
def compose(seed: str, family: str) -> TaskWorld:
    rng = Random(f"pocket/{family}/{seed}")
    world = draft(seed)
    parameters = dict(BY_NAME[family].make(rng, world))
    return TaskWorld(world, parameters, BY_NAME[family].instruction(parameters, rng.randrange(12)))


@lru_cache(maxsize=64)
def pristine(seed: str, family: str) -> bytes:
    """The state in which an episode starts."""
    return create(pristine_rows(compose(seed, family).world))


@lru_cache(maxsize=64)
def goal(seed: str, family: str) -> tuple[Contents, Expected]:
    """The contents at the start, and what the task must make of them."""
    db = connect(pristine(seed, family))
    before = contents(db)
    db.close()
    return before, BY_NAME[family].expect(as_tables(before), compose(seed, family).parameters)
