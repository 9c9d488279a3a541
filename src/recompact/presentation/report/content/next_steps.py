"""What to do next, with the command for each step. It never advises more than the evidence supports."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from recompact.presentation.report.content.answer import ArmContrast, Harm, MetricVerdict
from recompact.values.texts import command_line, quantity

ENOUGH = 100  # tasks at which a size warning is no longer given


@dataclass(frozen=True)
class NextStep:
    """One thing to do, and the command for it where there is one."""

    text: str
    command: str = ""


def next_steps(
    costs: Sequence[ArmContrast],
    gains: Sequence[ArmContrast],
    harms: Sequence[tuple[str, Harm]],
    *,
    simulated: bool,
    adapted: bool = False,
    places: Mapping[str, str] = MappingProxyType({}),
) -> tuple[NextStep, ...]:
    """`harms` come with the run's name as a command takes it; `adapted` says that a template was made from one;
    `places` are the directories of templates, by arm, and under "" that of the adaptation."""
    steps = _where_nothing_was_compacted([*costs, *gains])
    costs, gains = (
        [contrast for contrast in contrasts if not contrast.comparison.uncompacted] for contrasts in (costs, gains)
    )
    steps += _after_gains(gains, places)
    steps += [step for run, harm in harms for step in _after_harm(run, harm, adapted or bool(gains))]
    contrasts = [*costs, *gains]
    if not harms and costs:
        steps.append(
            NextStep("Find out which compactions do harm.", "recompact collect CONFIG && recompact verify CONFIG")
        )
    if adapted and not gains:
        both = f"{_EVALUATE} --arm {shlex.quote('adapted=' + places.get('', UNKNOWN))}"
        steps.append(NextStep("Measure what the adapted template changes on tasks that it has not seen.", both))
    elif harms and not contrasts:
        steps.append(NextStep("Measure what compaction costs end to end.", _EVALUATE))
    if contrasts and (few := _few(contrasts[0])):
        steps.append(few)
    if simulated:
        steps.append(
            NextStep("These models are simulated. Describe your own agent in a config.", "recompact check CONFIG")
        )
    return tuple(steps)


_EVALUATE = "recompact evaluate CONFIG --arm none --arm prompting --runs 3"
UNKNOWN = "DIRECTORY"  # where no record says where a template is


def _where_nothing_was_compacted(contrasts: Sequence[ArmContrast]) -> list[NextStep]:
    """Before anything else, arms that compress have to have something compacted."""
    nothing = {each.arm: each for contrast in contrasts for each in contrast.comparison.uncompacted}
    failed = [each.arm for each in nothing.values() if each.failed]
    idle = [each.arm for each in nothing.values() if not each.failed]
    steps = []
    if failed:
        text = f"Fix the compressor: every compaction of {', '.join(failed)} failed. Then evaluate in another run."
        steps.append(NextStep(text, "recompact check CONFIG --play"))
    if idle:
        text = f"Evaluate under a smaller budget or on longer tasks: nothing was compacted in {', '.join(idle)}."
        steps.append(NextStep(text, "recompact evaluate CONFIG --arm … --budget SMALLER"))
    return steps


def _after_gains(gains: Sequence[ArmContrast], places: Mapping[str, str]) -> list[NextStep]:
    """The arm that gains most, if one does; a template that does worse is not to be used."""
    if not gains:
        return []
    worse = [gain for gain in gains if "worse" in _success(gain)]
    sound = [gain for gain in gains if gain not in worse]
    if not sound:
        return [NextStep("Keep the original template: every other does worse.")]
    if won := [gain for gain in sound if "better" in _success(gain)]:
        name = max(won, key=lambda gain: gain.comparison.of("acc").delta).comparison.first
        but = f" But {', '.join(gain.comparison.first for gain in worse)} did worse." if worse else ""
        return [NextStep(f"Use the template of {name}: {_use(name, places)}{but}")]
    if cheaper := [gain for gain in sound if "better" in _effort(gain) and "worse" not in _effort(gain)]:
        name = cheaper[0].comparison.first
        text = f"The template of {name} saves work; whether the agent succeeds more often is open."
        return [NextStep(f"{text} To try it, {_use(name, places)}")]
    text = "No template has shown a gain yet. Adapt on more training tasks before you change anything."
    return [NextStep(text, "recompact adapt CONFIG")]


def _use(name: str, places: Mapping[str, str]) -> str:
    return f'set template = "{places.get(name, UNKNOWN)}" under [compressor] in your config.'


def _success(gain: ArmContrast) -> tuple[MetricVerdict | None, ...]:
    return gain.verdict("acc"), gain.verdict(f"pass^{gain.comparison.runs}")


def _effort(gain: ArmContrast) -> tuple[MetricVerdict | None, ...]:
    return gain.verdict("steps"), gain.verdict("tokens")


def _after_harm(run: str, harm: Harm, adapted: bool) -> list[NextStep]:
    if not harm.statement.settled:
        return [NextStep("Finish the verification: it resumes where it stopped.", command_line("verify", run))]
    if harm.harmful and not adapted:
        return [NextStep("Adapt the prompt from the harmful compactions.", "recompact adapt CONFIG")]
    if not harm.harmful and harm.suspected:
        text = "The compactions that look harmful got too few draws to be kept: give every compaction more."
        return [NextStep(text, f"{command_line('verify', run)} --draws 9")]
    if not harm.harmful:
        return [NextStep("No compaction showed harm: try more tasks or a smaller budget, or leave the prompt alone.")]
    return []


def _few(contrast: ArmContrast) -> NextStep | None:
    tasks, runs = contrast.comparison.tasks, contrast.comparison.runs
    unclear = contrast.verdict("acc") in ("unclear", "same", "few differ", "too few")
    if runs == 1:
        text = "Run every task three times with the same arms, to see how reliable the agent is."
        return NextStep(text, "recompact evaluate CONFIG --arm … --runs 3")
    if unclear and tasks < ENOUGH:
        text = f"Evaluate the same arms on more than {quantity(tasks, 'task')}: so few leave too much open."
        return NextStep(text, "recompact evaluate CONFIG --arm … --limit MORE")
    return None
