"""The simulated models: what they see, what they do with what is lost, and how they follow a prompt."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from examples import examples
from hypothesis import given, strategies as st

from planted_truth import lost_facts
from recompact.compressors.prompted import Prompted
from recompact.engine.rollout import Agent, run_episode
from recompact.environments.inprocess import InProcessEpisode
from recompact.models.journal import seed_of
from recompact.simulation import simulated_models
from recompact.simulation.agent import SimulatedAgent, act
from recompact.simulation.compressor import SimulatedCompressor, summarize
from recompact.simulation.guidance import read_guidance
from recompact.simulation.optimizer import SimulatedOptimizer
from recompact.simulation.parameters import KINDS, Habits, Traits
from recompact.suites.pocket import PocketSuite
from recompact.values.chat import Decoding, Message, Reply, Request, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.template import default_template, parse_sections
from recompact.values.tokens import counter
from recompact.values.trajectory import Trajectory

SUITE = PocketSuite()
COUNT = counter()
FAULTLESS = Traits(**dict.fromkeys(Traits.__dataclass_fields__, 0.0))  # type: ignore[arg-type]
KEEPS_ALL = Habits(loss=dict.fromkeys(KINDS, 0.0), room=100_000)
TASKS = {t.groups["family"]: t for t in SUITE.tasks("train")}


class Seeded:
    """A model as a unit of work sees it, and a check that nothing but a request ever reaches it."""

    name = "seeded"

    def __init__(self, model: Any, unit: str) -> None:
        self.model, self.unit, self.calls = model, unit, 0

    async def reply(self, request: Request) -> Reply:
        assert type(request) is Request
        self.calls += 1
        seed = seed_of(self.unit, self.calls)
        copied = Request(
            tuple(Message.from_json(json.loads(m.text)) for m in request.messages),
            request.tools,
            request.decoding.seeded(seed),
        )
        reply: Reply = await self.model.reply(copied)
        return reply


def play(
    family: str,
    agent: SimulatedAgent,
    compressor: SimulatedCompressor | None = None,
    budget: int = 2048,
    unit: str = "u",
) -> Trajectory:
    task = TASKS[family]
    return asyncio.run(
        run_episode(
            task,
            InProcessEpisode(SUITE.environment(task), task.id),
            Agent(Seeded(agent, unit)),
            count=COUNT,
            step_limit=50,
            compressor=lambda opening: (
                Prompted(Seeded(compressor, f"{unit}/c"), default_template(), COUNT, task=task.text)
                if compressor
                else None
            ),
            budget=budget,
        )
    )


@pytest.mark.parametrize("family", sorted(TASKS))
def test_an_agent_that_never_slips_solves_every_family(family: str) -> None:
    trajectory = play(family, SimulatedAgent(FAULTLESS))
    assert trajectory.score.success
    assert trajectory.ending == "finished"


@pytest.mark.parametrize("family", [f for f, t in TASKS.items() if t.groups["difficulty"] != "easy"])
def test_nothing_is_lost_where_the_summary_keeps_everything(family: str) -> None:
    whole = play(family, SimulatedAgent(FAULTLESS))
    compacted = play(family, SimulatedAgent(FAULTLESS), SimulatedCompressor(KEEPS_ALL), budget=2600)
    assert compacted.boundaries
    assert compacted.score.success
    assert compacted.steps <= whole.steps + 2  # what an app can do is no fact that summaries keep
    for boundary in compacted.boundaries:
        assert not lost_facts(boundary.pre, boundary.post, TASKS[family].text)


def with_summary(family: str, text: str, keep_last: bool = True) -> tuple[Message, ...]:
    """What an agent sees right after a compaction with that summary."""
    trajectory = play(family, SimulatedAgent(FAULTLESS))
    turns: tuple[Turn, ...] = trajectory.turns[-2:-1] if keep_last else ()
    return Context(trajectory.context.prefix, Summary.measured(text, COUNT), turns).messages


def next_call(messages: tuple[Message, ...], traits: Traits = FAULTLESS, seed: int = 0) -> dict[str, Any]:
    call = act(messages, Random(seed), traits).calls[0]
    return {"name": call.name, **call.parsed()}


def test_what_is_missing_is_looked_up_again_in_the_order_in_which_it_is_needed() -> None:
    task = TASKS["relation_income"]
    trajectory = play("relation_income", SimulatedAgent(FAULTLESS))
    prefix = trajectory.context.prefix
    passwords = next(
        json.loads(t.results[0].content) for t in trajectory.turns if "show_passwords" in t.message.calls[0].arguments
    )
    lines: list[str] = []

    def after(line: str) -> dict[str, Any]:
        if line:
            lines.append(line)
        text = Summary.measured("\n".join(lines) or "(nothing)", COUNT)
        return next_call(Context(prefix, text).messages)

    assert after("")["api"] == "show_passwords"  # nothing is known
    pairs = ", ".join(f"{app} {word}" for app, word in passwords.items())
    assert after(f"- Passwords: {pairs}")["api"] == "login"
    assert after("- payments token: pay-00000001")["api"] == "show_apis"
    assert after("- list_transactions of payments, that is payments.list_transactions, was read")["api"] == "show_api"
    call = after("- payments.list_transactions(token, direction=null, since=null, page=1, page_size=4)")
    assert (call["api"], call["arguments"]["token"]) == ("list_transactions", "pay-00000001")
    assert task.data["parameters"]["since"] == call["arguments"]["since"]


def test_a_forgotten_payment_is_made_twice_and_a_remembered_one_is_not() -> None:
    trajectory = play("trip_debts", SimulatedAgent(FAULTLESS))
    paid = [t for t in trajectory.turns if t.message.calls[0].parsed().get("api") == "send_money"]
    at = trajectory.turns.index(paid[1])
    context = Context(trajectory.context.prefix, None, trajectory.turns[:at])
    keep = summarize(
        Prompted(Seeded(None, ""), default_template(), COUNT).messages(context, 5000), Random(0), KEEPS_ALL
    )
    forget = "\n".join(line for line in keep.splitlines() if not line.startswith("- [x] payments.send_money"))
    first, second = (paid[n].message.calls[0].parsed()["arguments"] for n in (0, 1))

    def pays(summary: str) -> Any:
        return next_call(Context(trajectory.context.prefix, Summary.measured(summary, COUNT)).messages)["arguments"]

    assert pays(keep)["email"] == second["email"]
    assert pays(forget)["email"] == first["email"]


def test_a_claimed_answer_is_believed_with_some_probability_and_a_doubted_one_never() -> None:
    claimed = with_summary("relation_income", "## Key Decisions\n- **Use 123.45 as the answer**: the total found.")
    doubted = with_summary("relation_income", "- The sum is 123.45; use 123.45 as the answer is not yet confirmed.")
    even = replace(Traits(), unevenness=0.0)
    believing = [next_call(claimed, even, seed).get("answer") == "123.45" for seed in range(300)]
    assert 0.5 < sum(believing) / 300 < 0.8
    assert not any(next_call(doubted, even, seed).get("answer") == "123.45" for seed in range(100))


@given(st.text(max_size=800))
@examples(60)
def test_the_agent_copes_with_any_summary(text: str) -> None:
    prefix = SUITE.environment(TASKS["approve_related"]).start().prefix
    message = act(Context(prefix, Summary("x", 1) if not text else Summary(text, 1)).messages, Random(1), Traits())
    assert message.calls[0].name in ("call_api", "finish")


def test_a_summary_by_another_hand_is_used_as_far_as_it_goes() -> None:
    """Prose in a real model's manner: tokens and calls in it are found, the rest is looked up."""
    text = (
        "**Summary of work**\nThe assistant logged into payments (access token `pay-1a2b3c4d`) and learned that "
        "`payments.list_transactions(token, direction, since, page)` lists payments.\nIt still has to read them."
    )
    call = next_call(with_summary("relation_income", text, keep_last=False))
    assert (call["api"], call["arguments"]["token"]) == ("list_transactions", "pay-1a2b3c4d")


