"""What work will take, before it begins: units, the tokens of each role, money and time.

One value and one rendering for every command that can be asked with --dry-run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from recompact.engine.config import CeilingConfig, Config, ModelConfig
from recompact.models.endpoint import Price
from recompact.values.chat import Usage
from recompact.values.tables import Number, Row, Table, columns
from recompact.values.texts import quantity

UsageByRole = Mapping[str, Usage]


@dataclass(frozen=True)
class Amount:
    """Units still to be played, and the calls and tokens of each role that they will take."""

    units: int = 0
    usage: UsageByRole = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return sum(usage.total for usage in self.usage.values())

    @property
    def calls(self) -> int:
        return sum(usage.calls for usage in self.usage.values())

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.units + other.units, add_usage([self.usage, other.usage]))

    def to_json(self) -> dict[str, Any]:
        kinds = ("input", "output", "calls")
        usage = {role: {kind: getattr(own, kind) for kind in kinds} for role, own in self.usage.items()}
        return {"units": self.units, "tokens": self.tokens, "usage": usage}


NOTHING = Amount()


def add_usage(parts: Iterable[UsageByRole]) -> dict[str, Usage]:
    """The usage of each role over all parts."""
    total: dict[str, Usage] = {}
    for part in parts:
        for role, usage in part.items():
            total[role] = total.get(role, Usage()) + usage
    return total


def scale_usage(usage: UsageByRole, factor: float) -> dict[str, Usage]:
    """So many times as much of everything."""
    return {
        role: Usage(round(own.input * factor), round(own.output * factor), calls=round(own.calls * factor))
        for role, own in usage.items()
    }


@dataclass(frozen=True)
class Work:
    """A part of the work: a step of the method, or a run. What is `done` is in the run file and costs nothing."""

    name: str
    unit: str  # what its units are, in the singular
    done: int
    expected: Amount
    at_most: Amount | None = None  # where a limit is known


@dataclass(frozen=True)
class Forecast:
    """All of the work. `basis` tells what it rests on, `seconds` how long a call takes where that was measured."""

    works: tuple[Work, ...]
    basis: str
    prices: Mapping[str, Price] = field(default_factory=dict)  # by role
    seconds: float | None = None  # of one call, with what happens until the next
    concurrency: int = 1
    currency: str = ""  # of the prices, where the config names one
    simulated: bool = False  # no model is waited for

    @property
    def total(self) -> Amount:
        return sum((work.expected for work in self.works), NOTHING)

    @property
    def money(self) -> float | None:
        """By the config's prices, as if nothing were cached; None where it has none."""
        if not any(price.input or price.output for price in self.prices.values()):
            return None
        return sum(self.prices.get(role, Price()).of(usage) for role, usage in self.total.usage.items())

    @property
    def duration(self) -> float | None:
        """In seconds, at the speed so far and with all places busy."""
        return None if self.seconds is None else self.seconds * self.total.calls / self.concurrency

    def to_json(self) -> dict[str, Any]:
        return {
            "works": [
                {
                    "name": work.name,
                    "unit": work.unit,
                    "done": work.done,
                    "expected": work.expected.to_json(),
                    "at_most": work.at_most and work.at_most.to_json(),
                }
                for work in self.works
            ],
            "tokens": self.total.tokens,
            "usage": self.total.to_json()["usage"],
            "money": self.money,
            "currency": self.currency or None,
            "seconds": self.duration,
            "basis": self.basis,
        }


def with_price(forecast: Forecast, config: Config) -> Forecast:
    """The forecast with the prices and the concurrency of a config."""
    roles = {"agent": config.agent.model, "compressor": config.compressor_model, "optimizer": config.optimizer_model}
    prices = {role: price_of(config.models.get(name)) for role, name in {**roles, **config.suite.models}.items()}
    named = {model.price.currency for model in config.models.values() if model.price.input or model.price.output}
    currency = named.pop() if len(named) == 1 else ""
    simulated = config.agent.model not in config.models  # which need no table
    concurrency = config.run.concurrency
    return replace(forecast, prices=prices, concurrency=concurrency, currency=currency, simulated=simulated)


def price_of(settings: ModelConfig | None) -> Price:
    """What a model costs by its table in the config; nothing where it has none."""
    return settings.price if settings else Price()


def forecast_table(forecast: Forecast, ceiling: CeilingConfig, spent: Amount = NOTHING, paid: float = 0.0) -> Table:
    """One row for each part, and below it the sums: tokens by role, money, time, and whether the ceiling is enough for
    them besides what was `spent` and `paid` already."""
    rows: list[Row] = []
    for work in forecast.works:
        most = work.at_most
        more = Number(most.tokens / 1e6, 2) if most and most.tokens > work.expected.tokens else None
        tokens = Number(work.expected.tokens / 1e6, 2)
        rows.append((work.name, _units(work), work.done, work.expected.calls, tokens, more))
    heads = columns(
        *("work", "units", "done", "calls", "tokens", "most"), units="to do", tokens="M tokens", most="at most, M"
    )
    return Table("What this takes", heads, tuple(rows), tuple(_notes(forecast, ceiling, spent, paid)))


def _units(work: Work) -> str:
    most = work.at_most.units if work.at_most else 0
    about = quantity(work.expected.units, work.unit)
    return f"{about}, at most {most:,}" if most > work.expected.units else about


_UNIT = 5.0  # seconds of a call, by which people can work out a time of their own


def _notes(forecast: Forecast, ceiling: CeilingConfig, spent: Amount, paid: float) -> Iterable[str]:
    total = forecast.total
    roles = ", ".join(
        f"{role} {own.input / 1e6:.2f} in and {own.output / 1e6:.2f} out" for role, own in sorted(total.usage.items())
    )
    yield f"In all about {total.tokens / 1e6:,.2f} million tokens{f' ({roles})' if roles else ''}."
    if forecast.money is None:
        yield "Money: unknown, since the config gives no price."
    else:
        currency = forecast.currency or "in the currency of the config's prices"
        yield f"Money: about {forecast.money:,.2f} {currency}, with nothing cached."
    if forecast.duration is not None:
        yield f"Time: about {_time(forecast.duration)} at the speed so far."
    elif total.calls and not forecast.simulated:
        each = _time(_UNIT * total.calls / forecast.concurrency)
        yield f"Time: the model's speed is not known before its first calls; at {_UNIT:g} s a call, about {each}."
    for word, limit, needed, gone, digits in (
        ("tokens", ceiling.tokens, float(total.tokens), float(spent.tokens), 0),
        ("money", ceiling.money, forecast.money or 0.0, paid, 2),
    ):
        if limit is not None and needed:
            share = max(0.0, limit - gone) / needed
            part = f"about {share:.0%}" if share >= 0.01 else "less than 1%"
            enough = "is enough" if share >= 1 else f"stops the work after {part} of it"
            yield f"[ceiling] {word} = {limit:,g} {enough}; spent so far: {gone:,.{digits}f}."
    yield f"Nothing was run. The figures rest on {forecast.basis}."


def _time(seconds: float) -> str:
    """
    >>> _time(40), _time(500), _time(9000)
    ('40 s', '8 min', '2.5 h')
    """
    if seconds < 6000:
        return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
