"""What the tests of figures share: arms and boundaries made by hand."""

from __future__ import annotations

from collections.abc import Sequence

from recompact.attribution.effects import effect_of
from recompact.attribution.judgement import Verification
from recompact.engine.config import VerifyConfig
from recompact.engine.store.runs import BoundaryRow
from recompact.engine.store.verdicts import Reason, Verdict
from recompact.evaluation.arm_runs import ArmRuns, TaskRun
from recompact.evaluation.summary import Evaluation, evaluation
from recompact.values.chat import Usage
from recompact.values.outcome import BoundaryId, Effect, Outcome, Outcomes

HOSTILE = 'a$x_{\\frac$ <script>alert(1)</script> &amp; "q"\x00\x1b[31m\u202e\ud800\ufffe\nend]]>'


def arm(
    name: str, outcomes: Sequence[str], scope: str | None = None, budget: int | None = None, **more: int
) -> ArmRuns:
    """An arm from one text per task: `110` is solved in the first two of three runs."""
    rows = tuple(
        TaskRun(
            task=f"t{n:03d}",
            run=run,
            success=mark == "1",
            steps=more.get("steps", 10) + n,
            compactions=1,
            peak=1000,
            usage={"agent": Usage(more.get("tokens", 1000), 10), "compressor": Usage(20, 5)},
        )
        for n, runs in enumerate(outcomes)
        for run, mark in enumerate(runs)
    )
    kind = name if name in ("none", "fifo") else "prompted"
    return ArmRuns(name, scope, rows, settings={"kind": kind, "budget": budget})


def arms(*names: str) -> Evaluation:
    """`none` and prompted arms of these names, twice."""
    made = [arm("none", ["111", "110", "111", "100"])]
    for n, name in enumerate(names):
        made.append(arm(name, ["111", "010", "110", "000"], "history", 2048, steps=12 + n, tokens=900 + 100 * n))
    return evaluation("made", made)


def swept(name: str = "prompting") -> Evaluation:
    """One arm under three budgets, beside `none`."""
    made = [arm("none", ["111", "111", "110"], steps=10)]
    for n, budget in enumerate((1024, 2048, 4096)):
        marks = ["111", "110" if n else "000", "100"]
        made.append(arm(f"{name}@{budget}", marks, "history", budget, steps=15 - 2 * n, tokens=3000 - 500 * n))
    return evaluation("swept", made)


Drawn = tuple[str, int, bool, Sequence[tuple[float, int, float, int]]]
"""Task, index, whether the trajectory passed, and pairs of draws: reward and steps of PRE, then of POST."""


def _reason(effect: Effect | None) -> Reason:
    return "no draws" if effect is None else "retained" if effect.selected else "not harmful"


def found(boundaries: Sequence[Drawn], allocation: str = "uniform:3") -> Verification:
    """Verification of boundaries with these draws."""
    made = []
    for task, index, passed, pairs in boundaries:
        pre = {n: Outcome(a, b) for n, (a, b, _, _) in enumerate(pairs)}
        post = {n: Outcome(c, d) for n, (_, _, c, d) in enumerate(pairs)}
        outcomes = Outcomes(pre, post)
        effect = effect_of(outcomes)
        row = BoundaryRow(f"collect/{task}", index, task, 5 * index, 2000, 500, 30, passed)
        made.append(Verdict(BoundaryId(f"collect/{task}", index), row, _reason(effect), outcomes, effect))
    return Verification(VerifyConfig(allocation=allocation), True, tuple(made))
