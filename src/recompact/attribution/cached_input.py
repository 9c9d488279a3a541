"""How much of the input a server's prompt cache held, by phase and role, and in the draws after the first of an arm."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recompact.engine.store.calls import usage_by_phase, usage_by_unit
from recompact.engine.store.store import Store
from recompact.values.chat import Usage

PHASES = {
    "collect": "collection",
    "continue": "continuations",
    "control": "the A/A control",
    "confirm": "fresh pairs",
    "resample": "fresh summaries",
    "evaluate": "the evaluation",
}
_DRAW = re.compile(r"(?P<arm>(?:continue|control|confirm|resample)/.+/(?:PRE|POST))/(?P<number>\d+)(?:#.*)?", re.DOTALL)


@dataclass(frozen=True)
class CachedInput:
    """Usage by phase and role, and that of two kinds of draws: the first of each boundary and arm, and those after it,
    for which a server may have the whole context already."""

    phases: Mapping[str, Mapping[str, Usage]]
    first_draws: Usage = Usage()
    later_draws: Usage = Usage()

    def phase(self, name: str) -> Usage:
        return total(self.phases.get(name, {}).values())

    def to_json(self) -> dict[str, Any]:
        """Tokens as they were counted; a share is None where no server reported what it had cached."""
        return {
            "phases": {
                phase: {**_figures(total(roles.values())), "roles": {role: _figures(u) for role, u in roles.items()}}
                for phase, roles in self.phases.items()
            },
            "first_draws": _figures(self.first_draws),
            "later_draws": _figures(self.later_draws),
        }


def cached_input(store: Store) -> CachedInput:
    """What a run's journal says about the cache. Calls that were dropped count by phase but belong to no draw."""
    arms: dict[str, dict[int, Usage]] = {}
    for unit, usage in usage_by_unit(store).items():
        if draw := _DRAW.fullmatch(unit):
            draws = arms.setdefault(draw["arm"], {})
            draws[int(draw["number"])] = draws.get(int(draw["number"]), Usage()) + usage
    first = total(draws[min(draws)] for draws in arms.values())
    later = total(usage for draws in arms.values() for number, usage in draws.items() if number != min(draws))
    return CachedInput(usage_by_phase(store), first, later)


def total(usages: Iterable[Usage]) -> Usage:
    return sum(usages, Usage())


def share_text(usage: Usage) -> str:
    """
    >>> share_text(Usage(1000, cached=250, cache_reported=1000)), share_text(Usage(1000))
    ('25 % of 1,000 tokens', 'not reported')
    >>> share_text(Usage(1000, cached=0, cache_reported=400))
    '0 % of 400 tokens (of 600 it is not reported)'
    """
    if usage.cached_share is None:
        return "not reported"
    silent = usage.input - usage.cache_reported
    rest = f" (of {silent:,} it is not reported)" if silent else ""
    return f"{100 * usage.cached_share:.0f} % of {usage.cache_reported:,} tokens{rest}"


def cache_text(cache: CachedInput, *phases: str) -> str:
    """What is known of these phases (default: all), as far as the run has calls in them."""
    present = [phase for phase in phases or cache.phases if cache.phase(phase).input]
    if all(cache.phase(phase).cached_share is None for phase in present):
        return "not reported by the server"
    parts = [f"{PHASES.get(phase, phase)} {share_text(cache.phase(phase))}" for phase in present]
    if cache.later_draws.input and "continue" in present:
        parts.append(f"draws after the first of an arm {share_text(cache.later_draws)}")
    return "; ".join(parts)


def cache_sentence(cache: CachedInput, *phases: str) -> str:
    """The same as a sentence; empty where the run has no calls in these phases."""
    return f"Cached input: {cache_text(cache, *phases)}." if any(cache.phase(phase).input for phase in phases) else ""


def _figures(usage: Usage) -> dict[str, Any]:
    share = usage.cached_share
    return {
        "input": usage.input,
        "reported": usage.cache_reported,
        "cached": usage.cached if usage.cache_reported else None,
        "share": None if share is None else round(share, 4),
    }
