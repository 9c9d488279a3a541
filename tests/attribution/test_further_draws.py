"""Controls, confirmations and fresh summaries: draws of their own that a verification never sees."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from run_files import change_rows
from sentences import numbers_in
from verify_support import FickleNoter, ShakyReader, books, study_of

from recompact.attribution.controls import controls_of
from recompact.attribution.halving import Halving
from recompact.attribution.judgement import priors_of, read_verdicts
from recompact.attribution.posterior import probability_harmful
from recompact.attribution.records import (
    Purpose,
    copied_arms,
    decoding_note,
    digest,
    further_draws,
    further_outcomes,
    outcomes_in,
    settings_of,
)
from recompact.attribution.registry import allocation_of
from recompact.attribution.statement import control_of, statement_of
from recompact.attribution.uniform import PostOnly, Uniform
from recompact.attribution.verify import make_further_draws, verify
from recompact.engine.collection import collect
from recompact.engine.config import Config, VerifyConfig
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.environments.functions import FunctionEnvironment
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.journal import seed_of
from recompact.values.chat import Reply, Request, assistant
from recompact.values.outcome import BoundaryId

RACING = VerifyConfig(allocation="racing")


class Forbidden:
    name = "reader"

    async def reply(self, request: Request) -> Reply:
        raise AssertionError("nobody is to be asked")


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("further") / "books.db"

    async def work(store: Store) -> None:
        study = study_of(store, books(6))
        await collect(study)
        await verify(study)

    with Store.open(path) as store:
        asyncio.run(work(store))
    return path


def copied(path: Path, to: Path) -> Path:
    return Path(shutil.copy(path, to / "books.db"))


async def test_a_control_has_both_arms_from_pre_and_leaves_the_verification_alone(
    verified: Path, tmp_path: Path
) -> None:
    with Store.open(copied(verified, tmp_path)) as store:
        before = digest(store), read_verdicts(store)
        assert control_of(store) is None
        allocation = allocation_of(store, VerifyConfig())
        control = await make_further_draws(
            study_of(store, books(6)), "control", allocation, outcomes_in(store).outcomes
        )
        assert (digest(store), read_verdicts(store)) == before
        assert control.outcomes == further_outcomes(store, "control")
        for row in trajectories(store, phase="control"):
            index = int(row.unit.rsplit("/", 3)[1])
            start = read_boundary(store, BoundaryId(f"collect/{row.task}", index)).pre.messages
            assert read_trajectory(store, row.unit).context.messages[: len(start)] == start
        made = control_of(store)
        assert made is not None
        assert made.boundaries == len(outcomes_in(store).outcomes)
        assert made.rate.low <= made.rate.value <= made.rate.high
        # Once it is there, nothing is asked again.
        quiet = study_of(store, books(6), models={"reader": Forbidden(), "noter": Forbidden()})
        await make_further_draws(quiet, "control", allocation, outcomes_in(store).outcomes)
        statement = statement_of(read_verdicts(store), made)
        assert statement.after_control is not None
        assert statement.after_control.low <= statement.after_control.value <= statement.retained
        assert any("A/A" in sentence for sentence in statement.sentences())
        assert controls_of(store).to_json()["statement"]["control"]["boundaries"] == made.boundaries
        # Boundaries that were left out since have no control; where all were, there is nothing to correct.
        change_rows(store, "UPDATE continuations SET ending = 'environment error'")
        assert not outcomes_in(store).outcomes
        assert control_of(store) is None


async def test_confirming_pairs_are_fresh_and_the_effects_shown_are_theirs_alone(
    verified: Path, tmp_path: Path
) -> None:
    seeds: set[int | None] = set()
    with Store.open(copied(verified, tmp_path)) as store:
        retained = [f.id for f in read_verdicts(store).verdicts if f.retained]
        study = study_of(store, books(6), models={"reader": ShakyReader(lambda r: seeds.add(r.decoding.seed))})
        await make_further_draws(study, "confirm", Uniform(4), retained)
        assert seeds.isdisjoint({seed_of(f"continue/{i.unit[8:]}/{i.index}/PRE/0", 0) for i in retained})
        for finding in read_verdicts(store).verdicts:
            assert (finding.confirmed is not None) == finding.retained
            if finding.confirmed is not None and finding.effect is not None:
                assert (finding.confirmed.pre, finding.confirmed.post) == (4, 4)
                assert finding.reported_effect is finding.confirmed
                assert finding.effect.pre == 3
                assert finding.to_json()["confirmed"]["hazard"] == finding.confirmed.hazard
        statement = statement_of(read_verdicts(store))
        assert statement.confirmable == len(retained)
        assert any("but the fresh pairs" in sentence for sentence in statement.sentences())
        assert further_draws(store) == {"control": 0, "confirm": 8 * len(retained), "resample": 0}
        assert 0 <= (statement.confirmed or 0) <= statement.confirmable


async def test_each_resampled_draw_has_a_summary_of_its_own(verified: Path, tmp_path: Path) -> None:
    with Store.open(copied(verified, tmp_path)) as store:
        retained = [f.id for f in read_verdicts(store).verdicts][:2]
        study = study_of(store, books(6), models={"noter": FickleNoter()})
        await make_further_draws(study, "resample", PostOnly(4), retained)
        rows = trajectories(store, phase="resample")
        assert len(rows) == 8
        summaries = {read_trajectory(store, row.unit).boundaries[0].post.summary for row in rows}
        assert len(summaries) > 2
        by_id = {f.id: f for f in read_verdicts(store).verdicts}
        for id in retained:
            effect = by_id[id].resampled
            assert effect is not None
            assert effect.post == 4


def test_findings_mind_the_steps_that_were_left_at_each_boundary(verified: Path) -> None:
    with Store.read(verified) as store:
        settings, limit = settings_of(store), store.metadata.step_limit
        priors = priors_of(store, settings)
        differing = 0
        for finding in read_verdicts(store).verdicts:
            assert finding.effect is not None
            prior = priors.of(finding.id)
            left, whole, nothing = (
                probability_harmful(finding.outcomes, remaining=steps, prior=prior)
                for steps in (limit - finding.row.step, limit, None)
            )
            assert finding.effect.p_harmful == left
            differing += left not in (whole, nothing)
        assert differing > 0


def test_one_is_said_in_the_singular(verified: Path) -> None:
    with Store.read(verified) as store:
        statement = statement_of(read_verdicts(store))
    alone, several = replace(statement, retained=1, left_out=1), replace(statement, retained=2, left_out=2)
    assert f"1 of {statement.examined} boundaries was retained" in alone.sentences()[1]
    assert numbers_in(alone.sentences()[-1])[0] == "1"
    assert f"2 of {statement.examined} boundaries were retained" in several.sentences()[1]
    assert numbers_in(several.sentences()[-1])[0] == "2"


class Repeating(FickleNoter):
    """Writes the same summary whatever the seed."""

    async def reply(self, request: Request) -> Reply:
        return await super().reply(replace(request, decoding=request.decoding.seeded(1)))


async def test_harm_of_the_prompt_and_of_one_summary_are_two_numbers(verified: Path, tmp_path: Path) -> None:
    with Store.open(copied(verified, tmp_path)) as store:
        assert statement_of(read_verdicts(store)).two_hazards is None
        assert not any("fresh summaries" in sentence for sentence in statement_of(read_verdicts(store)).sentences())
        ids = [f.id for f in read_verdicts(store).verdicts][:2]
        await make_further_draws(study_of(store, books(6)), "resample", PostOnly(5), ids)
        found = read_verdicts(store)
        two = statement_of(found).two_hazards
        assert two is not None
        chosen = [f for f in found.verdicts if f.id in ids]
        recorded = fmean(f.effect.hazard for f in chosen if f.effect)
        fresh = fmean(f.resampled.hazard for f in chosen if f.resampled)
        assert two.boundaries == 2
        assert two.summary.value == pytest.approx(recorded)
        assert two.prompt.value == pytest.approx(fresh)
        assert two.summary.value != two.prompt.value
        assert two.summary.low < two.summary.value < two.summary.high
        sentence, doubt = [s for s in statement_of(found).sentences() if "fresh summaries" in s or "more so" in s]
        assert f" {recorded:+.2f} " in sentence
        assert f"and {fresh:+.2f} " in sentence
        assert "--confirm" in doubt
        assert statement_of(found).to_json()["two_hazards"]["prompt"]["value"] == two.prompt.value
        # With fresh pairs, neither number rests on the draws that retained the boundaries.
        await make_further_draws(study_of(store, books(6)), "confirm", Uniform(4), ids)
        statement = statement_of(read_verdicts(store))
        assert statement.two_hazards is not None
        assert statement.two_hazards.confirmed
        assert not any("too large" in sentence for sentence in statement.sentences())
        by_fresh_pairs = fmean(f.confirmed.hazard for f in read_verdicts(store).verdicts if f.confirmed)
        assert statement.two_hazards.summary.value == pytest.approx(by_fresh_pairs)


async def test_fresh_summaries_of_the_same_words_are_one_summary(verified: Path, tmp_path: Path) -> None:
    with Store.open(copied(verified, tmp_path)) as store:
        ids = [f.id for f in read_verdicts(store).verdicts if f.retained][:1]
        await make_further_draws(study_of(store, books(6), models={"noter": Repeating()}), "resample", PostOnly(3), ids)
        statement = statement_of(read_verdicts(store))
        assert statement.two_hazards is not None
        assert statement.two_hazards.same == 1
        varied = replace(statement, two_hazards=replace(statement.two_hazards, same=0))
        (told,) = set(statement.sentences()) - set(varied.sentences())
        assert numbers_in(told) == ["1"]


@pytest.mark.parametrize("purpose", ["control", "confirm", "resample"])
async def test_further_draws_see_as_much_of_an_observation_as_the_others(
    purpose: Purpose, verified: Path, tmp_path: Path
) -> None:
    """Else a control would compare an agent that sees all with one that does not."""
    with Store.open(copied(verified, tmp_path)) as store:
        study = study_of(store, books(6))
        study = replace(study, config=replace(study.config, run=replace(study.config.run, observation_tokens=40)))
        await make_further_draws(study, purpose, PostOnly(1), [f.id for f in read_verdicts(store).verdicts][-3:])
        incidents = [
            i for row in trajectories(store, phase=purpose) for i in read_trajectory(store, row.unit).incidents
        ]
        assert "observation cut" in {incident.kind for incident in incidents}


async def test_an_overflow_before_the_compaction_leaves_the_boundary_out(tmp_path: Path) -> None:
    class Small(ShakyReader):
        """Its window holds no history of more than three turns."""

        async def reply(self, request: Request) -> Reply:
            if len(request.messages) > 12 and not any("page was page" in m.content for m in request.messages[:4]):
                raise ContextOverflow("too long")
            return await super().reply(request)

    path = tmp_path / "small.db"
    with Store.open(path) as store:
        await collect(study_of(store, books(6)))
        result = await verify(study_of(store, books(6), models={"reader": Small()}), Halving())
        overflowed = {
            (row.unit, row.index)
            for row in continuation_rows(store)
            if row.ending == "context overflow" and row.arm == "PRE"
        }
        assert overflowed
        assert {(id.unit, id.index) for id in result.left_out} == overflowed
        assert all("PRE" in reason for reason in result.left_out.values())
        assert outcomes_in(store).left_out == result.left_out


class Steady(ShakyReader):
    """Decodes at temperature 0: the same request has the same reply."""

    async def reply(self, request: Request) -> Reply:
        return await super().reply(replace(request, decoding=request.decoding.seeded(1)))


async def test_copies_count_as_one_draw(tmp_path: Path) -> None:
    with Store.open(tmp_path / "steady.db") as store:
        study = study_of(store, books(6), models={"reader": Steady()})
        study = replace(study, config=replace(study.config, agent=replace(study.config.agent, temperature=0)))
        store.set_metadata(replace(store.metadata, identity=study.config.identity()))
        await collect(study)
        await verify(study, Uniform(3))
        found = read_verdicts(store, VerifyConfig(allocation="uniform:3"))
        assert len(copied_arms(store)) == 2 * len(found.verdicts)
        for finding in found.verdicts:
            assert finding.copies
            assert finding.effect is not None
            assert (finding.effect.pre, finding.effect.post) == (1, 1)
        assert any("one draw" in sentence for sentence in statement_of(found).sentences())


async def test_a_verification_retains_what_its_findings_say_also_where_draws_are_copies(tmp_path: Path) -> None:
    with Store.open(tmp_path / "steady.db") as store:
        study = study_of(store, books(6), models={"reader": Steady()})
        racing = replace(study.config, agent=replace(study.config.agent, temperature=0), verify=RACING)
        study = replace(study, config=racing)
        store.set_metadata(replace(store.metadata, identity=racing.identity()))
        await collect(study)
        result = await verify(study)
        before = digest(store)
        found = read_verdicts(store)
        assert copied_arms(store)
        assert {v.id for v in result.retained} == {f.id for f in found.verdicts if f.retained}
        assert all(f.retained == (f.effect.p_harmful >= 0.5) for f in found.verdicts if f.effect)
        assert (await verify(study)).retained == result.retained
        assert digest(store) == before  # nothing more is due


def test_deterministic_decoding_is_warned_of() -> None:
    assert decoding_note(Config()) is None
    note = decoding_note(replace(Config(), agent=replace(Config().agent, temperature=0)))
    assert note is not None
    assert "temperature" in note


class Unwilling:
    """A compressor that writes nothing, or fails."""

    name = "noter"

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure

    async def reply(self, request: Request) -> Reply:
        if self.failure:
            raise self.failure
        return Reply(assistant(""))


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(ContextOverflow("too long"), "too long"), (Refused("not this"), "not this"), (None, "summary")],
    ids=["overflow", "refusal", "no summary"],
)
async def test_a_summary_that_cannot_be_had_leaves_the_boundary_out_and_nothing_is_recorded(
    verified: Path, tmp_path: Path, failure: Exception | None, reason: str
) -> None:
    with Store.open(copied(verified, tmp_path)) as store:
        first = read_verdicts(store).verdicts[0].id
        study = study_of(store, books(6), models={"noter": Unwilling(failure)})
        made = await make_further_draws(study, "resample", PostOnly(1), [first])
        assert list(made.left_out) == [first]
        assert reason in made.left_out[first]
        assert not made.outcomes
        assert further_draws(store)["resample"] == 0


async def test_an_environment_that_breaks_leaves_the_boundary_out_too(
    verified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_order(self: FunctionEnvironment, state: bytes) -> None:
        raise OSError("out of order")

    with Store.open(copied(verified, tmp_path)) as store:
        first = read_verdicts(store).verdicts[0].id
        monkeypatch.setattr(FunctionEnvironment, "restore", out_of_order)
        made = await make_further_draws(study_of(store, books(6)), "confirm", Uniform(1), [first])
        assert "out of order" in made.left_out[first]
        assert further_draws(store)["confirm"] == 0
