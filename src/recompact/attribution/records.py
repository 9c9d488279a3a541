"""What the records of a run say about its boundaries: the outcomes of their draws, which of them were left out or are
copies of each other, the settings of the last verification, the draws in addition to it, and whether a run can be
verified at all."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Literal, get_args

from recompact.attribution.divergence import actions_of
from recompact.engine.config import Config, VerifyConfig
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import (
    WRAPPED,
    ContinuationRow,
    TrajectoryRow,
    boundary_rows,
    config_of,
    continuation_rows,
    phase_digest,
    trajectories,
)
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.values.outcome import ARMS, BoundaryId, ContinuationArm, CopiedArms, Draw, Outcome, Outcomes
from recompact.values.texts import command_line, quantity
from recompact.values.trajectory import Trajectory


@dataclass(frozen=True)
class RunOutcomes:
    """What a run knows of its boundaries: the outcomes of those in play, and why the others were left out."""

    outcomes: Mapping[BoundaryId, Outcomes]
    left_out: Mapping[BoundaryId, str]


def outcomes_in(store: Store) -> RunOutcomes:
    """What a run knows so far. A boundary is left out where its environment broke a continuation or PRE overflowed."""
    pre: dict[BoundaryId, dict[int, Outcome]] = {}
    post: dict[BoundaryId, dict[int, Outcome]] = {}
    for boundary in boundary_rows(store):
        pre[boundary.id], post[boundary.id] = {}, {}
    left_out: dict[BoundaryId, str] = {}
    for row in continuation_rows(store):
        if reason := says_nothing(row.arm, row.ending, row.error):
            left_out.setdefault(row.boundary, reason)
        else:
            (pre if row.arm == "PRE" else post)[row.boundary][row.draw] = outcome_on_record(row)
    return RunOutcomes({id: Outcomes(pre[id], post[id]) for id in pre if id not in left_out}, left_out)


def outcome_on_record(row: ContinuationRow | TrajectoryRow) -> Outcome:
    """What came of a draw that the run has."""
    return Outcome(row.value, row.steps, row.tokens, row.ending == "step limit")


def says_nothing(arm: str, ending: str, error: str = "") -> str:
    """Why a continuation tells nothing about the agent, so that its boundary is left out; empty where it does.

    The history before the compaction may be too long for the model by itself. That the agent fails there is not to the
    summary's credit.
    """
    if ending == "environment error":
        return error or "the environment broke"
    if ending == "context overflow" and arm == "PRE":
        return f"the context before the compaction outgrew the model's window, so there is no PRE to compare: {error}"
    return ""


def retry_left_out(store: Store) -> int:
    """Let boundaries take part again that their environment kept out: draws that it broke will be made again.

    Returns the number of these boundaries.
    """
    broken = [row for row in continuation_rows(store) if row.ending == "environment error"]
    for row in broken:
        store.reopen(row.name)
    return len({row.boundary for row in broken})


def settings_of(store: Store, otherwise: VerifyConfig | None = None) -> VerifyConfig:
    """How the run was last verified; where it has not been yet, these settings, or the defaults."""
    verified = store.metadata.verified
    if not verified:
        return otherwise or VerifyConfig()
    if unknown := sorted(verified.keys() - {each.name for each in fields(VerifyConfig)}):
        raise InputError(
            f"{store.path} was verified by another version of Recompact, whose [verify] had {', '.join(unknown)}:"
            f" verify it again with {command_line('verify', store.path)}"
        )
    return VerifyConfig(**verified)


def digest(store: Store) -> str:
    """One hash over trajectories and continuations.

    A boundary that was left out counts only as such: how many of its draws were under way when one of them failed is
    chance.
    """
    left_out = outcomes_in(store).left_out
    without = {row.name for row in continuation_rows(store) if row.boundary in left_out}
    total = hashlib.sha256()
    total.update(store.digest("collect/").encode())
    total.update(phase_digest(store, "continuation", without).encode())
    for id in sorted(left_out):
        total.update(f"\0{id}".encode())
    return total.hexdigest()


def boundary_named(store: Store, text: str) -> BoundaryId:
    """The boundary that a person means by `task#index`; the index may be missing where there is only one."""
    task, _, index = text.partition("#")
    there = [row.id for row in boundary_rows(store) if row.task == task]
    if not index and len(there) == 1:
        return there[0]
    for id in there:
        if index and str(id.index) == index:
            return id
    if there:
        raise InputError(f"{store.path} has no boundary {text!r}; task {task!r} has {', '.join(map(str, there))}")
    ids = [str(row.id) for row in boundary_rows(store)]
    near = difflib.get_close_matches(text, ids, 3, 0.3) or ids[:3]
    hint = f"it has {', '.join(near)} …" if near else "it has none at all"
    raise InputError(f"{store.path} has no boundary {text!r}; {hint}")


Purpose = Literal["control", "confirm", "resample"]
"""control: both arms from PRE. confirm: PRE and POST as in the verification. resample: POST with a separate summary
for each draw."""


def further_unit(purpose: Purpose, task: str, index: int, arm: ContinuationArm, number: int) -> str:
    """The name of one draw; everything random in it comes from this name."""
    return f"{purpose}/{task}/{index}/{arm}/{number}"


def further_outcomes(store: Store, purpose: Purpose) -> dict[BoundaryId, Outcomes]:
    """The draws of this kind that a run has, by boundary."""
    assert purpose in get_args(Purpose)
    arms: dict[BoundaryId, dict[str, dict[int, Outcome]]] = {}
    for draw, row in further_rows(store, purpose):
        arms.setdefault(draw.boundary, {arm: {} for arm in ARMS})[draw.arm][draw.number] = outcome_on_record(row)
    return {id: Outcomes(of["PRE"], of["POST"]) for id, of in arms.items()}


def further_rows(store: Store, purpose: Purpose) -> list[tuple[Draw, TrajectoryRow]]:
    """The draws of this kind with their records. Those of boundaries that the run no longer has, since their task was
    collected again, belong to none."""
    rows = trajectories(store, phase=purpose)
    known = {(row.task, row.index): row.id for row in (boundary_rows(store) if rows else ())}
    draws = []
    for row in rows:
        _, index, arm, number = row.unit.rsplit("/", 3)
        if id := known.get((row.task, int(index))):
            draws.append((Draw(id, "PRE" if arm == "PRE" else "POST", int(number)), row))
    return draws


def further_draws(store: Store) -> dict[str, int]:
    """How many draws of each kind a run has besides its verification."""
    return {purpose: len(further_rows(store, purpose)) for purpose in get_args(Purpose)}


def fresh_summaries(store: Store) -> dict[BoundaryId, int]:
    """How many different summaries the draws with fresh ones have: a compressor may write the same one each time."""
    texts: dict[BoundaryId, set[str]] = {}
    for draw, row in further_rows(store, "resample"):
        texts.setdefault(draw.boundary, set()).add(summary_text(read_trajectory(store, row.unit)))
    return {id: len(each) for id, each in texts.items()}


def summary_text(draw: Trajectory) -> str:
    """The words of the summary that a draw with a fresh one continued from; empty for other draws."""
    summary = draw.boundaries[0].post.summary if draw.boundaries else None
    return summary.text if summary else ""


LOOP = "loop"
"""The suite of a run that `recompact.gateway` recorded."""


def refuse_without_effects(store: Store) -> None:
    """Raise where the compactions have no snapshots and so no effects: in an evaluation and of a wrapped agent."""
    if store.metadata.suite == WRAPPED:
        raise InputError(
            f"{store.path} is of a wrapped agent: no snapshots were taken, so effects cannot be estimated. See what"
            f" followed its compactions: {command_line('audit', store.path)}"
        )
    if store.metadata.command != "evaluate":
        return
    phase, config = trajectories(store, phase="evaluate"), "CONFIG"
    with suppress(InputError):
        config = str(config_of(store))
    compactions = quantity(sum(row.compactions for row in phase), "compaction")
    raise InputError(
        f"{store.path} is an evaluation: it took no snapshots at its {compactions} in"
        f" {quantity(len(phase), 'trajectory')}, so effects cannot be estimated. To estimate them, run"
        f" {command_line('collect', config)} && {command_line('verify', config)}. To see what the agent did after each"
        f" compaction, run {command_line('show', store.path, options=['--behaviour'])}"
    )


def way_to_verify(store: Store, *options: str) -> str:
    """The command that verifies a run, or what can be done where there is none."""
    if store.metadata.suite == LOOP and not store.metadata.config_file:
        return "a loop is verified from Python, as a subject that recompact.agent_suite makes of it: docs/loops.md"
    return command_line("verify", store.path, options=options)


def decoding_note(config: Config) -> str | None:
    """What to warn about before a token is spent: at temperature 0, further draws may only repeat the first."""
    if config.agent.temperature != 0:
        return None
    return (
        "[agent] temperature = 0: draws of one arm may be copies of each other. Copies count as one draw, so intervals"
        " stay wide however many are made; set the temperature that the agent is used with, or --draws 1"
    )


def copied_arms(store: Store, purpose: Purpose | None = None) -> CopiedArms:
    """The boundaries and arms, at temperature 0, whose draws all took the same actions to the same end, and where they
    have fresh summaries, from the same words. The draws are those of the verification or, with a `purpose`, of that."""
    if store.metadata.identity.get("agent", {}).get("temperature") != 0:
        return frozenset()
    arms: dict[tuple[BoundaryId, str], dict[str, ContinuationRow | TrajectoryRow]] = {}  # rows by the names of draws
    if purpose is None:
        for row in continuation_rows(store):
            arms.setdefault((row.boundary, row.arm), {})[row.name] = row
    else:
        for draw, beside in further_rows(store, purpose):
            arms.setdefault((draw.boundary, draw.arm), {})[beside.unit] = beside
    return frozenset(arm for arm, draws in arms.items() if len(draws) > 1 and _alike(store, draws))


def _alike(store: Store, draws: Mapping[str, ContinuationRow | TrajectoryRow]) -> bool:
    if len({(row.value, row.steps, row.ending) for row in draws.values()}) > 1:
        return False
    continuations = (read_trajectory(store, name) for name in draws)
    return len({(summary_text(c), tuple(action.key for action in actions_of(c))) for c in continuations}) == 1
