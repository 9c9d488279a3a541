"""What the simulated optimizer makes of its evidence: it compares the arms, and can be told nothing in secret."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from examples import examples
from hypothesis import given, strategies as st

from recompact.simulation.compressor import chance
from recompact.simulation.guidance import Guidance, orders_in, read_guidance
from recompact.simulation.judgement import kind_meant, rank, write_clause, write_name, write_order
from recompact.simulation.optimizer import SimulatedOptimizer, diagnose
from recompact.simulation.parameters import ABILITIES, KINDS, Habits, Judgement, Kind, Traits
from recompact.values.chat import Decoding, Request, user

FROZEN = "f0dbdec5bec27bc746336b02cdb5aa478a0c204349a85f2fc07499ae36570ff7"
TASK = "How much money have I received from my coworkers on payments since 2025-03-04, that day included?"
LOGIN = 'call_api({"app":"payments","api":"login","arguments":{"username":"a","password":"b"}})'
LOOK_UP = 'call_api({"app":"documentation","api":"show_api","arguments":{"app":"payments","api":"list_transactions"}})'
SEGMENT = (
    f'[assistant]\nI log in.\n-> {LOGIN}\n[result of call_api]\n{{"token":"pay-12345678"}}\n'
    f'[assistant]\nI look it up.\n-> {LOOK_UP}\n[result of call_api]\n{{"name":"list_transactions"}}'
)
SUMMARY = "## Goal\nHow much money have I received on payments?\n### Done\n- [x] Logged in to payments."


def labelled(letter: str, text: str) -> str:
    return "\n".join(f"{letter}{number}| {line}" for number, line in enumerate(text.splitlines(), 1))


Arms = Mapping[str, Sequence[tuple[bool, tuple[str, ...]]]]


def prompt(arms: Arms, effect: str = "") -> str:
    """Evidence in which the summary lost a token, a signature and a condition; `arms`: success, and what was redone."""
    blocks = [
        f"<task>\n{labelled('T', TASK)}\n</task>",
        f"<segment>\n{labelled('S', SEGMENT)}\n</segment>",
        f"<summary>\n{labelled('N', SUMMARY)}\n</summary>",
        f"<effect>\n{effect}\n</effect>" if effect else "",
    ]
    runs = [(arm, *run) for arm, runs in arms.items() for run in runs]
    for number, (arm, success, redone) in enumerate(runs, 1):
        ending = f"ended: finished after 9 steps; the task was {'done' if success else 'not done'} (score 0)"
        text = "\n".join([ending, *(f"(again) -> {call}" for call in redone)])
        blocks.append(
            f'<continuation number="{number}" arm="{arm}" draw="0">\n{labelled(f"C{number}.", text)}\n</continuation>'
        )
    return "\n".join(filter(None, blocks))


# Both arms log in and look things up again; after the summary every run fails.
FAILING: Arms = {"PRE": [(True, (LOGIN, LOOK_UP))] * 4, "POST": [(False, (LOGIN, LOOK_UP))] * 4}
EFFECT = "channel: hazard\nsuccess lost (H): 1.00, 95% interval 0.60 to 1.00\nsteps added (B): 0.0"


def first_kinds(text: str, draws: int = 200) -> Counter[Kind | None]:
    answers = [diagnose(text, Random(seed), Judgement()) for seed in range(draws)]
    return Counter(kind_meant(a["findings"][0]["kind"]) if a["findings"] else None for a in answers)


def test_what_happened_either_way_is_no_cause() -> None:
    assert first_kinds(prompt(FAILING, EFFECT))["predicate"] > 180


def test_without_the_other_arm_and_the_effect_the_diagnosis_is_worse() -> None:
    whole = first_kinds(prompt(FAILING, EFFECT))
    withheld = first_kinds(prompt({"POST": FAILING["POST"]}))
    assert withheld["predicate"] < whole["predicate"] - 40
    assert withheld["token"] + withheld["signature"] > whole["token"] + whole["signature"] + 40


def test_swapped_arms_blame_nothing_or_something_else() -> None:
    swapped = {"PRE": FAILING["POST"], "POST": FAILING["PRE"]}
    assert first_kinds(prompt(swapped))["predicate"] < 20


def test_what_only_the_later_arm_did_again_is_the_cause() -> None:
    slow: Arms = {"PRE": [(True, (LOOK_UP,))] * 4, "POST": [(True, (LOOK_UP, LOGIN, LOGIN))] * 4}
    kinds = first_kinds(prompt(slow))
    assert kinds["token"] > 150
    assert kinds.most_common(1)[0][0] == "token"


def test_it_abstains_where_the_arms_do_the_same() -> None:
    same: Arms = {"PRE": [(True, ())] * 4, "POST": [(True, ())] * 4}
    assert first_kinds(prompt(same))[None] > 40
    assert first_kinds(prompt(same))["predicate"] < 120


def test_findings_cite_lines_of_the_evidence_and_are_worded_freely() -> None:
    text = prompt(FAILING, EFFECT)
    model = SimulatedOptimizer()
    names = set()
    for seed in range(20):
        reply = asyncio.run(model.reply(Request((user(text),), decoding=Decoding(seed=seed))))
        for finding in json.loads(reply.message.content)["findings"]:
            names.add(finding["kind"])
            assert finding["lines"]
            assert all(f"\n{label}| " in f"\n{text}" for label in finding["lines"])
    assert len(names) > 3


def test_a_longer_input_is_read_worse() -> None:
    suspects = [(kind, "s", "n") for kind in KINDS]
    lost = dict.fromkeys(KINDS, 2.0)

    def findings(size: int) -> tuple[int, int]:
        missed = invented = 0
        for seed in range(300):
            kinds = {kind for kind, *_ in rank(suspects[:2], lost, Random(seed), Judgement(), compared=True, size=size)}
            missed += len({kind for kind, *_ in suspects[:2]} - kinds)
            invented += len(kinds - {kind for kind, *_ in suspects[:2]})
        return missed, invented

    (few, none), (more, some), (most, many) = (findings(size) for size in (0, 20_000, 100_000))
    assert none == 0
    assert few < more < most
    assert 0 < some < many


# --- wording


@given(st.sampled_from(KINDS), st.booleans(), st.integers())
@examples(400)
def test_the_compressor_understands_every_wording_as_what_it_means(kind: Kind, strong: bool, seed: int) -> None:
    guidance = read_guidance(f"- {write_clause(kind, strong, Random(seed))}")
    assert {k: level for k, level in guidance.demands.items() if level} == {kind: 2 if strong else 1}
    assert not guidance.orders
    assert kind_meant(write_name(kind, Random(seed))) == kind
    assert orders_in(write_order(Random(seed)))


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("No login credential must go missing.", "token"),
        ("Spell out how each endpoint has to be called, arguments included.", "signature"),
        ("Whatever limits the request (people, dates) belongs into the goal, unchanged.", "predicate"),
        ("Tabulate all rows we have fetched instead of summing them up.", "set"),
        ("Say precisely how far we have paged through each listing: pages seen, pages in all.", "page"),
        ("Anything already paid or sent has to be listed with its recipient.", "mutation"),
        ("All outstanding items go under Next Steps.", "open"),
        ("Quote every error message.", "error"),
        ("Give all ids in full.", "identifier"),
    ],
)
def test_it_understands_people_too(sentence: str, kind: Kind) -> None:
    assert read_guidance(f"## Critical Context\n- {sentence}").demands[kind] == 2


@pytest.mark.parametrize(
    "sentence",
    [
        "Keep every token, so that the agent need not log in again.",
        "Record every change exactly once: it must never be made again.",
        "Check that the summary names every page.",
        "What has been finished.",
        "Copy the value of every access token, exactly, character for character.",
    ],
)
def test_guidance_for_the_compressor_is_no_order_to_the_agent(sentence: str) -> None:
    assert orders_in(sentence) == ()


# --- attention


def guidance(levels: dict[Kind, int]) -> Guidance:
    return Guidance((), {kind: levels.get(kind, 0) for kind in KINDS}, None, 0, ())


@given(st.fixed_dictionaries({kind: st.integers(0, 2) for kind in KINDS}), st.sampled_from(KINDS))
def test_what_one_demand_gains_the_others_lose(levels: dict[Kind, int], kind: Kind) -> None:
    habits = Habits()
    before, after = guidance(levels | {kind: 0}), guidance(levels | {kind: 2})
    for other in KINDS:
        change = chance(other, after, habits) - chance(other, before, habits)
        assert change > 0 if other == kind else change < 0
    assert sum(before.share(k, habits.attention) for k in KINDS) == pytest.approx(len(KINDS))


def test_demanding_everything_is_demanding_nothing() -> None:
    habits = Habits()
    everything, nothing = guidance(dict.fromkeys(KINDS, 2)), guidance({})
    for kind in KINDS:
        assert chance(kind, everything, habits) == pytest.approx(chance(kind, nothing, habits))


def test_the_parameters_are_those_that_were_frozen() -> None:
    """They were fixed before any method was run on them: figures of another world are not comparable with these."""
    values = repr((ABILITIES, Traits(), Habits(), Judgement()))
    assert hashlib.sha256(values.encode()).hexdigest() == FROZEN


def test_no_marker_passes_between_the_models() -> None:
    """A lost condition leaves no trace but its absence."""
    from recompact.simulation import compressor

    assert "left out)" not in json.dumps(_texts(compressor))


def _texts(module: Any) -> list[str]:
    with open(module.__file__, encoding="utf-8") as file:
        return re.findall(r'"[^"]*"', file.read())
