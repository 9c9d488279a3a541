"""How often `recompact gate` passes or fails what it should not, and how many pairs it takes, by simulation.

    python benchmarks/gate.py                   # a minute or two of one core
    python benchmarks/gate.py --gates 300 --pairs 200

Each gate draws its items and outcomes from a known truth and is judged by the code of the command, after every pair.
"False" is a pass where NEW really loses the whole margin, and a fail where it really loses nothing: 5 % is allowed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from statistics import fmean

from recompact.evaluation.gate import Gate, Pair, Result, draw_items
from recompact.values.stats import wilson
from recompact.values.tables import Number, Row, Table, columns, markdown

Outcome = Callable[[Random, int], tuple[Result, Result]]
"""BASE and NEW of one pair, for the item of this number."""

GATES, PAIRS, ITEMS = 1000, 400, 20


@dataclass(frozen=True)
class Case:
    """A truth: how pairs come out, and by how many points NEW is really better."""

    name: str
    margin: float
    truth: float
    outcome: Outcome


def independent(base: float, truth: float) -> Outcome:
    """Both sides succeed by chance, independently: the noisiest pairs there are."""
    return lambda chance, item: (
        Result(float(chance.random() < base)),
        Result(float(chance.random() < base + truth / 100)),
    )


def alike(differing: float, truth: float) -> Outcome:
    """Both mostly end alike, as where arms share their start; `differing` is the share that does not."""

    def outcome(chance: Random, item: int) -> tuple[Result, Result]:
        draw = chance.random()
        won, lost = (differing + truth / 100) / 2, (differing - truth / 100) / 2
        base, new = (0.0, 1.0) if draw < won else (1.0, 0.0) if draw < won + lost else (1.0, 1.0)
        return Result(base), Result(new)

    return outcome


def few_tasks(truth: float) -> Outcome:
    """NEW ruins some tasks for certain and helps others; the tasks differ widely."""

    def outcome(chance: Random, item: int) -> tuple[Result, Result]:
        rate = 0.5 + 0.3 * (item + 0.5) / ITEMS
        lost = 0.5 * (item % 4 == 0) - 0.125 - truth / 100  # the mean over the items is the truth
        return Result(float(chance.random() < rate)), Result(float(chance.random() < rate - lost))

    return outcome


def share_values(truth: float) -> Outcome:
    """Shares, as probes give them: little noise."""
    return lambda chance, item: (
        Result(chance.uniform(0.4, 0.8)),
        Result(min(1.0, max(0.0, chance.uniform(0.4, 0.8) + truth / 100))),
    )


def broken(outcome: Outcome, share: float = 0.03) -> Outcome:
    """NEW breaks the environment in a few pairs, and would have failed there."""

    def with_breaks(chance: Random, item: int) -> tuple[Result, Result]:
        base, new = outcome(chance, item)
        return base, Result(None) if new.value == 0 and chance.random() < share else new

    return with_breaks


def cases(margins: Sequence[float] = (3.0, 10.0)) -> Iterator[Case]:
    """At the margin, at no difference, and on either side of both."""
    for margin in margins:
        for truth in (-2 * margin, -margin, -margin / 2, 0.0, margin):
            yield Case("independent", margin, truth, independent(0.7, truth))
            yield Case("mostly alike", margin, truth, alike(max(0.1, 2 * abs(truth) / 100), truth))
        yield Case("tasks differ", margin, -margin, few_tasks(-margin))
        yield Case("tasks differ", margin, 0.0, few_tasks(0.0))
        yield Case("graded", margin, -margin, share_values(-margin))
        yield Case("graded", margin, 0.0, share_values(0.0))
        yield Case("some break", margin, -margin, broken(alike(0.2, -margin)))


def simulate(case: Case, gates: int, pairs: int) -> list[Gate]:
    """So many gates of one truth, each with all its pairs: what is settled is judged by `Gate`."""
    items = [str(number) for number in range(ITEMS)]
    out = []
    for number in range(gates):
        chance = Random(f"{case.name}/{case.margin}/{case.truth}/{number}")
        picks = islice(draw_items(items, number), pairs)
        drawn = tuple(Pair(pick.item, pick.run, *case.outcome(chance, int(pick.item))) for pick in picks)
        out.append(Gate("base", "new", margin=case.margin, items=ITEMS, pairs=drawn))
    return out


def row(case: Case, gates: Sequence[Gate]) -> Row:
    shares = {v: wilson(fmean(gate.verdict == v for gate in gates), len(gates)) for v in ("not worse", "worse")}
    wrong = "not worse" if case.truth <= -case.margin else "worse" if case.truth >= 0 else None
    cells = [Number(100 * s.value, 1, interval=(100 * s.low, 100 * s.high)) for s in shares.values()]
    false = f"{100 * shares[wrong].value:.1f}" if wrong else "-"
    taken = fmean(gate.settled[1] for gate in gates)
    return (case.name, Number(case.margin, 0), Number(case.truth, 1, signed=True), *cells, false, Number(taken, 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=GATES)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    given = parser.parse_args()
    rows = [row(case, simulate(case, given.gates, given.pairs)) for case in cases()]
    heads = columns(
        *("pairs are", "margin", "truth", "pass", "fail", "false", "taken"),
        **{"pass": "not worse, %", "fail": "worse, %", "false": "false, %", "taken": "mean pairs"},
    )
    note = f"{given.gates:,} gates a row, at most {given.pairs:,} pairs each; what is left could not tell."
    print(markdown(Table("", heads, tuple(rows), (note,))))


if __name__ == "__main__":
    main()
