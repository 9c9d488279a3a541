"""`recompact adapt`: what it says where nothing came of it, when it asks again, and whose verification it goes by."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from acon_support import CONFIG, TASKS, Changed, edited, refusal, study_run
from commands import recompact
from shared_runs import verified_run

from recompact.adaptation.adapt import adapt
from recompact.adaptation.evidence import nothing_retained
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.records import settings_of
from recompact.attribution.verify import verify
from recompact.engine.collection import collect
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.runs import continuation_rows
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL
from recompact.values.chat import Reply, Request

OPTIMIZER = '''
from recompact import Reply, Usage
from recompact.values.chat import assistant

class Useless:
    """Says nothing that can be used, except that a file tells it to behave."""

    name = "useless"

    def __init__(self, file: str) -> None:
        self.file = file

    async def reply(self, request):
        from pathlib import Path
        from recompact.simulation.optimizer import SimulatedOptimizer

        if Path(self.file).exists():
            return await SimulatedOptimizer().reply(request)
        return Reply(assistant("The prompt is fine."), Usage(1, 1, 0, 0, 1))
'''


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return verified_run(tmp_path_factory)


@pytest.fixture
def home(verified: Path, tmp_path: Path) -> Path:
    """A config with an optimizer of no use, and its verified run."""
    (tmp_path / "runs").mkdir()
    shutil.copy(verified, tmp_path / "runs" / "mine.db")
    (tmp_path / "mine.py").write_text(OPTIMIZER)
    own = f'[models.own]\nuse = "mine.py:Useless"\noptions = {{ file = "{tmp_path}/good" }}\n'
    (tmp_path / "mine.toml").write_text(f'{CONFIG}[optimizer]\nmodel = "own"\n{own}')
    return tmp_path


def test_an_optimizer_of_no_use_is_reported_and_asked_again_next_time(home: Path) -> None:
    ended = recompact("adapt", "mine.toml", cwd=home)
    assert ended.returncode == 2, ended
    assert "no JSON object" in ended.stderr
    assert "recompact adapt mine.toml" in ended.stderr
    assert "retained as harmful" not in ended.stdout + ended.stderr
    assert not (home / "runs" / "mine-pair").exists()
    with Store.read(home / "runs" / "mine.db") as store:
        (record,) = read_adaptations(store)
        asked = len(store.finished("diagnosis"))
    assert record.evidence is not None
    assert record.evidence.failed == record.evidence.pieces == asked
    assert "no usable diagnosis" in record.statement

    told = json.loads(recompact("adapt", "mine.toml", "--json", cwd=home).stdout)  # asked again, in vain
    assert told["unusable"] is True
    assert told["winner"] is None
    assert told["evidence"]["failed"] == asked
    with Store.read(home / "runs" / "mine.db") as store:
        assert len(store.finished("diagnosis")) == 2 * asked

    (home / "good").touch()
    ended = recompact("adapt", "mine.toml", cwd=home)
    assert ended.returncode == 0, ended
    assert f"Of {asked} compactions, " in ended.stdout
    manifest = json.loads((home / "runs" / "mine-pair" / "manifest.json").read_text())
    assert manifest["evidence"]["diagnosed"] > 0
    with Store.read(home / "runs" / "mine.db") as store:
        finished = store.finished()
    assert recompact("adapt", "mine.toml", cwd=home).returncode == 0
    with Store.read(home / "runs" / "mine.db") as store:
        assert store.finished() == finished  # what was answered is not asked again


def test_no_boundary_retained_is_said_only_where_that_is_so(home: Path) -> None:
    config = home / "mine.toml"
    config.write_text(config.read_text().replace(json.dumps(TASKS), json.dumps(["pocket-train-003"])))
    ended = recompact("adapt", "mine.toml", "--run", "short", cwd=home)  # too short to be compacted
    assert ended.returncode == 0, ended
    with Store.read(home / "runs" / "short.db") as store:
        assert nothing_retained(store) in ended.stdout


def test_an_optimizer_that_abstains_everywhere_leaves_the_original(verified: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    shutil.copy(verified, path)

    def abstains(request: Request, text: str) -> str:
        return edited(text, findings=[], abstain="It is chance.") if "findings" in text else text

    result = study_run(path, adapt, "pair", models=Changed(abstains).models)
    assert (result.winner, result.candidates, result.unusable) == (ORIGINAL, (), False)
    assert "abstained on all" in result.statement
    assert result.evidence is not None
    assert result.evidence.abstained == result.evidence.pieces > 0
    again = Changed(abstains)
    study_run(path, adapt, "pair", models=again.models)
    assert again.requests == []  # an abstention is an answer


def test_abstained_boundaries_support_no_clause(verified: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    shutil.copy(verified, path)
    with Store.read(path) as store:
        worst = str(next(finding.id for finding in read_verdicts(store).verdicts if finding.retained))
    task = worst.partition("#")[0]

    def abstains_there(request: Request, text: str) -> str:
        prompts = "".join(message.content for message in request.messages)
        here = "<segment>" in prompts and json.loads(text).get("findings") and task_text(task) in prompts
        return edited(text, findings=[], abstain="It is chance.") if here else text

    result = study_run(path, adapt, "pair", models=Changed(abstains_there).models)
    assert result.evidence is not None
    assert result.evidence.abstained > 0
    answered = {answer for candidate in result.candidates for clause in candidate.clauses for answer in clause.answers}
    assert answered
    assert worst not in answered


def task_text(task: str) -> str:
    from recompact.suites.pocket import PocketSuite

    return next(each.text for each in PocketSuite().tasks("train") if each.id == task)


@pytest.mark.parametrize("method", ["pair", "acon-ut", "acon-utco"])
def test_candidates_of_no_use_are_drawn_again_next_time(verified: Path, tmp_path: Path, method: str) -> None:
    path = tmp_path / "run.db"
    shutil.copy(verified, path)

    def refuses(request: Request, text: str) -> str | Reply:
        return refusal() if any("<first>" in message.content for message in request.messages) else text

    result = study_run(path, adapt, method, models=Changed(refuses).models)
    assert result.unusable
    assert "no usable candidate" in result.statement
    assert result.winner == ORIGINAL
    better = study_run(path, adapt, method)
    assert not better.unusable
    assert better.selection is not None


def test_a_verification_that_was_paid_for_is_used_and_not_overridden(tmp_path: Path) -> None:
    path = tmp_path / "run.db"

    async def work(study: Study) -> None:
        await collect(study)
        changed = replace(study.config.verify, allocation="uniform:1", burden=3.0)
        await verify(replace(study, config=replace(study.config, verify=changed)))

    study_run(path, work, "pair")
    with Store.read(path) as store:
        before, settings = len(continuation_rows(store)), settings_of(store)
    study_run(path, adapt, "pair")  # the config says halving
    with Store.read(path) as store:
        assert len(continuation_rows(store)) == before
        assert settings_of(store) == settings

    async def asked(study: Study) -> None:
        await adapt(study, "verify", "uniform:2")

    study_run(path, asked, "pair")
    with Store.read(path) as store:
        assert settings_of(store).allocation == "uniform:2"
        assert len(continuation_rows(store)) == 2 * before


def test_the_allocation_can_be_given_on_the_command_line(home: Path) -> None:
    ended = recompact("adapt", "mine.toml", "--allocation", "uniform:1", "--until", "verify", cwd=home)
    assert ended.returncode == 0, ended
    with Store.read(home / "runs" / "mine.db") as store:
        assert settings_of(store).allocation == "uniform:1"
    later = recompact("adapt", "mine.toml", "--until", "verify", cwd=home)
    assert "verification by uniform:1" in later.stderr
    assert "--allocation halving" in later.stderr
    with Store.read(home / "runs" / "mine.db") as store:
        assert settings_of(store).allocation == "uniform:1"
    recompact("adapt", "mine.toml", "--from", "verify", "--until", "verify", cwd=home)
    with Store.read(home / "runs" / "mine.db") as store:
        assert settings_of(store).allocation == "halving"  # what was paid for was thrown away, as asked
    wrong = recompact("adapt", "mine.toml", "--allocation", "all", "--until", "verify", cwd=home)
    assert wrong.returncode == 2
    assert "no allocation 'all'" in wrong.stderr


@pytest.mark.parametrize(("begin", "stays"), [("collect", set()), ("verify", {"feedback", "replay"})])
def test_what_rests_on_a_stage_is_forgotten_with_it_whoever_made_it(home: Path, begin: str, stays: set[str]) -> None:
    """Else old fresh pairs count for new boundaries, and old diagnoses answer for them."""
    made = ("control", "confirm", "resample", "replay", "diagnose", "revise/pair", "facts", "feedback")
    with Store.open(home / "runs" / "mine.db") as store:
        with store.transaction():
            for name in made:
                store.finish(f"{name}/old", "made up", "{}", 0.0)
        store.set_metadata(replace(store.metadata, adaptations={"pair": {}, "acon-ut": {}, "mine.py:own": {}}))
    ended = recompact("adapt", "mine.toml", "--method", "facts", "--from", begin, "--until", "collect", cwd=home)
    assert ended.returncode == 0, ended
    with Store.read(home / "runs" / "mine.db") as store:
        assert {unit.removesuffix("/old") for unit in store.finished("made up")} == stays
        assert set(store.metadata.adaptations) == (set() if begin == "collect" else {"acon-ut", "mine.py:own"})
        assert not continuation_rows(store)
        assert len(store.finished("trajectory")) == len(TASKS)


def test_from_collect_with_another_config_is_refused_before_anything_is_forgotten(home: Path) -> None:
    text = (home / "mine.toml").read_text()
    (home / "other.toml").write_text(other := re.sub(r"budget = \d+", "budget = 999", text))
    assert other != text
    with Store.read(home / "runs" / "mine.db") as store:
        before = store.finished()
    refused = recompact("adapt", "other.toml", "--run", "mine", "--from", "collect", "--until", "collect", cwd=home)
    assert refused.returncode == 2
    assert "mine" in refused.stderr
    with Store.read(home / "runs" / "mine.db") as store:
        assert store.finished() == before != set()


def test_from_revise_leaves_the_work_of_other_methods(home: Path) -> None:
    with Store.open(home / "runs" / "mine.db") as store, store.transaction():
        for name in ("confirm", "diagnose", "facts"):
            store.finish(f"{name}/old", "made up", "{}", 0.0)
    recompact("adapt", "mine.toml", "--method", "facts", "--from", "revise", "--until", "collect", cwd=home)
    with Store.read(home / "runs" / "mine.db") as store:
        assert store.finished("made up") == {"confirm/old", "diagnose/old"}