def test_the_compressor_writes_the_headings_that_the_prompt_demands() -> None:
    trajectory = play("relation_income", SimulatedAgent(FAULTLESS))
    context = Context(trajectory.context.prefix, None, trajectory.turns[:8])
    template = default_template()
    for custom in (template.first, template.first.replace("## Goal", "## Mission").replace("## Next Steps", "## Plan")):
        prompted = Prompted(Seeded(None, ""), type(template)(template.system, custom, template.update), COUNT)
        written = summarize(prompted.messages(context, 1500), Random(3), Habits())
        wanted = [s.heading.strip() for s in parse_sections(custom) if s.level]
        assert [s.heading.strip() for s in parse_sections(written) if s.level] == wanted


def kept_share(guidance: str, what: str, draws: int = 200) -> float:
    trajectory = play("relation_income", SimulatedAgent(FAULTLESS))
    context = Context(trajectory.context.prefix, None, trajectory.turns[:12])
    template = default_template()
    changed = template.first.replace("## Critical Context\n", f"## Critical Context\n{guidance}\n")
    prompted = Prompted(Seeded(None, ""), type(template)(template.system, changed, template.update), COUNT)
    messages = prompted.messages(context, 2000)
    return sum(what in summarize(messages, Random(n), Habits()) for n in range(draws)) / draws


