"""A run of Recompact is audited like a transcript, and what an audit shows can start a race."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pytest
from commands import recompact
from hypothesis import given, settings, strategies as st

from recompact.attribution.posterior import probability_harmful
from recompact.attribution.prior import UNTILTED, Tilt, published_prior, tilt_prior
from recompact.attribution.racing import Racing
from recompact.attribution.registry import allocation_of, audited_tilts
from recompact.audit.measures import RUN_SCHEMES
from recompact.audit.odds import OddsModel, Weight
from recompact.audit.runs import audit_run
from recompact.audit.scoring import assess
from recompact.audit.worth import Worth, recorded_worth, sentences, stratum_of
from recompact.engine.config import VerifyConfig
from recompact.engine.store.runs import boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.values.outcome import BoundaryId, Outcome, Outcomes

CONFIG = '[suite]\nsplit = "test"\nlimit = 14\n[compressor]\nbudget = 2048\n'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("audited")
    (home / "c.toml").write_text(CONFIG)
    done = recompact("collect", home / "c.toml")
    assert done.returncode == 0, done.stderr
    return home / "runs" / "c.db"


def test_every_boundary_of_a_run_is_a_compaction_of_the_audit(run: Path) -> None:
    with Store.read(run) as store:
        audit = audit_run(store)
        rows = boundary_rows(store)
        assert len(audit.sessions) == len(trajectories(store))
    found = {
        BoundaryId(session.member, each.ordinal): each for session in audit.sessions for each in session.compactions
    }
    assert {id: (each.before, each.after, each.line) for id, each in found.items()} == {
        BoundaryId(row.unit, row.index): (row.pre_tokens, row.post_tokens, row.step) for row in rows
    }
    # One turn stays verbatim; everything else since the last compaction is gone.
    assert {each.kept_calls for each in found.values()} == {1}
    assert all(each.readable for each in found.values())
    assert len({session.scheme for session in audit.sessions}) == 1
    assert audit.sessions[0].scheme in {scheme.name for scheme in RUN_SCHEMES}


def test_the_command_takes_a_run(run: Path, tmp_path: Path) -> None:
    done = recompact("audit", run, "--json", "--out", tmp_path / "audit.html")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {each["harness"] for each in told["compactions"]} == {"recompact"}
    assert any(each["score"] is not None for each in told["compactions"])
    assert told["worth_of_the_score"] == list(sentences(recorded_worth()))
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert escape(sentences(recorded_worth())[0]) in page


def test_the_recorded_worth_is_whole_and_says_where_it_comes_from() -> None:
    worth = recorded_worth()
    assert Worth.from_json(json.loads(json.dumps(worth.to_json()))) == worth
    assert worth.command.startswith("python benchmarks/audit_truth.py")
    assert sum(each.compactions for each in worth.strata) == worth.scored <= worth.compactions
    assert worth.trained_on > 0
    said = " ".join(sentences(worth))
    for estimate in (worth.with_burden, worth.with_hazard):
        assert estimate is not None
        assert f"{abs(estimate.value):.2f}" in said
        assert ("not distinguishable from zero" in said) or not estimate.low <= 0 <= estimate.high


def test_the_documentation_has_the_recorded_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    block = page.partition("<!-- worth -->")[2].partition("<!-- /worth -->")[0]
    assert " ".join(block.replace("`", "").split()) == " ".join(sentences(recorded_worth()))


def test_strata_have_edges_at_nothing_and_at_one_in_ten() -> None:
    assert [stratum_of(score) for score in (0.0, 0.999, 1.0)] == ["0", "below 1", "1 and above"]


def test_odds_without_weights_say_nothing() -> None:
    assert OddsModel().ratio({"score": 3.0}) == 1.0
    assert OddsModel(0.0, {"score": Weight(0.0, 1.0, 0.5)}).ratio({"score": 2.0}) > 2


def test_the_prior_of_the_audit_is_in_force_only_where_it_is_asked_for(run: Path, tmp_path: Path) -> None:
    with Store.read(run) as store:
        plain = allocation_of(store, VerifyConfig(allocation="racing"))
        audited = allocation_of(store, VerifyConfig(allocation="racing", options={"prior": "audit"}))
        tilts = audited_tilts(store)
        rows = boundary_rows(store)
        scored = assess(audit_run(store)).scored
    assert isinstance(plain, Racing)
    assert isinstance(audited, Racing)
    assert plain.tilts == {}
    assert dict(audited.tilts) == tilts
    assert tilts.keys() == {BoundaryId(row.unit, row.index) for row in rows}
    assert len({tilt.burden for tilt in tilts.values()}) > 1 or not recorded_worth().burden_odds.weights
    assert scored
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[verify]\nallocation = "halving"\noptions = { prior = "audit" }\n')
    done = recompact("check", wrong)
    assert done.returncode != 0
    assert "[verify.options] prior" in done.stderr


draws = st.lists(st.tuples(st.booleans(), st.integers(1, 30)), max_size=4)
ratios = st.floats(0.01, 100)


def outcomes(pre: list[tuple[bool, int]], post: list[tuple[bool, int]]) -> Outcomes:
    arms = ({n: Outcome(float(won), steps) for n, (won, steps) in enumerate(arm)} for arm in (pre, post))
    return Outcomes(*arms)


@given(draws, draws, ratios, ratios, st.data())
@settings(max_examples=150)
def test_more_harm_never_lowers_the_posterior_under_any_tilt(
    pre: list[tuple[bool, int]], post: list[tuple[bool, int]], hazard: float, burden: float, data: st.DataObject
) -> None:
    prior = tilt_prior(published_prior(), Tilt(hazard, burden))
    before = probability_harmful(outcomes(pre, post), prior=prior)
    if post:
        at = data.draw(st.integers(0, len(post) - 1))
        won, steps = post[at]
        worse = [*post[:at], (False if won else won, steps + data.draw(st.integers(0, 10))), *post[at + 1 :]]
        assert probability_harmful(outcomes(pre, worse), prior=prior) >= before - 1e-9


@given(draws, draws, ratios, ratios, st.floats(1, 10), st.floats(1, 10))
@settings(max_examples=150)
def test_worse_observations_never_lower_the_posterior(
    pre: list[tuple[bool, int]],
    post: list[tuple[bool, int]],
    hazard: float,
    burden: float,
    more_hazard: float,
    more_burden: float,
) -> None:
    own = outcomes(pre, post)
    before = probability_harmful(own, prior=tilt_prior(published_prior(), Tilt(hazard, burden)))
    after = probability_harmful(
        own, prior=tilt_prior(published_prior(), Tilt(hazard * more_hazard, burden * more_burden))
    )
    assert after >= before - 1e-9


def test_no_tilt_is_the_prior_itself() -> None:
    assert tilt_prior(published_prior(), UNTILTED) is published_prior()
    halved = tilt_prior(published_prior(), Tilt(burden=0.5))
    assert sum(halved.burdens) == pytest.approx(1)
    assert halved.rates is published_prior().rates


def test_a_file_that_is_no_run_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"\x1b[31m no database at all" * 50)
    for name in ("bad.db", "nowhere.db"):
        done = recompact("audit", tmp_path / name, "--no-page", cwd=tmp_path)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stderr
