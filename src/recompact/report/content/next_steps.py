"""What to do next, as steps with the command for each.

Comes in: what the runs say. Goes out: a short list, most useful first. It never advises more than the evidence carries.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from recompact.evaluation.summary import counted
from recompact.report.content.answer import Contrast, Verdict
from recompact.report.content.harm import Harm

ENOUGH = 100  # tasks from which on a size warning is no longer given


@dataclass(frozen=True)
class Next:
    """One thing to do, and what to type for it, where there is something to type."""

    text: str
    command: str = ""


def next_steps(
    costs: Sequence[Contrast],
    gains: Sequence[Contrast],
    harms: Sequence[tuple[str, Harm]],
    *,
    simulated: bool,
    adapted: bool = False,
) -> tuple[Next, ...]:
    """`harms` are by run, with the run's name as a command takes it; `adapted`: a template was made from one."""
    steps = _after_gains(gains)
    steps += [step for run, harm in harms for step in _after_harm(run, harm, adapted or bool(gains))]
    seen = [*costs, *gains]
    if not harms and costs:
        steps.append(Next("Find out which compactions do harm.", "recompact collect CONFIG && recompact verify CONFIG"))
    if adapted and not gains:
        steps.append(Next("Measure what the adapted template changes on tasks that it has not seen.", _EVALUATE_BOTH))
    elif harms and not seen:
        steps.append(Next("Measure what compaction costs end to end.", _EVALUATE))
    if seen and (few := _few(seen[0])):
        steps.append(few)
    if simulated:
        steps.append(Next("These models are simulated. Describe your own agent in a config.", "recompact check CONFIG"))
    return tuple(steps)


_EVALUATE = "recompact evaluate CONFIG --arm none --arm prompting --runs 3"
_EVALUATE_BOTH = f"{_EVALUATE} --arm adapted=DIRECTORY"


def _after_gains(gains: Sequence[Contrast]) -> list[Next]:
    """The arm that gains most, if one does; a template that does worse is not to be used."""
    if not gains:
        return []
    worse = [gain for gain in gains if "worse" in _success(gain)]
    sound = [gain for gain in gains if gain not in worse]
    if not sound:
        return [Next("Keep the original template: every other does worse.")]
    if won := [gain for gain in sound if "better" in _success(gain)]:
        name = max(won, key=lambda gain: gain.comparison.of("acc").delta).comparison.first
        but = f" But {', '.join(gain.comparison.first for gain in worse)} did worse." if worse else ""
        return [Next(f'Use the template of {name}: set template = "DIRECTORY" under [compressor] in your config.{but}')]
    if cheaper := [gain for gain in sound if "better" in _effort(gain) and "worse" not in _effort(gain)]:
        name = cheaper[0].comparison.first
        return [Next(f"The template of {name} saves work, and whether the agent succeeds more often is open: try it.")]
    text = "No template has shown a gain yet. Adapt on more training tasks before you change anything."
    return [Next(text, "recompact adapt CONFIG")]


def _success(gain: Contrast) -> tuple[Verdict | None, ...]:
    return gain.verdict("acc"), gain.verdict(f"pass^{gain.comparison.runs}")


def _effort(gain: Contrast) -> tuple[Verdict | None, ...]:
    return gain.verdict("steps"), gain.verdict("tokens")


def _after_harm(run: str, harm: Harm, adapted: bool) -> list[Next]:
    if not harm.settled:
        return [Next("Finish the verification: it goes on where it was.", shlex.join(["recompact", "verify", run]))]
    if harm.harmful and not adapted:
        return [Next("Adapt the prompt from the compactions that did harm.", "recompact adapt CONFIG")]
    if not harm.harmful:
        return [
            Next("No compaction did harm that shows: try more tasks or a smaller budget, or leave the prompt alone.")
        ]
    return []


def _few(found: Contrast) -> Next | None:
    tasks, runs = found.comparison.tasks, found.comparison.runs
    unclear = found.verdict("acc") in ("unclear", "too few")
    if runs == 1:
        text = "Run every task three times with the same arms, to see how reliable the agent is."
        return Next(text, "recompact evaluate CONFIG --arm … --runs 3")
    if unclear and tasks < ENOUGH:
        text = f"Evaluate the same arms on more than {counted(tasks, 'task')}: so few leave the intervals wide."
        return Next(text, "recompact evaluate CONFIG --arm … --limit MORE")
    return None
