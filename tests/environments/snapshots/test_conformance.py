"""The conformance checks: sound environments of every strategy pass, and broken ones fail with a text that says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from snapshot_suites import ROLLS, TASK, WORDS, OneTask, words

from recompact.environments.conformance import conformance
from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.protocol import Task
from recompact.errors import InputError
from recompact.suites.pocket import PocketSuite
from recompact.suites.pocket.families import BY_NAME
from recompact.suites.pocket.plans import play
from recompact.values.trajectory import Action

SUPPORT = Path(__file__).parents[2] / "support"


def hosted(kind: str) -> HostedSuite:
    return HostedSuite("snapshot_suites.py:OneTask", {"kind": kind}, SUPPORT, timeout=20)


def pocket_played() -> tuple[Task, list[Action]]:
    task = PocketSuite().tasks("train")[5]
    played = play(
        PocketSuite().environment(task), BY_NAME[task.data["family"]].solve, task.data["parameters"], thorough=True
    )
    return task, [action for action, _ in played.steps]


async def test_pocket_in_process() -> None:
    task, actions = pocket_played()
    report = await conformance(InProcessSuite(PocketSuite()), task, actions)
    assert report.passed, str(report)
    assert report.strategy == "state"
    assert len(report.checks) == 6


async def test_pocket_hosted() -> None:
    task, actions = pocket_played()
    report = await conformance(HostedSuite("pocket"), task, actions[:4], branches=2)
    assert report.passed, str(report)


async def test_a_function_suite() -> None:
    report = await conformance(InProcessSuite(words), words.tasks("train")[0], WORDS)
    assert report.passed, str(report)


async def test_a_function_suite_with_state_that_cannot_be_pickled_is_replayed() -> None:
    actions = (WORDS[0], Action("lock"), *WORDS[1:])
    report = await conformance(InProcessSuite(words), words.tasks("train")[0], actions, at=3)
    assert report.passed, str(report)
    assert report.strategy == "replay"


@pytest.mark.parametrize(
    ("kind", "strategy"), [("Dice", "state"), ("OnlyReplay", "replay"), ("Clocked", "replay"), ("Folder", "directory")]
)
async def test_every_strategy_in_process(kind: str, strategy: str) -> None:
    report = await conformance(InProcessSuite(OneTask(kind)), TASK, ROLLS)
    assert report.passed, str(report)
    assert report.strategy == strategy


@pytest.mark.parametrize(("kind", "strategy"), [("Clocked", "replay"), ("Folder", "directory"), ("Living", "replay")])
async def test_other_strategies_hosted(kind: str, strategy: str) -> None:
    suite = hosted(kind)
    original, copy = suite.episode(TASK), suite.episode(TASK)
    await original.start()
    for action in ROLLS[:4]:
        await original.step(action)
    snapshot = await original.snapshot()
    assert snapshot is not None
    assert snapshot.strategy == strategy
    await copy.start()
    await copy.restore(snapshot)
    for action in ROLLS[4:]:
        one, other = await original.step(action), await copy.step(action)
        assert one == other or kind == "Clocked"
    assert await original.score() == await copy.score()
    await original.close()
    await copy.close()


@pytest.mark.parametrize(
    ("kind", "check", "excerpt"),
    [
        ("Forgets", "restored", "restored, action 5 (do) gave"),
        ("Shares", "independent", "beside another branch, action 5 (do) gave"),
        ("Whimsical", "replay equal", "in a second episode, action 1 (do) gave"),
        ("Rewinds", "restored", "restored, action 5 (do) gave"),
        ("Disturbed", "undisturbed", "with a snapshot before each action, action 1 (do) gave"),
    ],
)
async def test_a_broken_environment_fails_and_hears_why(kind: str, check: str, excerpt: str) -> None:
    report = await conformance(InProcessSuite(OneTask(kind)), TASK, ROLLS)
    assert not report.passed
    failed = {failure.name: failure.text for failure in report.failures}
    assert excerpt in failed[check]
    assert f"FAILED {check}: {failed[check]}" in str(report)


async def test_an_unmasked_clock_fails_the_replay_and_a_mask_helps() -> None:
    whimsical = InProcessSuite(OneTask("Whimsical"))
    report = await conformance(whimsical, TASK, ROLLS, mask=["[0-9a-f]{32}"])
    assert report.passed, str(report)


async def test_too_few_actions_are_no_check() -> None:
    with pytest.raises(InputError, match="action"):
        await conformance(InProcessSuite(OneTask()), TASK, ROLLS[:2])
