"""Episodes of the official package in hosts: who is asked, how a conversation ends, and that it can be brought back."""

from __future__ import annotations

import json
from functools import partial

import pytest
from needs import TAU2_REFERENCE, needs, require
from tau2_support import customer, expected, hosted

from recompact.environments.conformance import conformance
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.values.chat import Reply, Request
from recompact.values.trajectory import Action

pytestmark = needs("tau2-bench")

TASK = Task("5", "")  # its first order, and a customer who is found by name
ORDER = Action("get_order_details", {"order_id": "#W2611340"})
FIND = Action("find_user_id_by_email", {"email": "nobody@example.com"})
CANCEL = Action("cancel_pending_order", {"order_id": "#W2611340", "reason": "no longer needed"})
TALK = Action("", text="What can I do for you?")


async def test_splits_and_groups() -> None:
    suite = hosted()
    train, test = await suite.tasks("train"), await suite.tasks("test")
    assert (len(train), len(test)) == (74, 40)
    unchanged = {task.id for task in [*train, *test] if task.groups["database"] == "unchanged"}
    assert unchanged == {"10", "24", "25", "50", "57", "67", "105", "12", "62", "65", "68"}
    assert len({task.text for task in train}) == 1  # nothing that the customer knows is told beforehand


async def test_a_conversation_ends_when_the_customer_stops() -> None:
    asked: list[tuple[str, Request]] = []
    script = customer("I have a question.", "About my order.")

    async def ask(role: str, request: Request) -> Reply:
        asked.append((role, request))
        return await script(role, request)

    episode = hosted().episode(TASK, ask)
    opening = await episode.start()
    assert opening.text_actions
    assert [message.role for message in opening.prefix] == ["system", "assistant", "user"]
    assert "<policy>" in opening.prefix[0].content
    assert opening.prefix[-1].content == "I have a question."
    assert {"get_order_details", "cancel_pending_order"} <= {tool.name for tool in opening.tools}
    assert (await episode.step(TALK)).text == "About my order."
    observation = await episode.step(ORDER)
    assert json.loads(observation.text)["order_id"] == "#W2611340"
    last = await episode.step(TALK)
    assert last.done
    assert "###STOP###" in last.text
    assert (await episode.step(TALK)).error
    score = await episode.score()
    assert score.details["termination"] == "user_stop"
    await episode.close()
    roles = {role for role, _ in asked}
    assert roles == {"user"}
    first = asked[0][1]
    assert "<scenario>" in first.messages[0].content  # the benchmark's own guidelines and scenario
    assert first.decoding.temperature == 0.0
    assert episode.usage["user"].calls == len(asked) == 3
    # The customer never sees tool calls or their results.
    assert not any("#W2611340" in message.content for _, request in asked for message in request.messages[1:])


async def test_ten_errors_of_tools_end_it() -> None:
    episode = hosted({"max_errors": 3}).episode(TASK, customer("Hello."))
    await episode.start()
    observations = [await episode.step(FIND) for _ in range(3)]
    assert all(observation.error for observation in observations)
    assert [observation.done for observation in observations] == [False, False, True]
    score = await episode.score()
    assert (score.value, score.details["termination"]) == (0.0, "too_many_errors")
    await episode.close()


async def test_without_a_model_for_the_customer_the_role_is_named() -> None:
    episode = hosted().episode(TASK)
    with pytest.raises(EnvironmentFailed, match=r"no model is configured for the role 'user': set \[suite.models\]"):
        await episode.start()
    await episode.close()


def _verdict(met: bool, assertion: str) -> bool:
    return met


