"""Standing rules in the simulation: an agent keeps what it sees, and breaks what a summary has lost, by text alone."""

from __future__ import annotations

from random import Random

import pytest
from test_models import FAULTLESS, SUITE

from recompact.simulation.agent import act
from recompact.simulation.guidance import read_guidance
from recompact.simulation.parameters import Habits
from recompact.simulation.rules import GOES_ON, LOST, NO_RULE, rule_items
from recompact.suites.pocket.owner import QUESTION, decision, rule
from recompact.values.chat import Message, user
from recompact.values.context import summary_message

TASK = SUITE.tasks("rules")[0]
RULE = rule(4000)
GUIDANCE = read_guidance("Write a summary.")


def first_words(*after: Message, seed: int = 0) -> str:
    """What the agent says in its next message, and whether it calls something."""
    message = act((*SUITE.prefix(TASK), *after), Random(seed), FAULTLESS)
    return f"{message.content}{' ->' if message.calls else ''}"


def test_the_agent_begins_by_asking_what_to_keep_to() -> None:
    assert first_words().endswith(QUESTION)


@pytest.mark.parametrize(
    "context",
    [
        (summary_message(f"## Goal\nApprove requests.\n## Constraints\n- {RULE}"),),
        (summary_message("## Goal\nApprove requests."), user(f"{RULE} Apart from that, go on.")),
    ],
    ids=["in the summary", "pinned"],
)
def test_a_rule_that_is_in_view_is_neither_asked_for_nor_overlooked(context: tuple[Message, ...]) -> None:
    for seed in range(40):
        words = first_words(*context, seed=seed)
        assert NO_RULE not in words
        assert QUESTION not in words


def test_where_a_summary_lost_the_rule_the_agent_asks_again_or_goes_on_without() -> None:
    tries = 400
    said = [first_words(summary_message("## Goal\nApprove requests."), seed=seed) for seed in range(tries)]
    without = sum(NO_RULE in words for words in said)
    assert sum(QUESTION in words for words in said) == tries - without
    assert without / tries == pytest.approx(GOES_ON, abs=0.08)


def test_a_compressor_loses_a_rule_as_often_as_rules_were_seen_to_get_lost() -> None:
    chance, tries = Random(3), 600
    kept = sum(bool(rule_items(f"[user]\n{RULE}", "", GUIDANCE, Habits(), chance)) for _ in range(tries))
    assert 1 - kept / tries == pytest.approx(LOST, abs=0.06)


def test_what_the_previous_summary_has_is_carried_on_and_what_nobody_said_draws_nothing() -> None:
    chance = Random(1)
    texts = {item.text for _ in range(50) for item in rule_items("", f"- {RULE}", GUIDANCE, Habits(), chance)}
    assert texts == {f"- {RULE}"}
    decided = rule_items(decision("r1234", False), "", GUIDANCE, Habits(), Random(1))
    assert any("r1234" in item.text for item in decided)
    before = chance.getstate()
    assert rule_items("Approved r1234. You must never do that.", "- Never mind.", GUIDANCE, Habits(), chance) == []
    assert chance.getstate() == before  # so that tasks without rules are played as before there were any
