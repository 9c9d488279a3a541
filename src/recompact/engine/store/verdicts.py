"""Verdicts in the run file: what a verification decided about each boundary, and why. Everybody who shows or uses a
verdict reads it from here; nobody works it out again."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from recompact.engine.store.runs import BoundaryRow, boundaries_of, boundary_rows
from recompact.engine.store.store import Store
from recompact.values.chat import canonical
from recompact.values.events import emit
from recompact.values.outcome import BoundaryId, Effect, Outcome, Outcomes
from recompact.values.stats import Estimate

Reason = Literal[
    "retained",
    "stopped early",
    "not by the rule",
    "harmful so far",
    "not harmful",
    "helped",
    "left out",
    "no draws",
    "unfinished",
]
"""Why a verdict is what it is. Where the estimates reach a threshold: `retained`; `stopped early`, since the allocation
gave the boundary fewer draws than its rule asks for; `not by the rule` of the allocation, which looks at other
draws or at probability; `harmful so far`, while draws are missing. Otherwise: `not harmful`, or it `helped`; `left
out`; `no draws` in an arm; `unfinished`, while draws are missing."""

Kind = Literal["harmful", "suspected", "harmless", "helped", "open"]
"""The five verdicts that people are shown; `presentation.legend` has their words and symbols."""

KINDS: Mapping[Reason, Kind] = {
    "retained": "harmful",
    "stopped early": "suspected",
    "not by the rule": "suspected",
    "harmful so far": "suspected",
    "not harmful": "harmless",
    "helped": "helped",
    "left out": "open",
    "no draws": "open",
    "unfinished": "open",
}


@dataclass(frozen=True)
class Verdict:
    """What was decided about one boundary. `effect` is None where an arm has no draw, `outcomes` are the draws that the
    effect is estimated from, and `left_out` says why a boundary has no verdict."""

    id: BoundaryId
    row: BoundaryRow
    reason: Reason
    outcomes: Outcomes
    effect: Effect | None
    left_out: str = ""
    confirmed: Effect | None = None  # of fresh pairs alone, which had no part in retaining it
    resampled: Effect | None = None  # of the prompt: each POST draw has its own summary
    wordings: int = 0  # how many different summaries those draws have
    copies: bool = False  # the draws of an arm are copies of each other and count as one
    copied_summaries: bool = False  # those with fresh summaries are: all had the same words

    @property
    def kind(self) -> Kind:
        return KINDS[self.reason]

    @property
    def retained(self) -> bool:
        return self.reason == "retained"

    @property
    def reported_effect(self) -> Effect | None:
        """The effect to show: that of the fresh pairs where there are any, since selection inflates numbers."""
        return self.confirmed or self.effect

    def to_json(self) -> dict[str, Any]:
        return {
            "boundary": str(self.id),
            **self.flat(),
            "left_out": self.left_out,
            "confirmed": self.confirmed and self.confirmed.to_json(),
            "resampled": self.resampled and self.resampled.to_json(),
            "wordings": self.wordings,
            "copies": self.copies,
        }

    def flat(self) -> dict[str, Any]:
        """As one row of a table; a cell without a value is None."""
        effect = self.effect
        return {
            "task": self.row.task,
            "t": self.row.index,
            "step": self.row.step,
            "pre_tokens": self.row.pre_tokens,
            "post_tokens": self.row.post_tokens,
            "verdict": self.kind,
            "reason": self.reason,
            **effect_numbers(effect),
            **_judgement_numbers(effect),
            "pre_draws": len(self.outcomes.pre),
            "post_draws": len(self.outcomes.post),
            "retained": self.retained,
        }


def effect_numbers(effect: Effect | None, prefix: str = "") -> dict[str, Any]:
    """H and B with their intervals, as cells of a row; None where there is no effect."""
    values: dict[str, Any] = {
        "H": effect and effect.hazard,
        "H_low": effect and effect.hazard_estimate.low,
        "H_high": effect and effect.hazard_estimate.high,
        "B": effect and effect.burden,
        "B_low": effect and effect.burden_estimate.low,
        "B_high": effect and effect.burden_estimate.high,
    }
    return {f"{prefix}{name}": value for name, value in values.items()}


def _judgement_numbers(effect: Effect | None) -> dict[str, Any]:
    return {name: effect and getattr(effect, name) for name in ("p_harmful", "score", "channel")}


RESTS_ON = ("collect/", "continue/", "confirm/", "resample/")
"""How the names of the units begin that verdicts rest on."""


def digest_of_records(store: Store, table: str = "units") -> bytes:
    """One hash over all records that verdicts rest on: trajectories, their continuations, and further draws."""
    total = hashlib.sha256()
    for beginning in RESTS_ON:
        query = f"SELECT name, result FROM {table} WHERE name >= ? AND name < ? ORDER BY name"
        rows = store._select(query, (beginning, f"{beginning[:-1]}0"))  # "0" follows "/"
        total.update(b"".join([part for name, result in rows for part in (name.encode(), result)]))
    return total.digest()


def has_verdicts(store: Store, settings: bytes) -> bool:
    """Whether the run has verdicts by these settings that rest on its records as they are."""
    rows = store._select("SELECT records FROM verdicts WHERE settings = ? LIMIT 1", (settings,))
    # Rows are looked at one by one only where the hash, which a changed row changes too, is not the one that was kept.
    return bool(rows) and rows[0][0] in (digest_of_records(store, table) for table in ("main.units", "units"))


def stored_verdicts(store: Store, settings: bytes, unit: str | None = None) -> tuple[Verdict, ...]:
    """The verdicts of these settings, on all boundaries or those of one trajectory, the most harmful first."""
    listed = boundary_rows(store) if unit is None else boundaries_of(store, unit)
    boundaries = {(row.unit, row.index): row for row in listed}
    condition, parameters = ("", (settings,)) if unit is None else (" AND unit = ?", (settings, unit))
    rows = store._rows(f"SELECT * FROM verdicts WHERE settings = ?{condition} ORDER BY place", parameters)
    return tuple(_verdict(boundaries[row["unit"], row["idx"]], row) for row in rows)


def count_verdicts(store: Store, settings: bytes) -> dict[Kind, int]:
    """How many verdicts of these settings there are of each kind."""
    rows = store._rows("SELECT reason, count(*) AS n FROM verdicts WHERE settings = ? GROUP BY reason", (settings,))
    kinds: Counter[Kind] = Counter()
    for row in rows:
        kinds[KINDS[row["reason"]]] += row["n"]
    return dict(kinds)


def units_by_harm(store: Store, settings: bytes) -> dict[str, int]:
    """The trajectories with verdicts, each with the rank of its most harmful boundary."""
    query = "SELECT unit, min(place) AS place FROM verdicts WHERE settings = ? GROUP BY unit"
    return {row["unit"]: row["place"] for row in store._rows(query, (settings,))}


@dataclass(frozen=True)
class VerdictsRecorded:
    """A verification has judged the boundaries of a run, the most harmful first."""

    store: Store
    verdicts: tuple[Verdict, ...]


def write_verdicts(store: Store, settings: bytes, records: bytes, verdicts: Sequence[Verdict]) -> None:
    """Keep these verdicts, the most harmful first, in place of earlier ones of the settings or of other records."""
    with store.transaction():
        store._db.execute("DELETE FROM main.verdicts WHERE settings = ? OR records != ?", (settings, records))
        for place, verdict in enumerate(verdicts):
            store.insert("verdicts", {"settings": settings, "records": records, "place": place, **_values(verdict)})
    emit(VerdictsRecorded(store, tuple(verdicts)))


def _values(verdict: Verdict) -> dict[str, Any]:
    effect = verdict.effect
    return {
        "unit": verdict.id.unit,
        "idx": verdict.id.index,
        "reason": verdict.reason,
        "left_out": verdict.left_out,
        "pre": _draws_text(verdict.outcomes.pre),
        "post": _draws_text(verdict.outcomes.post),
        **effect_numbers(effect),
        **_judgement_numbers(effect),
        "pre_draws": effect and effect.pre,
        "post_draws": effect and effect.post,
        "H_variance": effect and effect.hazard_variance,
        "confirmed": verdict.confirmed and canonical(asdict(verdict.confirmed)),
        "resampled": verdict.resampled and canonical(asdict(verdict.resampled)),
        "wordings": verdict.wordings,
        "copies": int(verdict.copies),
        "copied_summaries": int(verdict.copied_summaries),
    }


def _draws_text(draws: Mapping[int, Outcome]) -> str:
    rows = [[number, o.value, o.steps, o.tokens, *([True] if o.ran_out else [])] for number, o in draws.items()]
    return json.dumps(rows, separators=(",", ":"))


class _StoredDraws(Mapping[int, Outcome]):
    """The draws of one arm as the file has them, taken apart when somebody looks at them: most readers do not."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _draws(self) -> dict[int, Outcome]:
        return {number: Outcome(*outcome) for number, *outcome in json.loads(self._text)}

    def __contains__(self, number: object) -> bool:
        return number in self._draws

    def __getitem__(self, number: int) -> Outcome:
        return self._draws[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._draws)

    def __len__(self) -> int:
        return len(self._draws)

    def values(self) -> ValuesView[Outcome]:
        return self._draws.values()

    def __repr__(self) -> str:
        return repr(self._draws)


def _verdict(boundary: BoundaryRow, row: Any) -> Verdict:
    hazard, burden = (Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"]) for name in "HB")
    others = (row[name] for name in ("pre_draws", "post_draws", "p_harmful", "score", "channel", "H_variance"))
    return Verdict(
        id=boundary.id,
        row=boundary,
        reason=row["reason"],
        outcomes=Outcomes(_StoredDraws(row["pre"]), _StoredDraws(row["post"])),
        effect=None if row["H"] is None else Effect(hazard, burden, *others),
        left_out=row["left_out"],
        confirmed=_further_effect(row["confirmed"]),
        resampled=_further_effect(row["resampled"]),
        wordings=row["wordings"],
        copies=bool(row["copies"]),
        copied_summaries=bool(row["copied_summaries"]),
    )


def _further_effect(text: str | None) -> Effect | None:
    if text is None:
        return None
    values = json.loads(text)
    estimates = {name: Estimate(**values[name]) for name in ("hazard_estimate", "burden_estimate")}
    return Effect(**{**values, **estimates})
