"""Worlds: episodes that share their beginning, acceptance by no method, and figures over worlds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb
from pathlib import Path
from statistics import fmean, stdev

import pytest
from examples import examples
from hypothesis import given, strategies as st

import arena
import world_analyses
from acceptance import DEVELOPMENT, DRAWS, HELD_OUT, ORIGINAL, RULES, Figures, acceptance_table, read_draws, write_draws
from adaptations import Plan, Trial, trials
from arena import FIFO, NONE, SUITE, Arm, Outcome, Player, play, play_boundaries
from kept_trials import keep_trials, read_trials
from methods import over_worlds, parse_arguments, pass_3, plans, worlds_table
from random_effects import random_effects
from recompact.compressors.prompted import Prompted
from recompact.engine.rollout import Agent, run_episode
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import Task
from recompact.errors import InputError
from recompact.simulation.guidance import read_guidance
from recompact.simulation.parameters import KINDS, World, draw_world
from recompact.suites.pocket import PocketSuite
from recompact.values.candidate import ORIGINAL as ORIGINAL_NAME
from recompact.values.chat import Reply, Request
from recompact.values.stats import t_quantile
from recompact.values.tables import render
from recompact.values.template import default_template
from world_analyses import (
    ASKING,
    PLACEBO,
    PRINTED,
    asking_for,
    keep_figures,
    kept_numbers,
    power,
    printed_template,
    read_kept,
    write_kept,
)

WORLD = draw_world(7)
PLAIN = read_guidance(default_template().update).demands
LONG = [task for task in SUITE.tasks("train") if task.groups["difficulty"] == "hard"][:4]


class Switching:
    """The agent of a whole episode, with the chances that the arena has before and after the first compaction."""

    name = "switching"

    def __init__(self, unit: str, own: str, first: int) -> None:
        self._before, self._after, self._left = (
            Player(WORLD.traits, f"{unit}/agent"), Player(WORLD.traits, f"{own}/agent"), first,
        )  # fmt: skip

    async def reply(self, request: Request) -> Reply:
        self._left -= 1
        return await (self._before if self._left >= 0 else self._after).reply(request)


@pytest.mark.parametrize("task", LONG, ids=lambda task: task.id)
def test_an_episode_that_shares_its_beginning_is_the_whole_episode(task: Task) -> None:
    outcome = play(WORLD, [task], {"plain": ORIGINAL}, (3,))["plain"][0][0]
    assert outcome.compactions > 0
    unit = f"arena/{task.id}/3"
    own = f"{unit}/world {WORLD.number}"
    compressor = Prompted(
        arena._Log(WORLD.habits, f"{own}/compressor"), default_template(), arena.COUNT, task=task.text
    )
    whole = asyncio.run(
        run_episode(
            task,
            InProcessEpisode(SUITE.environment(task), task.id),
            Agent(Switching(unit, own, outcome.shared)),
            count=arena.COUNT,
            step_limit=arena.STEP_LIMIT,
            compressor=lambda opening: compressor,
            budget=arena.BUDGET,
        )
    )
    assert (whole.score.success, whole.steps, len(whole.boundaries)) == (
        outcome.success, outcome.steps, outcome.compactions,
    )  # fmt: skip
    assert whole.boundaries[0].step == outcome.shared


def test_arms_share_their_beginning_and_their_chances() -> None:
    arms = {"plain": ORIGINAL, "once more": replace(ORIGINAL), "none": NONE, "fifo": FIFO}
    results = play(WORLD, LONG[:2], arms, (0, 1))
    assert results["plain"] == results["once more"]
    shared = [{tuple(o.shared for o in row) for row in rows} for rows in results.values()]
    assert all(each == shared[0] for each in shared)
    arena._STARTS.clear()
    assert play(WORLD, LONG[:2], arms, (0, 1)) == results
    other = play(WORLD, LONG, {"again": replace(ORIGINAL, stream="b"), "plain": ORIGINAL}, (0, 1))
    assert other["again"] != other["plain"]


def test_boundaries_are_those_of_the_arm_and_reading_the_previous_summary_shows_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(WORLD, LONG, {"plain": ORIGINAL}, (0,))["plain"]
    boundaries = play_boundaries(WORLD, LONG, ORIGINAL, 0)
    assert len(boundaries) == sum(row[0].compactions for row in played)
    assert [b.pre.summary is None for _, b in boundaries].count(True) == sum(row[0].compactions > 0 for row in played)
    monkeypatch.setattr(PocketSuite, "tasks", lambda self, split: LONG)
    figures = world_analyses.visible(tmp_path, 7)
    assert figures["compactions"] == len(boundaries)
    assert 0 < figures["in_segment"] <= figures["in_both"] <= 1


# --- acceptance

FITTING = Figures(1, 78.6, 84.1, 78.6, 53.2, 78.6, 68.5, 20.0, 24.0)


def test_a_world_is_accepted_by_every_rule_and_by_nothing_else() -> None:
    assert FITTING.accepted
    for rule in RULES:
        if rule.figure not in ("lost", "steps_ratio"):
            off = replace(FITTING, **{rule.figure: rule.aim + 1.01 * rule.distance})  # type: ignore[arg-type]
            assert rule.figure in off.broken
    assert replace(FITTING, prompted_steps=40.0).broken == ("steps_ratio",)
    assert Figures(2, 60.0).broken == ("screening",)
    assert "screening" in render(acceptance_table([FITTING, Figures(2, 60.0)]), "markdown")


def test_draws_are_written_and_read_back(tmp_path: Path) -> None:
    draws = (FITTING, Figures(2, 60.0))
    write_draws(draws, tmp_path / "worlds.json")
    assert read_draws(tmp_path / "worlds.json") == draws
    assert read_draws(tmp_path / "nothing.json") == ()


def test_development_and_held_out_worlds_are_the_first_accepted_draws() -> None:
    accepted = [each.world for each in DRAWS if each.accepted]
    assert [*DEVELOPMENT, *HELD_OUT] == accepted[:20]
    assert [each.world for each in DRAWS] == list(range(101, 101 + len(DRAWS)))  # none was passed over


# --- clauses


def test_a_clause_demands_its_kind_and_a_placebo_demands_nothing() -> None:
    for kind, (_, clause) in ASKING.items():
        assert read_guidance(clause).demands[kind] == 2
    assert set(read_guidance(asking_for(KINDS).update).demands.values()) == {2}
    assert not any(read_guidance(PLACEBO).demands.values())
    assert read_guidance(PLACEBO).brevity == 0


def test_printed_prompts_ask_for_what_their_description_says() -> None:
    for prompt in PRINTED.values():
        guidance = read_guidance(printed_template(prompt).update)
        assert all(guidance.demands[kind] == 2 for kind in prompt.demands if kind != "token")
        assert (guidance.demands["token"] < 0) == prompt.forbids_tokens
        assert len(guidance.orders) == len(prompt.orders)


def test_the_best_set_of_clauses_is_estimated_on_fresh_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def won(world: World, tasks: object, arms: Mapping[str, Arm], runs: Sequence[int]) -> arena.Results:
        """A world in which record sets and pages win a task each, and any other clause loses one."""
        asked.append((len(arms), tuple(runs)))
        results = {}
        for name, arm in arms.items():
            demands = read_guidance(arm.template.update).demands if arm.template else {}
            extra = [kind for kind in KINDS if demands.get(kind, 0) > PLAIN[kind]]
            number = 4 + sum(1 if kind in ("set", "page") else -1 for kind in extra)
            results[name] = [[Outcome(task < number, 20, 5)] * len(runs) for task in range(12)]
        return results

    monkeypatch.setattr(world_analyses, "play", won)
    figures = world_analyses.ceiling(tmp_path, 7)
    assert sorted(figures["kinds"]) == ["page", "set"]
    assert figures["best"]["points"] == pytest.approx(100 * 2 / 12)
    assert figures["everything"]["points"] < 0
    assert [size for size, _ in asked] == [10, 1, 1, 1, 4]  # the search ends two clauses after the best
    assert asked[-1][1] == world_analyses.CHECK_RUNS


# --- over worlds


@examples(60)
@given(st.lists(st.floats(-20, 20), min_size=3, max_size=12), st.floats(-10, 10), st.floats(0.1, 9))
def test_equal_worlds_give_the_plain_mean_and_its_interval(means: list[float], shift: float, variance: float) -> None:
    estimate, between = random_effects(means, [variance] * len(means))
    assert estimate.value == pytest.approx(fmean(means), abs=1e-9)
    error = stdev(means) / len(means) ** 0.5
    assert estimate.high - estimate.value == pytest.approx(t_quantile(0.975, len(means) - 1) * error, abs=1e-6)
    moved, same = random_effects([mean + shift for mean in means], [variance] * len(means))
    assert moved.value == pytest.approx(estimate.value + shift, abs=1e-6)
    assert same == pytest.approx(between, abs=1e-4)


def trial(method: str, seed: int, accuracy: tuple[float, ...]) -> Trial:
    return Trial(method, seed, accuracy, 20.0, 2.0)


def test_methods_are_compared_over_worlds() -> None:
    by_world = {
        world: {
            ORIGINAL_NAME: [trial(ORIGINAL_NAME, seed, (0.0, float(seed % 2), 1.0, 1.0)) for seed in range(4)],
            "pair": [trial("pair", seed, (1.0, 0.0, 1.0, float(world != 3 or seed > 0))) for seed in range(4)],
        }
        for world in (1, 2, 3)
    }
    over = over_worlds(by_world, [ORIGINAL_NAME, "pair"])
    assert over[ORIGINAL_NAME].gain is None
    assert over["pair"].gain is not None
    assert 5 < over["pair"].gain.value < 20
    assert over[ORIGINAL_NAME].ahead == over["pair"].gain
    assert "pair" in render(worlds_table(over, 3), "markdown")


def test_trials_are_kept_and_read_back(tmp_path: Path) -> None:
    path, plan = tmp_path / "trials.jsonl", Plan(test=168, world=101)
    own = [replace(trial("pair", seed, (1.0, 0.0, float(seed))), winner="pair-1") for seed in range(2)]
    keep_trials(plan, {"pair": own}, path)
    keep_trials(replace(plan, world=103), {"pair": own[:1]}, path)
    better = replace(own[1], accuracy=(1.0, 1.0, 1.0), statement="not kept")
    keep_trials(plan, {"pair": [better], ORIGINAL_NAME: []}, path)
    kept = read_trials(plan, ["pair", "facts"], 6, path)
    assert kept == {"pair": [own[0], replace(better, statement="")], "facts": []}
    assert read_trials(plan, ["pair"], 1, path) == {"pair": own[:1]}
    for other in (Plan(test=168), replace(plan, runs=2), replace(plan, test=3)):
        with pytest.raises(InputError):
            keep_trials(other, {}, path)


def test_pass_3_counts_triples_of_adaptations() -> None:
    own = [trial("pair", seed, (1.0, float(seed < 4), 0.0)) for seed in range(6)]
    assert pass_3(own) == pytest.approx(100 * (1 + comb(4, 3) / comb(6, 3)) / 3)
    assert pass_3(own[:2]) is None


@pytest.mark.slow
def test_power_grows_with_adaptations_and_falls_with_differences_between_worlds() -> None:
    assert power(2.0, 10, 1, 2.0) < power(2.0, 10, 8, 2.0)
    assert power(2.0, 10, 6, 0.0) > power(2.0, 10, 6, 3.0)
    assert power(2.0, 10, 6, 2.0, gain=0.0) < 0.05


def test_figures_are_kept_and_read_back(tmp_path: Path) -> None:
    asked = []

    @keep_figures("example")
    def analysis(number: int) -> dict[str, float]:
        asked.append(number)
        return {"value": number / 2}

    assert analysis(tmp_path, 3) == analysis(tmp_path, 3) == {"value": 1.5}
    assert asked == [3]


def test_kept_figures_are_added_to_and_missing_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    write_kept("kinds", {101: {"page": {"points": 0.1}}, 104: {"page": {"points": -2.0}}}, path)
    write_kept("room", {101: {"tokens": 3}}, path)
    write_kept("kinds", {101: {"page": {"points": 0.5}}}, path)
    assert read_kept("kinds", 101, path) == {"page": {"points": 0.5}}
    assert read_kept("room", 101, path) == {"tokens": 3}
    assert kept_numbers("room", path) == {101}
    assert kept_numbers("none", path) == frozenset()
    with pytest.raises(InputError):
        read_kept("kinds", 104, path)


@pytest.mark.slow
def test_a_comparison_on_a_world_goes_on_from_its_cache(tmp_path: Path) -> None:
    args = parse_arguments(["--worlds", "7", "--train", "4", "--test", "3", "--adaptations", "1"])
    (plan,) = plans(args)
    assert plan == Plan(train=4, test=3, world=7)
    first, failures = trials(tmp_path, plan, ["none", ORIGINAL_NAME, "facts"], 1, 1)
    assert not failures
    assert [len(first[name][0].accuracy) for name in ("none", ORIGINAL_NAME, "facts")] == [3, 3, 3]
    again, _ = trials(tmp_path, plan, ["none", ORIGINAL_NAME, "facts"], 1, 1)
    assert again == first
    assert [plan.world for plan in plans(parse_arguments(["--edition", "2"]))] == [None]