@needs("tau2 reference")
async def test_the_judge_is_asked_and_believed() -> None:
    file = TAU2_REFERENCE / "tau2" / "domains" / "retail" / "tasks.json"
    tasks = {id: task for id, task in expected()["head"]["tasks"].items() if task["needs_llm_judge"]}
    id = next(id for id, task in tasks.items() if not task["gold_changes_db"])
    suite = hosted({"tasks": str(file), "basis": "judge"})
    for verdict in (True, False):
        episode = suite.episode(Task(id, ""), customer("Hello.", judge=partial(_verdict, verdict)))
        await episode.start()
        await episode.step(TALK)
        score = await episode.score()
        assert score.details["basis"] == ["DB", "NL_ASSERTION"]
        assert score.details["reward"] == {"DB": 1.0, "NL_ASSERTION": float(verdict)}
        assert score.success is verdict
        assert episode.usage["judge"].calls == 1
        await episode.close()
    without = hosted({"tasks": str(file), "basis": "communicate"}).episode(Task(id, ""), customer("Hello."))
    await without.start()
    await without.step(TALK)
    assert (await without.score()).details["basis"] == ["DB", "COMMUNICATE"]
    assert "judge" not in without.usage
    await without.close()


async def test_a_judge_who_decides_nothing_is_no_pass() -> None:
    async def ask(role: str, request: Request) -> Reply:
        from recompact.values.chat import assistant

        return Reply(assistant('{"results": []}')) if role == "judge" else await customer("Hello.")(role, request)

    file = TAU2_REFERENCE / "tau2" / "domains" / "retail" / "tasks.json"
    require("tau2 reference")
    id = next(id for id, task in expected()["head"]["tasks"].items() if task["needs_llm_judge"])
    episode = hosted({"tasks": str(file), "basis": "judge"}).episode(Task(id, ""), ask)
    await episode.start()
    await episode.step(TALK)
    with pytest.raises(EnvironmentFailed, match="the judge decided none of"):
        await episode.score()
    await episode.close()


async def test_conformance() -> None:
    gold = _changing()
    actions = [TALK, ORDER, FIND, *gold, TALK, ORDER, TALK]
    lines = ("One.", "Two.", "Three.", "Four.")
    report = await conformance(hosted(), TASK, actions, at=5, branches=3, ask=customer(*lines))
    assert report.passed, str(report)
    assert report.strategy == "state"


def _changing() -> list[Action]:
    """Two writes to entities of different kinds."""
    address = {"address1": "1 Way", "address2": "", "city": "Rome", "state": "NY", "country": "USA", "zip": "10001"}
    return [
        Action("modify_user_address", {"user_id": "james_li_5688", **address}),
        Action("modify_user_address", {"user_id": "james_li_5688", **address, "city": "Troy"}),
    ]


async def test_a_snapshot_is_small_whatever_the_database_holds() -> None:
    episode = hosted().episode(TASK, customer("Hello."))
    await episode.start()
    before = await episode.snapshot()
    for action in _changing():
        await episode.step(action)
    after = await episode.snapshot()
    assert before is not None
    assert after is not None
    assert json.loads(before.data)["database"] == {}
    assert json.loads(after.data)["database"].keys() == {"users"}
    assert len(after.data) < 20_000
    await episode.close()


async def test_a_calculation_without_end_is_killed_and_harms_nobody_else() -> None:
    suite = hosted(timeout=15)
    calm, hostile = suite.episode(TASK, customer("Hello.")), suite.episode(TASK, customer("Hello."))
    await calm.start()
    await hostile.start()
    with pytest.raises(EnvironmentFailed, match="step took longer than 15 s and its host was killed"):
        await hostile.step(Action("calculate", {"expression": "9**9**9**9"}))
    assert (await calm.step(ORDER)).text.startswith('{"order_id"')
    await hostile.close()
    await calm.close()


@pytest.mark.parametrize(
    "action",
    [
        Action("get_order_details", {"order_id": ["x"] * 1000}),
        Action("get_order_details", {"nonsense": {"deep": [{}]}}),
        Action("calculate", {"expression": "__import__('os').system('id')"}),
        Action("", text="###STOP### " + "x" * 5_000_000),
    ],
    ids=["odd type", "odd names", "code", "a flood that says stop"],
)
async def test_odd_actions_are_answered(action: Action) -> None:
    episode = hosted().episode(TASK, customer("Hello.", "Go on."))
    await episode.start()
    observation = await episode.step(action)
    assert not observation.done
    assert observation.error == bool(action.name)
    await episode.close()
