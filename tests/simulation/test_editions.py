"""Editions and worlds: the frozen second edition stays as it was, and each defect that the third repairs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields, replace
from pathlib import Path
from random import Random

import pytest
from examples import examples
from hypothesis import given, strategies as st

from recompact.compressors.prompted import Prompted
from recompact.engine.rollout import Agent, run_episode
from recompact.environments.inprocess import InProcessEpisode
from recompact.errors import InputError
from recompact.models.endpoint import Endpoint
from recompact.models.journal import seed_of
from recompact.models.protocol import ChatModel, load_model
from recompact.simulation.agent import BY_SUMMARY, SimulatedAgent, act
from recompact.simulation.compressor import SimulatedCompressor, chance, draft_summary
from recompact.simulation.guidance import orders_in, read_guidance
from recompact.simulation.judgement import suspects
from recompact.simulation.layout import (
    detail_of_change,
    detail_of_conditions,
    detail_of_error,
    detail_of_login,
    detail_of_open_work,
    detail_of_signature,
)
from recompact.simulation.notes import SPECS, Event
from recompact.simulation.optimizer import SimulatedOptimizer
from recompact.simulation.parameters import KINDS, Between, Habits, Prior, Traits, World, draw_world
from recompact.suites.pocket import PocketSuite
from recompact.values.chat import Decoding, Message, Reply, Request, sha256, user
from recompact.values.context import Context, Summary
from recompact.values.template import default_template
from recompact.values.tokens import counter
from recompact.values.trajectory import Trajectory

SUITE = PocketSuite()
TASKS = {t.groups["family"]: t for t in SUITE.tasks("train")}
LONG = ("relation_income", "approve_related", "split_bills", "party_shares", "expense_mails", "club_dues")
"""Families whose episodes are compacted more than once."""
SECOND_EDITION = "692ecc40cfa3eba5"
"""What the frozen world did in these episodes when it was frozen."""


class Seeded:
    """A model with a seed for each call, as a unit of work has it."""

    name = "seeded"

    def __init__(self, model: ChatModel, unit: str) -> None:
        self._model, self._unit, self._calls = model, unit, 0

    async def reply(self, request: Request) -> Reply:
        self._calls += 1
        decoding = request.decoding.seeded(seed_of(self._unit, self._calls))
        return await self._model.reply(Request(request.messages, request.tools, decoding))


def play(family: str, agent: SimulatedAgent, compressor: SimulatedCompressor) -> Trajectory:
    task, count, unit = TASKS[family], counter(), "u"
    prompted = Prompted(Seeded(compressor, f"{unit}/c"), default_template(), count, task=task.text)
    return asyncio.run(
        run_episode(
            task,
            InProcessEpisode(SUITE.environment(task), task.id),
            Agent(Seeded(agent, unit)),
            count=count,
            step_limit=50,
            compressor=lambda opening: prompted,
            budget=2048,
        )
    )


def fingerprint(trajectories: list[Trajectory], optimizer: SimulatedOptimizer) -> str:
    """All that was said in some episodes, and what the optimizer makes of each boundary."""
    texts = []
    for trajectory in trajectories:
        texts += [m.text for turn in trajectory.turns for m in turn.messages]
        for boundary in trajectory.boundaries:
            previous = boundary.pre.summary.text if boundary.pre.summary else ""
            summary = boundary.post.summary.text if boundary.post.summary else ""
            blocks = {"segment": boundary.pre.history, "previous-summary": previous, "summary": summary}
            prompt = "\n".join(f"<{tag}>\n{text}\n</{tag}>" for tag, text in blocks.items())
            reply = asyncio.run(optimizer.reply(Request((user(prompt),), decoding=Decoding(seed=1))))
            texts += [summary, reply.message.content]
    return sha256("\n".join(texts))[:16]


def test_the_second_edition_does_what_it_did_when_it_was_frozen() -> None:
    played = [play(family, SimulatedAgent(), SimulatedCompressor()) for family in LONG]
    assert sum(len(trajectory.boundaries) for trajectory in played) > 10
    assert fingerprint(played, SimulatedOptimizer()) == SECOND_EDITION


# --- worlds


@examples(40)
@given(st.integers(0, 10_000))
def test_a_world_lies_within_the_prior_and_is_fixed_by_its_number(number: int) -> None:
    world, prior = draw_world(number), Prior()
    assert world == draw_world.__wrapped__(number)
    for values, ranges in (
        (world.traits, prior.traits),
        (world.habits, prior.habits),
        (world.judgement, prior.judgement),
    ):
        for name, between in ranges.items():
            assert between.low <= getattr(values, name) <= between.high
    assert all(prior.loss[kind].low <= world.habits.loss[kind] <= prior.loss[kind].high for kind in KINDS)
    assert 1 < world.habits.attention[1] < world.habits.attention[2]
    assert world.traits.even_belief
    assert world.judgement.reads_previous
    assert world.habits.rivalry < 1
    assert (world.traits.wander, world.traits.wander_on) in prior.wandering


def test_worlds_differ_and_a_range_by_factor_is_even_in_its_logarithm() -> None:
    assert len({json.dumps(draw_world(n).habits.loss) for n in range(20)}) == 20
    drawn = [Between(1.0, 100.0, by_factor=True).draw(Random(n)) for n in range(400)]
    assert 0.4 < sum(value < 10 for value in drawn) / 400 < 0.6


def test_models_are_told_their_world_by_options() -> None:
    directory = Path()
    for name in ("sim-agent", "sim-compressor", "sim-optimizer"):
        assert load_model(name, {"world": 3}, Endpoint(), directory).name == name
        with pytest.raises(InputError):
            load_model(name, {"edition": 2}, Endpoint(), directory)
    assert SimulatedAgent().behaviour == World().traits
    assert SimulatedAgent(world=5).behaviour == draw_world(5).traits


# --- what the third edition repairs

EVERYTHING = "\n".join(
    (
        "- Keep every condition of the task exactly.",
        "- Keep the rows that were retrieved, one by one.",
        "- Keep every identifier exactly.",
        "- Keep every token and password.",
        "- Keep every signature with its parameters.",
        "- Record exactly which pages were read.",
        "- Keep every mutation, exactly once.",
        "- Keep every unresolved item.",
        "- Keep every error text exactly.",
    )
)


def prompt_of(family: str, guidance: str) -> tuple[Message, ...]:
    """What a compressor is sent at the first boundary, with further guidance."""
    context = play(family, SimulatedAgent(FAULTLESS), SimulatedCompressor(ROOMY)).boundaries[0].pre
    template = default_template()
    longer = replace(template, first=f"{template.first}{guidance}\n", update=f"{template.update}{guidance}\n")
    prompted = Prompted(SimulatedCompressor(), longer, counter(), task=TASKS[family].text)
    return prompted.messages(context.before_last(), 2000)


FAULTLESS = Traits(**dict.fromkeys((f.name for f in fields(Traits)), 0.0))  # type: ignore[arg-type]
ROOMY = Habits(loss=dict.fromkeys(KINDS, 0.0), room=100_000, detail=1.0, rivalry=0.3)


def test_what_does_not_fit_is_displaced_and_can_be_pointed_at() -> None:
    messages = prompt_of("split_bills", "")
    sizes = []
    for room in (500, 800, 1100, 3000):
        draft = draft_summary(messages, Random(1), replace(ROOMY, room=room))
        assert {*draft.fitting, *draft.displaced} == set(draft.wanted)
        sizes.append(len(draft.displaced))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1] == 0


def test_asking_for_everything_keeps_more_attention_and_takes_more_room() -> None:
    nothing, everything = read_guidance(""), read_guidance(EVERYTHING)
    assert set(everything.demands.values()) == {2}
    for kind in KINDS:
        assert chance(kind, everything, Habits()) == pytest.approx(
            chance(kind, nothing, Habits())
        )  # the second edition
        assert chance(kind, everything, replace(Habits(), rivalry=0.5)) > chance(kind, nothing, Habits())
    lengths = [len(draft_summary(prompt_of("split_bills", g), Random(1), ROOMY).text) for g in ("", EVERYTHING)]
    assert lengths[1] > 1.2 * lengths[0]
    tight = replace(ROOMY, room=1100)
    gone = [draft_summary(prompt_of("split_bills", g), Random(1), tight).displaced for g in ("", EVERYTHING)]
    assert len(gone[1]) > len(gone[0])


def test_details_tell_the_agent_to_do_nothing() -> None:
    event = Event(
        "payments", "send_money", json.dumps({"email": "a@b.example", "amount": 3}), {"id": "t1000"}, "refused"
    )
    texts = [detail_of_signature(spec) for spec in SPECS.values()]
    texts += [detail_of_change(event), detail_of_error(event), detail_of_login(event)]
    texts += [detail_of_conditions(task.text) + detail_of_open_work(task.text) for task in TASKS.values()]
    assert not [line for text in texts for line in text.splitlines() if orders_in(line)]


def test_a_condition_that_was_lost_tends_to_stay_lost() -> None:
    task = TASKS["relation_income"]
    condition = next(c for c in ("coworker", "friend", "roommate") if c in task.text)
    context = Context(SUITE.prefix(task), Summary("## Goal\nAdd up the payments.", 10))
    messages = Prompted(SimulatedCompressor(), default_template(), counter(), task=task.text).messages(context, 2000)

    def restored(relapse: float) -> int:
        habits = replace(ROOMY, detail=0.0, relapse=relapse)
        return sum(condition in draft_summary(messages, Random(n), habits).text for n in range(60))

    assert restored(0.0) == 60
    assert restored(0.9) < 40


def test_a_lost_condition_is_believed_at_every_task_alike() -> None:
    prefix = SUITE.prefix(TASKS["relation_income"])
    messages = Context(prefix, Summary("## Goal\nAdd up the payments.", 10)).messages
    believing = replace(FAULTLESS, believe_goal=0.6, even_belief=True)
    believed = sum(BY_SUMMARY in act(messages, Random(n), believing).content for n in range(300))
    assert 150 < believed < 210


def test_what_the_previous_summary_had_is_missed_where_it_is_read() -> None:
    previous = (
        '## Critical Context\n- payments.send_money(token, email, amount, note="")\n'
        '- payments.list_requests(direction="incoming", page_size=6): pages 1 to 2 of 2, 2 in all: id|amount\n'
        "  r1000|3.5\n  r1001|4.5\n"
        '- [x] payments.approve_request(request_id="r1000")'
    )
    assert suspects("", previous, "## Goal\nGo on.") == []
    kinds = {kind for kind, *_ in suspects("", previous, "## Goal\nGo on.", reads_previous=True)}
    assert kinds == {"signature", "set", "mutation"}
    assert suspects("", previous, previous, reads_previous=True) == []


def test_needless_look_ups_come_in_runs() -> None:
    def wanderings(traits: Traits) -> list[int]:
        runs = []
        for number in range(12):
            task, count = TASKS["split_bills"], counter()
            trajectory = asyncio.run(
                run_episode(
                    task,
                    InProcessEpisode(SUITE.environment(task), task.id),
                    Agent(Seeded(SimulatedAgent(traits), f"w{number}")),
                    count=count,
                    step_limit=200,
                )
            )
            runs.append(sum(turn.message.content.startswith("Let me check") for turn in trajectory.turns))
        return runs

    short, long = (wanderings(replace(FAULTLESS, wander=0.05, wander_on=again)) for again in (0.0, 0.8))
    assert sum(long) > 1.5 * sum(short) > 0
