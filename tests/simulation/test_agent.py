"""The simulated agent as a character: tasks differ, ways differ, and a summary's orders are followed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from random import Random

import pytest
from test_models import COUNT, FAULTLESS, SUITE, TASKS, Seeded

from recompact.compressors.fifo import Fifo
from recompact.engine.rollout import Agent, run_episode
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import Task
from recompact.simulation.agent import SMALL_PAGE, SimulatedAgent, ability, act
from recompact.simulation.knowledge import knowledge_of, write_notes
from recompact.simulation.notes import argument_key, events_of
from recompact.simulation.parameters import Traits
from recompact.suites.pocket import BY_NAME, Owner, play, read_task_message
from recompact.values.chat import Message
from recompact.values.context import Context, Summary
from recompact.values.trajectory import Trajectory


def run(task: Task, traits: Traits, unit: str = "u", fifo: bool = False) -> Trajectory:
    return asyncio.run(
        run_episode(
            task,
            InProcessEpisode(SUITE.environment(task), task.id),
            Agent(Seeded(SimulatedAgent(traits), unit)),
            count=COUNT,
            step_limit=50,
            compressor=(lambda opening: Fifo()) if fifo else (lambda opening: None),
            budget=2048,
        )
    )


def owner_of(task: Task) -> Owner:
    asked = read_task_message(task.data["message"])
    assert asked is not None
    return asked[0]


def test_tasks_differ_and_stay_the_same_at_every_attempt() -> None:
    tasks = SUITE.tasks("test")
    abilities = [ability(t.text, owner_of(t), t.groups["family"], Traits()) for t in tasks]
    ability.cache_clear()
    assert abilities == [ability(t.text, owner_of(t), t.groups["family"], Traits()) for t in tasks]
    beyond = [t.groups["difficulty"] for t, a in zip(tasks, abilities, strict=True) if a.wrong]
    assert beyond.count("hard") > beyond.count("medium") > beyond.count("easy")
    assert max(a.unsteadiness for a in abilities) > 3
    assert sorted(a.unsteadiness for a in abilities)[len(abilities) // 2] < 0.5


def test_a_task_beyond_the_agent_is_never_done() -> None:
    beyond = replace(FAULTLESS, never_easy=1.0, never_medium=1.0, never_hard=1.0)
    for task in TASKS.values():
        assert not run(task, beyond).score.success, task.id


@pytest.mark.parametrize("family", sorted(TASKS))
def test_every_route_leads_to_the_same_end(family: str) -> None:
    task, spec = TASKS[family], BY_NAME[family]
    calls = set()
    for other_order in (False, True):
        for size in (SMALL_PAGE, 6):
            plan = spec.route(spec.solve, other_order, size)
            played = play(SUITE.environment(task), plan, task.data["parameters"])
            assert played.score.success, (other_order, size)
            calls.add(tuple(str(action) for action, _ in played.steps))
    assert len(calls) > 1


def test_the_agent_takes_different_routes_without_slipping() -> None:
    ways = replace(FAULTLESS, other_order=0.5, small_pages=0.5)
    runs = [run(TASKS["approve_related"], ways, f"u{n}") for n in range(6)]
    assert all(r.score.success for r in runs)
    assert len({tuple(t.message.calls[0].arguments for t in r.turns) for r in runs}) > 1


def test_where_its_history_is_cut_off_notes_carry_the_agent_through() -> None:
    careful, careless = FAULTLESS, replace(FAULTLESS, neglect_medium=1 - 1e-9, neglect_hard=1 - 1e-9)
    task = TASKS["relation_income"]
    assert run(task, careful, fifo=True).score.success
    assert not run(task, careless, fifo=True).score.success
    assert run(task, careless).score.success


ORDERS = {
    "log in": "1. Log in to payments again before going on.",
    "check": "- Before finishing, verify the results once more.",
    "repeat": "- Repeat whatever looks doubtful.",
}


def steps_with(summary: str, traits: Traits) -> tuple[int, bool]:
    """A finished task, from just before its end, with that much added to a summary that has everything."""
    task = TASKS["approve_related"]
    whole = run(task, FAULTLESS)
    prefix, steps = whole.context.prefix, 0
    results = {(event.name, event.arguments): event.result for event in events_of(whole.context.messages)}
    notes = "\n".join(_record(whole))
    messages: tuple[Message, ...] = Context(prefix, Summary.measured(f"{notes}\n{summary}", COUNT)).messages
    repeated = False
    while steps < 8:
        message = act(messages, Random(steps), traits)
        if message.calls[0].name == "finish":
            break
        steps += 1
        call = message.calls[0].parsed()
        repeated |= call["api"] == "approve_request"
        result = results.get((f"{call['app']}.{call['api']}", argument_key(call["arguments"])), {"token": "pay-1"})
        messages = (*messages, message, Message("tool", json.dumps(result), call_id=message.calls[0].id))
    return steps, repeated


def _record(trajectory: Trajectory) -> list[str]:
    knowledge, _, _ = knowledge_of(trajectory.context.messages)
    passwords = ", ".join(f"{app} {word}" for app, word in knowledge.passwords.items())
    return [write_notes(knowledge), f"- Passwords: {passwords}"]


def test_orders_in_a_summary_cost_steps_and_do_damage() -> None:
    obedient = replace(FAULTLESS, obey=1.0, doubt=1.0)
    assert steps_with("", obedient) == (0, False)
    assert steps_with(ORDERS["log in"], obedient) == (1, False)
    checked, repeated = steps_with(ORDERS["check"], obedient)
    assert (checked, repeated) == (3, False)
    assert steps_with(ORDERS["repeat"], obedient)[1]
    assert steps_with("\n".join(ORDERS.values()), FAULTLESS) == (0, False)
