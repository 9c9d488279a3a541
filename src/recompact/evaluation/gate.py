"""Is a change to compaction worse than what it replaces? Pairs until the answer is clear.

It is not worse if it is shown to lose less than a margin, and worse if it is shown, before that, to lose anything at
all. Between the two lies what a gate may call either way, so it always ends if it may play long enough. Each pair is
one item (a task, a stored compaction), drawn at random with replacement and played once with BASE and once with NEW. So
pairs are independent, their mean is that of all items, and `recompact.values.betting` may look at them after each one.
A pair that broke counts as whatever would be worst for the claim in question.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import count
from random import Random
from statistics import fmean
from typing import Any, Literal

from recompact.engine.execution.scheduler import Unfinished
from recompact.values.betting import ERROR, first_above, further_values, lower_bound, upper_bound

Verdict = Literal["not worse", "worse", "cannot tell"]
Role = Literal["base", "new"]
SIDES: tuple[Role, ...] = ("base", "new")
EXIT_CODES: dict[Verdict, int] = {"not worse": 0, "worse": 1, "cannot tell": 3}
BATCH = 10
"""Pairs that are played before somebody looks. It is the same on every machine, and so is what is played."""


@dataclass(frozen=True)
class Result:
    """What one side of a pair came to. `value` lies between 0 and 1; None where the environment broke."""

    value: float | None
    amount: float | None = None  # steps, or the tokens that a compaction left
    reason: str = ""  # why there is no value, or why it is 0 without a continuation


@dataclass(frozen=True)
class Pair:
    """One item, once with BASE and once with NEW."""

    item: str
    run: int  # how often the item had been drawn before
    base: Result
    new: Result

    @property
    def complete(self) -> bool:
        return self.base.value is not None and self.new.value is not None

    def difference(self, broken: float) -> float:
        """NEW minus BASE, where a side that broke is taken to make the difference as near to `broken` as it can."""
        base = self.base.value if self.base.value is not None else float(broken < 0)
        new = self.new.value if self.new.value is not None else float(broken > 0)
        return new - base


@dataclass(frozen=True)
class Pick:
    """The next item to play, and how often it was drawn before."""

    item: str
    run: int


@dataclass(frozen=True)
class PairSource:
    """Where pairs come from. `empty` is a gate without pairs, which has the names of things; of all `items`, each is
    drawn with the same probability. `play` gives a pair for each pick, and None where the item cannot be played at all,
    whatever the side: existing work is reused, and it raises `Unfinished` where a model failed."""

    empty: Gate
    items: Sequence[str]
    play: Callable[[Sequence[Pick]], Awaitable[list[Pair | None]]]
    simulated: Callable[[], bool] = lambda: False  # asked at the end: before, no model has been asked


@dataclass(frozen=True)
class Gate:
    """The pairs so far, and what they show. Differences are NEW minus BASE; those of percentages are in points."""

    base: str
    new: str
    noun: str = "task"
    measure: str = "success"
    amount: str = "steps"
    simulated: bool = False
    identical: bool = False  # both compact in the same way
    margin: float = 3.0  # in points
    items: int = 0
    pairs: tuple[Pair, ...] = ()
    unusable: tuple[str, ...] = ()  # items that could not be restored, so that nobody could play them

    @cached_property
    def settled(self) -> tuple[Verdict, int]:
        """The verdict, and after how many pairs it was clear."""
        if self.identical:
            return "not worse", 0
        shown = first_above(self._at_least, -self.margin / 100)
        refuted = first_above([-value for value in self._at_most], 0.0)
        if shown is not None and (refuted is None or shown <= refuted):
            return "not worse", shown
        return ("worse", refuted) if refuted is not None else ("cannot tell", len(self.pairs))

    @property
    def verdict(self) -> Verdict:
        return self.settled[0]

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    @property
    def _at_least(self) -> list[float]:
        return [pair.difference(-1.0) for pair in self.pairs]

    @property
    def _at_most(self) -> list[float]:
        return [pair.difference(1.0) for pair in self.pairs]

    @property
    def complete(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.pairs if pair.complete)

    @property
    def difference(self) -> float | None:
        """The mean over complete pairs, in points."""
        return 100 * fmean(pair.difference(0) for pair in self.complete) if self.complete else None

    @cached_property
    def low(self) -> float:
        """In points; the true difference is below it with a probability of at most 5 %."""
        return 0.0 if self.identical else 100 * lower_bound(self._at_least)

    @cached_property
    def high(self) -> float:
        return 0.0 if self.identical else 100 * upper_bound(self._at_most)

    @cached_property
    def more(self) -> int | None:
        """How many more pairs would settle it if they came out like these; None where they never would."""
        if self.verdict != "cannot tell":
            return 0
        either = (
            further_values(self._at_least, -self.margin / 100),
            further_values([-value for value in self._at_most], 0.0),
        )
        return min((each for each in either if each is not None), default=None)

    @property
    def better(self) -> int:
        return sum(pair.difference(0) > 0 for pair in self.complete)

    @property
    def worse(self) -> int:
        return sum(pair.difference(0) < 0 for pair in self.complete)

    def mean(self, side: Role, what: Literal["value", "amount"]) -> float | None:
        """A side's mean over complete pairs."""
        known = [each for pair in self.complete if (each := getattr(getattr(pair, side), what)) is not None]
        return fmean(known) if known else None

    def to_json(self) -> dict[str, Any]:
        return {
            "base": self.base,
            "new": self.new,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "margin": self.margin,
            "error": ERROR,
            "difference": self.difference,
            "low": self.low,
            "high": self.high,
            "settled_after": self.settled[1] if self.verdict != "cannot tell" else None,
            "more": self.more,
            "items": self.items,
            "noun": self.noun,
            "measure": self.measure,
            "identical": self.identical,
            "broken": len(self.pairs) - len(self.complete),
            "unusable": list(self.unusable),
            "simulated": self.simulated,
            "pairs": [asdict(pair) for pair in self.pairs],
        }


async def run_gate(source: PairSource, margin: float, most: int, seed: int = 0) -> Gate:
    """Play pairs until it is settled, or until there are `most` of them. `Unfinished`, where models failed before, has
    the gate with the pairs until then."""
    items = list(source.items)
    picks = draw_items(items, seed)
    pairs: list[Pair] = []
    unusable: dict[str, None] = {}

    def gate() -> Gate:
        usable = len(items) - len(unusable)
        held = replace(source.empty, margin=margin, items=usable, pairs=tuple(pairs), unusable=tuple(unusable))
        return replace(held, simulated=source.simulated())

    while not source.empty.identical and len(pairs) < most and len(unusable) < len(items):
        due = [next(picks) for _ in range(min(BATCH, most - len(pairs)))]
        due = [pick for pick in due if pick.item not in unusable]
        try:
            played = await source.play(due)
        except Unfinished as unfinished:
            raise Unfinished(unfinished.units, gate()) from None
        for pick, pair in zip(due, played, strict=True):
            if pair is None:
                unusable[pick.item] = None
            else:
                pairs.append(pair)
        if gate().verdict != "cannot tell":
            break
    return gate()


def draw_items(items: Sequence[str], seed: int) -> Iterator[Pick]:
    """Items at random, for ever. The sides have no part in it: whatever is compared with BASE meets the same pairs, so
    that BASE need not be played again."""
    chance = Random(f"gate/{seed}")
    drawn: dict[str, int] = {}
    for _ in count():
        item = items[chance.randrange(len(items))]
        yield Pick(item, drawn.get(item, 0))
        drawn[item] = drawn.get(item, 0) + 1
