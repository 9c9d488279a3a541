"""What probes say, as a table with its notes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from recompact.evaluation.probing import FULL, Probing, Share
from recompact.values.stats import FEWEST
from recompact.values.tables import Cell, Number, Row, Table, columns
from recompact.values.texts import quantity

SIMULATED = "Simulated models: this says nothing about real ones."


def probe_table(probing: Probing) -> Table:
    """A row for each condition."""
    rows: list[Row] = []
    for name in probing.names:
        own = probing.of(name)
        whole = name == FULL
        rows.append(
            (
                name,
                len(own),
                Number(fmean(each.tokens for each in own), 0),
                _percent(probing.recall(name)),
                None if whole else _percent(probing.gain(name), signed=True),
                None if whole else _percent(probing.second(name)),
                None if whole else _percent(probing.recall(name, "rule")),
                *([_percent(probing.answers(name))] if probing.asked_model else []),
            )
        )
    keys = [
        "condition",
        "points",
        "tokens",
        "recall",
        "gain",
        "second",
        "rules",
        *(["answers"] if probing.asked_model else []),
    ]
    heads = columns(
        *keys,
        points="compactions",
        tokens="mean tokens",
        recall="facts shown, %",
        gain="beyond the latest as long",
        second="after a second, %",
        rules="rules, %",
        answers="answered, %",
    )
    numbers = [condition.kept()[1] for condition in probing.of(probing.names[0])]
    places = quantity(sum(bool(number) for number in numbers), "compaction")
    title = f"{quantity(sum(numbers), 'fact')} that later calls used, at {places}"
    return Table(title, heads, tuple(rows), tuple(_notes(probing)))


def _percent(share: Share | None, *, signed: bool = False) -> Cell:
    if share is None:
        return None
    interval = None if share.low is None or share.high is None else (100 * share.low, 100 * share.high)
    return Number(100 * share.value, 0, interval=interval, signed=signed, unmarked=True)


def _notes(probing: Probing) -> Iterator[str]:
    yield (
        "Facts are exact values of what was consumed that later calls used; shown means that they stand in the context,"
        " not that an agent would use them. In brackets: 95 % intervals over compactions, from"
        f" {FEWEST} on."
    )
    yield (
        "Beyond the latest as long: points of recall above those of the latest history of as many tokens, so that a"
        " longer summary does not win by its length. After a second: facts that the turns in between do not show again."
    )
    if probing.unasked:
        yield f"At {quantity(probing.unasked, 'further compaction')} there was nothing to ask for."
    if probing.asked_model:
        full = probing.of(FULL)
        asked = [each for condition in full for each in condition.asked if each.right is not None]
        right = sum(bool(each.right) for each in asked)
        yield (
            f"Answered: of the {right} of {quantity(len(asked), 'question')} that {probing.asked_model} answers rightly"
            " with the whole context, one question a prompt."
        )
    if probing.judge:
        right, cases = probing.planted
        yield f"The judge, {probing.judge}, is right in {right} of {quantity(cases, 'planted case')}."
    failed = [each for each in probing.conditions if each.failed]
    if failed:
        yield f"In {quantity(len(failed), 'case')} no summary came back, which shows nothing: {failed[0].failed}"
    if probing.simulated:
        yield SIMULATED