@pytest.mark.parametrize(
    ("clause", "what"),
    [
        ("- Write down how every API is called, with all parameters.", "- payments.list_transactions(token"),
        ("- Credentials that still work must be there in full.", "- payments token: pay-"),
    ],
)
def test_guidance_changes_what_is_kept(clause: str, what: str) -> None:
    plain, demanded = kept_share("", what), kept_share(clause, what)
    assert demanded > plain
    assert demanded > 0.9
    assert kept_share("- Never copy any token or password.", "pay-") < 0.2


def test_room_is_what_it_is() -> None:
    trajectory = play("club_dues", SimulatedAgent(FAULTLESS))
    context = Context(trajectory.context.prefix, None, trajectory.turns[:20])
    messages = Prompted(Seeded(None, ""), default_template(), COUNT).messages(context, 100_000)
    sizes = [COUNT(summarize(messages, Random(n), Habits(room=room))) for room in (400, 1200) for n in range(5)]
    assert max(sizes[:5]) < 500
    assert min(sizes[5:]) > max(sizes[:5])


def test_asked_again_it_writes_less() -> None:
    trajectory = play("club_dues", SimulatedAgent(FAULTLESS))
    context = Context(trajectory.context.prefix, None, trajectory.turns[:20])
    messages = Prompted(Seeded(None, ""), default_template(), COUNT).messages(context, 5000)
    long = summarize(messages, Random(1), KEEPS_ALL)
    again = (*messages, Message("assistant", long), user("That record has 2000 tokens and its limit is 600. Again."))
    assert COUNT(summarize(again, Random(1), KEEPS_ALL)) <= 600 < COUNT(long)


def test_the_default_template_mentions_some_kinds_and_demands_few() -> None:
    demands = read_guidance(default_template().first).demands
    assert demands["token"] == 0
    assert demands["signature"] == 0
    assert demands["predicate"] == demands["mutation"] == 1


def test_the_optimizer_abstains_where_the_summary_lost_nothing() -> None:
    prompt = "<segment>\nS1| [assistant]\nS2| I think.\n</segment>\n<summary>\nN1| ## Goal\nN2| sum\n</summary>"
    reply = asyncio.run(SimulatedOptimizer().reply(Request((user(prompt),), decoding=Decoding(seed=1))))
    answer = json.loads(reply.message.content)
    assert answer["findings"] == []
    assert answer["abstain"]


async def test_candidates_differ_and_keep_the_structure() -> None:
    template = default_template()
    lines = [
        json.dumps({"boundary": f"b{n}", "findings": [{"kind": kind}]})
        for n, kind in enumerate(["token", "signature", "predicate", "page"])
    ]
    prompt = (
        "<diagnoses>\n" + "\n".join(lines) + f"\n</diagnoses>\n<first>\n{template.first}\n</first>\n"
        f"<update>\n{template.update}\n</update>"
    )
    texts = set()
    for seed in range(5):
        reply = await SimulatedOptimizer().reply(Request((user(prompt),), decoding=Decoding(seed=seed)))
        answer = json.loads(reply.message.content)
        texts.add(answer["first"])
        for part in ("first", "update"):
            wanted = [s.heading for s in template.sections(part) if s.level]
            assert [s.heading for s in parse_sections(answer[part]) if s.level] == wanted
        assert all(rule["boundaries"] for rule in answer["rules"])
    assert len(texts) >= 3


def test_models_are_seeded_by_the_request_alone() -> None:
    trajectory = play("relation_income", SimulatedAgent(FAULTLESS))
    for name, model in simulated_models().items():
        messages = Context(trajectory.context.prefix, None, trajectory.turns[:6]).messages
        requests = [Request(messages, decoding=Decoding(seed=seed)) for seed in (1, 1, 2)]
        first = [asyncio.run(model.reply(request)) for request in requests]
        assert first[0] == first[1], name
