"""A boundary is compressed again under several templates: the same state and history, every draw once, in one run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from progress_support import Heard
from replay_support import (
    CODE,
    FIRST,
    KEEP,
    BrittleEnvironment,
    FaintingEnvironment,
    Forbidden,
    Keeper,
    Mute,
    Opener,
    VaultSuite,
    long_vault,
    study_of,
    told,
    vault,
)
from run_files import change_rows, select_rows

from recompact.attribution.divergence import needed_facts
from recompact.attribution.effects import effect_of
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.records import digest as verify_digest
from recompact.attribution.uniform import Uniform
from recompact.attribution.verify import verify
from recompact.engine.collection import collect
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.store import Store
from recompact.environments.protocol import Suite
from recompact.errors import InputError
from recompact.evaluation.evaluate import digest
from recompact.evaluation.replay import Replay, answer_of, refuse_evaluation, replay
from recompact.evaluation.replay_tables import condition_table, fact_table
from recompact.models.failures import ContextOverflow, Overloaded
from recompact.models.protocol import ChatModel
from recompact.values.chat import Message, Reply, Request, ToolCall, assistant
from recompact.values.context import Context, Summary, Turn
from recompact.values.outcome import BoundaryId, Effect, Outcomes, Thresholds
from recompact.values.progress import SILENT, Progress
from recompact.values.template import Template
from recompact.values.trajectory import Boundary, Ending, Score, Trajectory

KEEPING = told(KEEP)
IDLE = told("Be brief.")


def collected(path: Path, suite: Suite = vault, *, draws: int | None = 3, more: str = "") -> Path:
    """A run with trajectories, verified with so many draws in each arm, or (None) as its config says."""

    async def work(store: Store) -> None:
        study = study_of(store, suite, more=more)
        await collect(study)
        if draws != 0:
            await verify(study, Uniform(draws) if draws else None)

    with Store.open(path) as store:
        asyncio.run(work(store))
    return path


def replayed(
    path: Path,
    templates: Mapping[str, Template] = {"keeping": KEEPING},
    draws: int = 3,
    *,
    suite: Suite = vault,
    models: dict[str, ChatModel] | None = None,
    more: str = "",
    concurrency: int = 4,
    progress: Progress = SILENT,
) -> tuple[Replay, str]:
    with Store.open(path) as store:
        study = study_of(store, suite, models=models, more=more, concurrency=concurrency, progress=progress)
        found = asyncio.run(replay(study, FIRST, templates, draws))
        return found, digest(store, found.units)


def test_a_lost_code_is_found_again_with_a_template_that_keeps_it(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db")
    with Store.read(path) as store:
        before = store.digest("collect/"), verify_digest(store), store.digest()
    found, _ = replayed(path, {"keeping": KEEPING, "idle": IDLE})
    pre, post, control, keeping, _ = found.conditions
    assert [c.name for c in found.conditions] == ["PRE", "POST", "control", "keeping", "idle"]
    assert [sum(d.success for d in c.draws) for c in found.conditions] == [3, 0, 0, 3, 0]
    assert {len(c.draws) for c in found.conditions} == {3}
    assert {d.answer for d in keeping.draws} == {CODE}
    assert {d.answer for d in control.draws} == {"no idea"}
    assert control.effect is not None
    assert keeping.effect is not None
    assert (control.effect.hazard, keeping.effect.hazard) == (1.0, 0.0)
    assert found.needed == (CODE,)
    assert [(c.kept, c.draws[0].kept) for c in (post, control, keeping)] == [(0, ()), (0, ()), (1, (CODE,))]
    assert all(CODE in (d.summary or "") and d.tokens > 5 for d in keeping.draws)
    assert pre.draws[0].summary is None
    assert [v.closed for v in found.verdicts] == [True, False]
    assert [v.shown for v in found.verdicts] == [True, False]  # by the needed facts that the summaries keep
    assert "idle" in found.verdicts[1].words
    with Store.read(path) as store:
        # What is known of the run's own phases is untouched, and so is what `adapt` says of all of them.
        assert (store.digest("collect/"), verify_digest(store), store.digest(without="replay/")) == before
        rows = select_rows(store, "SELECT unit, phase, usage FROM trajectories WHERE phase = 'replay' ORDER BY unit")
        assert len(rows) == len(found.units) == 9
        made = read_trajectory(store, found.units[0])
        assert made.usage["compressor"].calls == 1
        assert made.boundaries[0].step == 3
    facts = fact_table(found)
    assert facts is not None
    assert facts.rows == ((CODE, "0/3", "0/3", "3/3", "0/3"),)
    assert [row[1] for row in condition_table(found).rows] == ["3/3", "0/3", "0/3", "3/3", "0/3"]


def test_a_burden_is_judged_by_steps(tmp_path: Path) -> None:
    found, _ = replayed(collected(tmp_path / "run.db", long_vault), suite=long_vault)
    pre, post, control, keeping = found.conditions
    assert [c.draws[0].steps for c in (pre, post, control, keeping)] == [5, 12, 12, 5]
    assert post.effect is not None
    assert post.effect.channel == "burden"
    assert found.verdicts[0].closed


def test_a_replay_sees_as_much_of_an_observation_as_the_config_says(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db", draws=0)
    with Store.open(path) as store:
        study = study_of(store, vault)
        short = replace(study.config, run=replace(study.config.run, observation_tokens=3))
        found = asyncio.run(replay(replace(study, config=short), FIRST, {"keeping": KEEPING}, 1))
        replays = [read_trajectory(store, unit) for unit in found.units]
    assert "observation cut" in {incident.kind for each in replays for incident in each.incidents}


def test_draws_are_made_once_and_known_by_the_template(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db")

    def more(templates: Mapping[str, Template], draws: int) -> int:
        heard = Heard()
        replayed(path, templates, draws, progress=heard)
        return heard.count("done")

    assert more({"keeping": KEEPING}, 1) == 2
    assert more({"keeping": KEEPING}, 1) == 0
    assert more({"renamed": KEEPING}, 1) == 0
    assert more({"keeping": KEEPING, "idle": IDLE}, 1) == 1
    assert more({"keeping": KEEPING, "idle": IDLE}, 2) == 3
    assert more({"twice": KEEPING, "again": KEEPING}, 2) == 0
    models: dict[str, ChatModel] = {"agent": Forbidden(), "noter": Forbidden()}
    found, _ = replayed(path, {"twice": KEEPING, "again": KEEPING}, 2, models=models)
    assert [len(c.draws) for c in found.conditions] == [3, 3, 2, 2, 2]
    assert found.conditions[3].draws == found.conditions[4].draws
    # A draw beyond those of the run's verification is made for PRE too.
    assert more({"keeping": KEEPING}, 4) == 1 + 4


def test_a_run_that_was_not_verified_gets_its_pre_draws_here(tmp_path: Path) -> None:
    found, _ = replayed(collected(tmp_path / "run.db", draws=0), draws=2)
    pre, post, control, _ = found.conditions
    assert (len(pre.draws), len(post.draws), len(control.draws)) == (2, 0, 2)
    assert post.effect is None
    assert found.verdicts[0].closed
    assert condition_table(found).rows[1][:3] == ("POST", "0/0", None)


def test_a_draw_that_was_read_off_the_trajectory_counts_for_the_original(tmp_path: Path) -> None:
    """A chained verification makes no first POST draw; the effect must be the one that `boundaries` lists."""
    path = collected(tmp_path / "run.db", draws=None, more='[verify]\nallocation = "chained"')
    with Store.read(path) as store:
        listed = read_verdicts(store).of(FIRST)
    assert listed.effect is not None
    found, _ = replayed(path, draws=1, more='[verify]\nallocation = "chained"')
    _, post, _, _ = found.conditions
    assert [drawn.ending for drawn in post.draws].count("chained") == 1
    assert len(post.draws) == len(listed.outcomes.post)
    assert post.effect is not None
    assert post.effect == listed.effect
    assert (post.draws[0].success, post.draws[0].answer, post.draws[0].kept) == (False, "", ())
    assert post.draws[0].summary
    assert found.verdicts[0].closed


def test_p_harmful_is_judged_by_what_the_run_teaches_as_it_is_in_its_findings(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db")
    with Store.read(path) as store:
        listed = read_verdicts(store).of(FIRST)
    found, _ = replayed(path)
    post = found.conditions[1].effect
    assert listed.effect is not None
    assert post is not None
    assert (post.pre, post.post) == (listed.effect.pre, listed.effect.post)
    assert post.p_harmful == listed.effect.p_harmful
    published = effect_of(listed.outcomes, found.thresholds)
    assert published is not None
    assert post.p_harmful != published.p_harmful


def test_an_overflow_before_the_compaction_is_no_draw_to_compare_with(tmp_path: Path) -> None:
    class Small:
        """Its window holds a summary and what follows, and no history."""

        name = "agent"

        async def reply(self, request: Request) -> Reply:
            raise ContextOverflow("too long")

    path = collected(tmp_path / "run.db", draws=0)
    found, _ = replayed(path, draws=2, models={"agent": Small()})
    assert found.conditions[0].draws == ()
    assert sum("PRE" in reason for reason in found.left_out.values()) == 2
    assert "PRE has no" in found.verdicts[0].words


def test_the_control_is_asked_what_the_run_asked(tmp_path: Path) -> None:
    """Same history, previous summary, scope, rendering and budget: only the seed differs."""
    for more in ("", 'scope = "prefix"', 'scope = "prefix"\nrendering = "appended"'):
        path = tmp_path / f"{len(more)}.db"
        asked: list[Request] = []
        models: dict[str, ChatModel] = {"noter": Keeper(asked.append)}
        with Store.open(path) as store:
            asyncio.run(collect(study_of(store, models=models, more=more, concurrency=1)))
        (first, *_) = asked
        asked.clear()
        replayed(path, draws=1, models=models, more=more, concurrency=1)
        control, keeping = asked
        assert (control.messages, control.tools) == (first.messages, first.tools)
        assert bool(first.tools) == ("appended" in more)
        assert control.decoding.seed != first.decoding.seed
        assert keeping.messages != first.messages
        assert KEEP in "".join(m.content for m in keeping.messages)


class Killed(BaseException):
    """The process was killed."""


def test_the_same_whatever_the_concurrency_and_after_a_kill(tmp_path: Path) -> None:
    _, whole = replayed(collected(tmp_path / "one.db"), concurrency=1)
    assert replayed(collected(tmp_path / "many.db"), concurrency=8)[1] == whole
    path = collected(tmp_path / "killed.db")
    asked: list[Request] = []

    def kill(request: Request) -> None:
        asked.append(request)
        if len(asked) == 13:  # in the middle of the third draw
            raise Killed

    with pytest.raises(Killed):
        replayed(path, models={"agent": Opener(kill)}, concurrency=1)
    with Store.read(path) as store:
        assert len(select_rows(store, "SELECT unit FROM trajectories WHERE phase = 'replay'")) == 2
    left: list[Request] = []
    assert replayed(path, models={"agent": Opener(left.append)})[1] == whole
    assert len(left) == 6 * 5 - 12  # no call that was answered is made again


class Overworked(Keeper):
    async def reply(self, request: Request) -> Reply:
        if KEEP in "".join(m.content for m in request.messages):
            raise Overloaded("busy")
        return await super().reply(request)


def test_a_model_that_fails_leaves_draws_to_be_made_later(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db")
    with pytest.raises(Unfinished) as stopped:
        replayed(path, models={"noter": Overworked()}, draws=2)
    found = stopped.value.so_far
    assert [u.failure.kind for u in stopped.value.units] == ["overload"] * 2
    assert [len(c.draws) for c in found.conditions] == [3, 3, 2, 0]
    assert found.verdicts[0].words.startswith("not judged: keeping ")
    again, _ = replayed(path, draws=2)
    assert again.verdicts[0].closed


def test_a_compressor_that_says_nothing_is_told(tmp_path: Path) -> None:
    found, _ = replayed(collected(tmp_path / "run.db"), models={"noter": Mute()}, draws=1)
    assert len(found.left_out) == 2
    assert all("no summary" in reason for reason in found.left_out.values())


def test_an_environment_that_breaks_midway_is_left_out_and_tried_again(tmp_path: Path) -> None:
    suite = VaultSuite(FaintingEnvironment)
    path, bare = collected(tmp_path / "run.db", suite), collected(tmp_path / "bare.db", suite, draws=0)
    FaintingEnvironment.faint = True
    try:
        found, _ = replayed(path, suite=suite, draws=1)
        unverified, _ = replayed(bare, suite=suite, draws=1)
    finally:
        FaintingEnvironment.faint = False
    assert unverified.verdicts[0].words.startswith("not judged: PRE ")
    assert len(found.left_out) == 2
    assert all("the lamp went out" in reason for reason in found.left_out.values())
    agent: list[Request] = []
    models: dict[str, ChatModel] = {"noter": Forbidden(), "agent": Opener(agent.append)}
    again, _ = replayed(path, suite=suite, draws=1, models=models)
    assert not again.left_out
    assert again.verdicts[0].closed
    assert len(agent) == 2  # the last step of each; all that was journaled before is not asked again


def test_a_boundary_that_cannot_be_brought_back_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    suite = VaultSuite(BrittleEnvironment)
    path = collected(tmp_path / "run.db", suite, draws=0)
    models: dict[str, ChatModel] = {"agent": Forbidden(), "noter": Forbidden()}
    with pytest.raises(InputError, match=r"vault-0#1 .*action 1.*boundaries"):
        replayed(path, suite=suite, models=models)


def test_what_cannot_be_replayed_is_said(tmp_path: Path) -> None:
    path = collected(tmp_path / "run.db", draws=0)
    with Store.open(path) as store:
        study = study_of(store)
        for name in ("PRE", "POST", "control"):
            with pytest.raises(InputError, match=f"'{name}'"):
                asyncio.run(replay(study, FIRST, {name: KEEPING}))
        with pytest.raises(InputError, match="the run's own"):
            asyncio.run(replay(study, FIRST, {"mine": study.template}))
        with pytest.raises(InputError, match="compressed by fifo"):
            asyncio.run(
                replay(
                    study.compressing(replace(study.config.compressor, kind="fifo", options={})), FIRST, {"k": KEEPING}
                )
            )
        document = select_rows(store, "SELECT document FROM boundaries WHERE unit = ?", (FIRST.unit,))[0]["document"]
        with store.transaction():
            bare = store.put(store.text(document).replace('"snapshot":[', '"was":['))
            bare = store.put(store.text(bare)[:-1] + ',"snapshot":null}')
        change_rows(store, "UPDATE boundaries SET document = ? WHERE unit = ? AND idx = 1", (bare, FIRST.unit))
        with pytest.raises(InputError, match=r"vault-0#1 .*snapshot"):
            asyncio.run(replay(study, FIRST, {"k": KEEPING}))
        store.set_metadata(replace(store.metadata, command="evaluate"))
        with pytest.raises(InputError, match="is an evaluation"):
            asyncio.run(replay(study, FIRST, {"k": KEEPING}))


def _turn(content: str, call: str = "", arguments: str = "{}") -> Turn:
    calls = (ToolCall("c", call, arguments),) if call else ()
    return Turn(Message("assistant", "" if call else content, calls), (Message("tool", content, call_id="c"),), 10)


def test_a_needed_fact_is_used_consumed_and_missing() -> None:
    consumed = _turn('id "m1821" of "Ada", 28 rows, since "2025-06-28", total 12.50, and "never used"')
    last = _turn("and so on")
    pre = Context((), None, (consumed, last))
    post = Context((), Summary("A summary that has m9999 only.", 10), (last,))
    boundary = Boundary(1, 2, pre, post, None, ())

    def after(*turns: Turn) -> Trajectory:
        return Trajectory("t", turns, (), "finished", Score.of(True), post)

    sent = _turn("", "send", '{"to": {"id": "m1821"}, "since": "2025-06-28", "body": "Dear Ada, it is 12.50 in all"}')
    assert needed_facts(boundary, [after(sent)]) == ("m1821", "Ada", "2025-06-28", "12.50")
    assert needed_facts(boundary, [after(_turn("", "page", '{"number": 28}'))]) == ("28",)
    said = Turn(assistant("The answer is m1821."), (), 5)
    assert needed_facts(boundary, [after(said)]) == ("m1821",)
    kept = replace(boundary, post=replace(post, summary=Summary("m1821", 2)))
    assert needed_facts(kept, [after(sent)]) == ("Ada", "2025-06-28", "12.50")
    assert needed_facts(boundary, []) == ()


def test_draws_that_are_copies_at_this_very_boundary_count_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = {
        (FIRST, "POST"),
        (BoundaryId("collect/vault-", 1), "PRE"),
        (BoundaryId("collect/vault-1", 1), "PRE"),
    }
    monkeypatch.setattr("recompact.evaluation.replay.copied_arms", lambda store: frozenset(copies))
    found, _ = replayed(collected(tmp_path / "run.db", draws=2), draws=1)
    _, post, control, _ = found.conditions
    assert post.effect is not None
    assert control.effect is not None
    assert (len(post.draws), post.effect.pre, post.effect.post) == (2, 2, 1)
    assert (control.effect.pre, control.effect.post) == (2, 1)


@pytest.mark.parametrize(
    ("ending", "details", "turn", "answer"),
    [
        ("step limit", {"answer": "x"}, _turn("", "finish", '{"answer": "y"}'), ""),
        ("finished", {"answer": 5}, _turn("", "finish", '{"answer": "y"}'), "5"),
        ("finished", {"answer": ""}, _turn("", "finish", '{"answer": "y"}'), ""),
        ("finished", {}, _turn("", "finish", '{"answer": "y"}'), "y"),
        ("finished", {}, _turn("", "finish", '{"answer": 7}'), "7"),
        ("finished", {}, _turn("", "finish", '{"answer": "y", "why": "z"}'), '{"answer":"y","why":"z"}'),
        ("finished", {}, _turn("", "finish", '{"b": 1, "a": 2}'), '{"a":2,"b":1}'),
        ("finished", {}, _turn("", "finish"), ""),
        ("finished", {}, Turn(assistant("It is y."), (), 5), "It is y."),
    ],
)
def test_what_an_episode_was_ended_with(ending: Ending, details: dict[str, object], turn: Turn, answer: str) -> None:
    score = Score(True, 1.0, details)
    before = _turn("", "look", '{"answer": "earlier"}')
    assert answer_of(Trajectory("t", (before, turn), (), ending, score, Context(()))) == answer


@pytest.mark.parametrize("command", ["collect", "adapt", "verify", ""])
def test_only_an_evaluation_is_refused(tmp_path: Path, command: str) -> None:
    with Store.open(tmp_path / "run.db") as store:
        store.set_metadata(replace(store.metadata, command=command))
        refuse_evaluation(store)
        store.set_metadata(replace(store.metadata, command="evaluate"))
        with pytest.raises(InputError, match="evaluation"):
            refuse_evaluation(store)


def test_a_boundary_of_a_task_that_is_gone_is_refused(tmp_path: Path) -> None:
    gone = BoundaryId("collect/gone", 1)
    with (
        Store.open(tmp_path / "run.db") as store,
        pytest.raises(InputError, match="gone#1:"),
    ):
        asyncio.run(replay(study_of(store), gone, {"keeping": KEEPING}))


def test_unless_told_otherwise_three_draws_are_made_and_judged_within_the_steps_that_were_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, int | None]] = []

    def watched(outcomes: Outcomes, *, thresholds: Thresholds, remaining: int | None, **more: Any) -> Effect | None:
        seen.append((thresholds.hazard, remaining))
        return effect_of(outcomes, thresholds, remaining=remaining, **more)

    monkeypatch.setattr("recompact.evaluation.replay.effect_of", watched)
    path = collected(tmp_path / "run.db", draws=0)
    with Store.open(path) as store:
        found = asyncio.run(replay(study_of(store, more="[verify]\nhazard = 0.25"), FIRST, {"keeping": KEEPING}))
    assert [len(condition.draws) for condition in found.conditions] == [3, 0, 3, 3]
    assert found.thresholds.hazard == 0.25  # the config's, where the run was not verified
    assert seen == [(0.25, 30 - 3)] * 3
    assert "No PRE draw" not in found.verdicts[0].words


def test_a_verified_run_keeps_its_own_thresholds_and_without_needed_facts_summaries_are_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = collected(tmp_path / "run.db", draws=None, more="[verify]\nhazard = 0.25")
    monkeypatch.setattr("recompact.evaluation.replay.needed_facts", lambda boundary, before: ())
    found, _ = replayed(path, draws=1)
    assert found.thresholds.hazard == 0.25
    assert found.needed == ()
    assert (found.verdicts[0].shown, found.verdicts[0].closed) == (None, True)
