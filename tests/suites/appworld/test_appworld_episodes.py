"""Real episodes on the real engine, over a miniature data root: scores, replay, and the grader."""

from __future__ import annotations

import json

import pytest
from appworld_support import COUNT, CREATE, DONE, NOTE, hosted, login, miniature, run
from needs import needs

from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import EnvironmentFailed
from recompact.suites.appworld.grader import pack
from recompact.values.trajectory import Snapshot

pytestmark = needs("appworld", "bubblewrap")


@pytest.fixture
def suite() -> HostedSuite:
    return hosted()


async def test_episodes_and_their_scores(suite: HostedSuite) -> None:
    """One world, and branches of it that end well, badly and half."""
    (first, second) = await suite.tasks("train")
    assert (first.id, first.groups) == ("a1b2c3d_1", {"difficulty": "1", "scenario": "a1b2c3d"})
    assert second.text == first.text
    original = suite.episode(first)
    opening = await original.start()
    assert "Ada Quill" in opening.prefix[1].content
    assert first.text in opening.prefix[1].content
    assert [tool.name for tool in opening.tools] == ["execute_python"]
    assert "ada-secret" in (await original.step(run("print(apis.supervisor.show_account_passwords())"))).text
    assert not (await original.step(login())).error
    snapshot = await original.snapshot()
    assert snapshot is not None
    delete = run("apis.simple_note.delete_note(note_id=1, access_token=token)")
    wrong = run("apis.simple_note.create_note(title='Shopping', content='milk', access_token=token)")
    for actions, success, damage in (
        ([NOTE, DONE], True, 0),
        ([DONE], False, 0),
        ([wrong, DONE], False, 0),
        ([NOTE, delete, DONE], False, 1),
    ):
        branch = suite.episode(first)
        await branch.start()
        await branch.restore(snapshot)
        observations = [await branch.step(action) for action in actions]
        assert [observation.done for observation in observations] == [False] * (len(actions) - 1) + [True]
        assert (await branch.step(NOTE)).error  # after the end nothing is executed
        score = await branch.score()
        assert (score.success, score.value) == (success, float(success)), (actions, score)
        assert score.details["tests"] == 2
        assert score.details["difficulty"] == 1
        assert score.details["collateral_damage"] == damage
        assert "evidence" not in score.details
        await branch.close()
    mistake = await original.step(run("print(apis.venmo.no_such_api())"))
    assert mistake.error
    assert "no_such_api" in mistake.text
    await original.close()


async def test_an_answer_is_compared(suite: HostedSuite) -> None:
    episode = suite.episode(COUNT)
    await episode.start()
    await episode.step(login())
    notes = await episode.step(run("print(apis.simple_note.show_note(note_id=1, access_token=token)['content'])"))
    assert "14 tulips" in notes.text
    snapshot = await episode.snapshot()
    assert snapshot is not None
    for answer, success in ((14, True), ("14", True), (15, False)):
        branch = suite.episode(COUNT)
        await branch.start()
        await branch.restore(snapshot)
        assert (await branch.step(run(f"apis.supervisor.complete_task(answer={answer!r})"))).done
        assert (await branch.score()).success is success, answer
        await branch.close()
    await episode.close()


async def test_a_replayed_world_goes_on_as_the_original(suite: HostedSuite) -> None:
    actions = [
        login(),
        run("import random\nnumbers = (random.random() for _ in range(9))\nprint(next(numbers))"),
        run("apis.simple_note.logout(access_token=token)"),
        run("print(apis.simple_note.show_note(note_id=1, access_token=token))"),  # revoked: an error
        login(),
        run("print(next(numbers), random.random())"),  # a generator goes on where it was
        NOTE,
        DONE,
    ]
    original, copy = suite.episode(CREATE), suite.episode(CREATE)
    await original.start()
    for action in actions[:4]:
        await original.step(action)
    snapshot = await original.snapshot()
    assert snapshot is not None
    assert snapshot.strategy == "replay"
    await copy.start()
    await copy.restore(snapshot)
    for action in actions[4:]:
        assert await original.step(action) == await copy.step(action)
    assert await original.score() == await copy.score()
    await original.close()
    await copy.close()


async def test_the_durable_form_is_a_replay_with_a_digest(suite: HostedSuite) -> None:
    original = suite.episode(CREATE)
    await original.start()
    for action in (login(), NOTE, run("kept = 5")):
        await original.step(action)
    snapshot = await original.snapshot()
    assert snapshot is not None
    assert json.loads(snapshot.data)["digest"]
    await original.step(run("import uuid\nkept = str(uuid.uuid4())"))  # differs every time, and is never shown
    volatile = await original.snapshot()
    assert volatile is not None
    await original.close()
    copy = suite.episode(CREATE)
    await copy.start()
    await copy.restore(Snapshot(snapshot.strategy, snapshot.data))
    assert (await copy.step(run("print(kept + 1)"))).text.strip() == "6"
    assert (await copy.step(DONE)).done
    assert (await copy.score()).success
    await copy.close()
    other = suite.episode(CREATE)
    await other.start()
    with pytest.raises(EnvironmentFailed, match="the same observations, but the state is not the recorded one"):
        await other.restore(Snapshot(volatile.strategy, volatile.data))
    await other.close()


async def test_forged_evidence_is_a_failure_and_no_crash(suite: HostedSuite) -> None:
    from recompact.environments.hosted import grade
    from recompact.values.trajectory import Score

    grader = suite.grader
    assert grader is not None
    for evidence in ({"../../x.jsonl": ""}, {"supervisor.jsonl": "not json"}, {"supervisor.jsonl": '["DROP", {}]'}):
        score = await grade(grader, CREATE, Score.of(True, evidence=pack(evidence)))
        assert not score.success, evidence
    assert (miniature() / "data" / "tasks" / CREATE.id / "ground_truth" / "answer.json").exists()
