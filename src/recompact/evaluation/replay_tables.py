"""A replay as tables: what came of each condition, and which needed facts its summaries keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from recompact.evaluation.replay import PRE, Condition, Replay
from recompact.evaluation.replay_verdict import ReplayVerdict
from recompact.evaluation.summary import SIMULATED
from recompact.values.tables import Cell, Number, Row, Table, columns, estimate_cell, tabulate
from recompact.values.texts import cut, quantity

SHORT = 40  # characters of an answer or a fact that a table has room for
MANY = 20  # facts that are listed


def condition_table(replay: Replay, *, simulated: bool = False) -> Table:
    """One row for each condition."""
    limits = replay.thresholds
    notes = [
        f"H and B against PRE with 95 % intervals (* excludes zero); harmful from H {limits.hazard:g} or"
        f" B {limits.burden:g} on. POST is the summary that the run recorded, control the run's own template again."
    ]
    notes += [SIMULATED] if simulated else []
    cells: dict[str, tuple[str, Callable[[Condition], Cell]]] = {
        "condition": ("condition", lambda each: each.name),
        "success": ("success", lambda each: f"{sum(draw.success for draw in each.draws)}/{len(each.draws)}"),
        "steps": ("mean steps", lambda each: _mean(draw.steps for draw in each.draws)),
        "H": ("H", lambda each: estimate_cell(each.effect.hazard_estimate if each.effect else None, 2, signed=True)),
        "B": ("B", lambda each: estimate_cell(each.effect.burden_estimate if each.effect else None, 1, signed=True)),
        "tokens": ("summary tokens", lambda each: _mean((draw.tokens for draw in each.draws if each.name != PRE), 0)),
        "kept": ("needed facts kept", lambda each: _kept_words(each, len(replay.needed))),
        "endings": ("endings", lambda each: tally(draw.ending for draw in each.draws)),
        "answers": ("answers", lambda each: tally(_short(draw.answer) for draw in each.draws if draw.answer)),
    }
    return tabulate(str(replay.id), replay.conditions, cells, notes)


def _mean(values: Iterable[float], digits: int = 1) -> Number | None:
    known = list(values)
    return Number(fmean(known), digits) if known else None


def _kept_words(condition: Condition, needed: int) -> str | None:
    kept = condition.kept if needed and condition.name != PRE else None
    return None if kept is None else f"{kept:.1f} of {needed}"


def case_table(replays: Sequence[Replay], *, simulated: bool = False) -> Table:
    """Several boundaries: one row for each and each template, with the three conditions of a closed case."""
    rows: list[Row] = []
    for replay in replays:
        pre, post, control, *others = replay.conditions
        for condition, judged in zip(others, replay.verdicts, strict=True):
            arms = (pre, post, control, condition)
            successes = [f"{sum(draw.success for draw in arm.draws)}/{len(arm.draws)}" for arm in arms]
            steps = [_mean(draw.steps for draw in arm.draws) for arm in arms]
            cells = [cell for pair in zip(successes, steps, strict=True) for cell in pair]
            met = [_met(each) for each in (judged.recurs, judged.gone, judged.shown)]
            channel = post.effect.channel if post.effect else None
            rows.append((str(replay.id), judged.template, channel, *cells, *met, _met(judged.closed)))
    names = ("pre", "post", "control", "template")
    heads = columns(
        *("boundary", "by", "channel", *(key for name in names for key in (name, f"{name}_steps"))),
        *("recurs", "gone", "shown", "closed"),
        **{"pre": "PRE", "post": "POST", **{f"{name}_steps": "steps" for name in names}},
    )
    notes = (
        "Successes and mean steps. Closed: the harm of the recorded summary recurs with the control, is gone with the"
        " template, and its summaries keep more of the needed facts; ? where that is not judged.",
        *_closed_lines(replays),
        *([SIMULATED] if simulated else []),
    )
    return Table("Cited compactions, compressed again", heads, tuple(rows), notes)


def _met(condition: bool | None) -> str:
    return "?" if condition is None else "yes" if condition else "no"


def _closed_lines(replays: Sequence[Replay]) -> list[str]:
    """For each template and kind of harm, how many cases are closed, and at how many the harm did not recur."""
    groups: dict[tuple[str, str], list[ReplayVerdict]] = {}
    for replay in replays:
        post = replay.conditions[1].effect
        kind = {"error": "a loss of success", "both": "a loss of success", "burden": "added steps"}
        for judged in replay.verdicts:
            groups.setdefault((judged.template, kind.get(post.channel if post else "", "no harm")), []).append(judged)
    return [
        f"{template}, {kind}: {sum(each.closed for each in several)} of {quantity(len(several), 'case')} closed; in"
        f" {sum(each.recurs is False for each in several)} the harm did not recur with the control."
        for (template, kind), several in groups.items()
    ]


def fact_table(replay: Replay) -> Table | None:
    """In how many of its draws each condition keeps each needed fact; None where there is no such fact."""
    if not replay.needed:
        return None
    others = [condition for condition in replay.conditions if condition.name != PRE]
    rows: list[Row] = []
    for fact in replay.needed[:MANY]:
        kept = (f"{sum(fact in draw.kept for draw in c.draws)}/{len(c.draws)}" for c in others)
        rows.append((_short(fact), *kept))
    more = len(replay.needed) - MANY
    notes = ["In how many draws they are kept; PRE continuations used them, and the original summary dropped them."]
    notes += [f"{more} more: --json"] if more > 0 else []
    heads = columns("fact", *(condition.name for condition in others))
    return Table("Needed facts", heads, tuple(rows), tuple(notes))


def tally(values: Iterable[str]) -> str:
    """Values with how often each occurs, the most frequent first.

    >>> tally(["finished", "step limit", "finished"])
    'finished ×2, step limit'
    """
    return ", ".join(f"{value} ×{n}" if n > 1 else value for value, n in Counter(values).most_common())


def _short(text: str) -> str:
    kept, more = cut(text, SHORT)
    return f"{kept}…" if more else kept
