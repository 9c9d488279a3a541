"""Recorded replies: with them an experiment is repeated to the letter, and no real model is asked."""

from __future__ import annotations

import asyncio
import json
import lzma
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from experiment_support import small_experiment
from needs import OFFICEBENCH, require

import replies
from experiment import Experiment, load_experiment, names
from recompact.engine.store.calls import journaled_calls, journaled_replies, usage_by_phase
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.models.journal import JournaledReply, seed_of
from recompact.simulation.compressor import SimulatedCompressor
from recompact.simulation.optimizer import SimulatedOptimizer
from recompact.values.chat import Decoding, Reply, Request, Usage, assistant
from replies import NotRecorded, RecordedModel, begin_with_replies, keep_replies, replies_file, without_models
from results import page
from run import run

METHODS = ("facts", "pair")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    return small_experiment(tmp_path, monkeypatch)


@pytest.fixture
def two_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressor and optimizer count as real."""
    monkeypatch.setattr(replies, "real_models", lambda _: {"sim-compressor", "sim-optimizer"})


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the experiment was carried out with two methods, and its replies kept."""
    home = tmp_path_factory.mktemp("played")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replies, "real_models", lambda _: {"sim-compressor", "sim-optimizer"})
        small = two_methods(small_experiment(home, patch))
        assert run(small, METHODS, "all", None, 1) in (0, 2)
        assert keep_replies(small) > 0
    return home


@pytest.fixture
def played(original: Path, tmp_path: Path, two_real: None, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The same in a directory of the test's own."""
    small = two_methods(small_experiment(tmp_path, monkeypatch))
    for part in ("experiments", "runs"):
        shutil.copytree(original / part, tmp_path / part, dirs_exist_ok=True)
    return small


def two_methods(small: Experiment) -> Experiment:
    return replace(small, plan=replace(small.plan, methods=METHODS, arms=("none", "prompting", *METHODS), later=()))


def elsewhere(experiment: Experiment, name: str) -> Experiment:
    place = experiment.place.parent / name
    place.mkdir()
    return replace(experiment, place=place)


def records(experiment: Experiment) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for path in (experiment.adaptations, experiment.evaluation):
        with Store.read(path) as store:
            found[path.name] = (store.digest(), journaled_calls(store), usage_by_phase(store))
    return found


@pytest.mark.slow
def test_what_was_recorded_gives_the_same_runs_and_asks_no_real_model(
    played: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: object, request: Request) -> NoReturn:
        raise AssertionError("a real model was asked")

    monkeypatch.setattr(SimulatedCompressor, "reply", refuse)
    monkeypatch.setattr(SimulatedOptimizer, "reply", refuse)
    again = elsewhere(played, "again")
    assert begin_with_replies(again) > 0
    assert run(again, METHODS, "all", None, 1) in (0, 2)
    assert records(again) == records(played)
    assert page(again) == page(played)


def test_with_replies_alone_nothing_has_begun(played: Experiment) -> None:
    again = elsewhere(played, "again")
    before = page(again)
    begin_with_replies(again)
    assert page(again) == before
    assert "Nothing has been collected yet." in before
    again = replace(again, plan=replace(again.plan, solvable=1))
    assert "not tried yet" in page(again)


def test_keeping_and_beginning_twice_changes_nothing(played: Experiment) -> None:
    file = replies_file(played)
    before = file.read_bytes()
    again = elsewhere(played, "again")
    added = begin_with_replies(again)
    assert begin_with_replies(again) == 0
    assert begin_with_replies(played) == 0, "all of them are there already"
    assert keep_replies(again) == keep_replies(played) == added
    assert file.read_bytes() == before


def test_replies_that_no_run_file_has_are_not_overwritten(played: Experiment) -> None:
    before = replies_file(played).read_bytes()
    other = elsewhere(played, "other")
    with pytest.raises(
        InputError, match=r"has [0-9,]+ replies that no run file in .* has, such as one of .*remove the file"
    ):
        keep_replies(other)
    assert replies_file(played).read_bytes() == before


def test_replies_of_simulated_models_are_not_kept(small: Experiment) -> None:
    assert run(small, ["facts"], "adapt", None, 1) in (0, 2)
    assert keep_replies(small) == 0
    assert not replies_file(small).exists()


def test_replies_come_back_whatever_stands_in_them(small: Experiment, two_real: None) -> None:
    odd = "a\u2028b\x85c\x0bd\U0001f600\r\n\x00"
    reply = Reply(assistant(odd), Usage(3, 2, 1, 0, 1), "length", "odd name", ("a note",))
    with Store.open(small.adaptations) as store:
        store.journal(JournaledReply("collect/a", 0, "compressor", "sim-compressor", "00ff", reply, 1.23456))
    assert keep_replies(small) == 1
    again = elsewhere(small, "again")
    assert begin_with_replies(again) == 1
    with Store.read(again.adaptations) as store:
        (there,) = journaled_replies(store, {"sim-compressor"})
    assert (there.unit, there.ordinal, there.request, there.reply, there.seconds) == (
        "collect/a",
        0,
        "00ff",
        reply,
        1.235,
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        lzma.compress(b"[]\n"),
        lzma.compress(b'{"run": "adapt"}\n'),
        lzma.compress(b"\xff"),
        lzma.compress(b"{}"),
    ],
)
def test_a_file_that_is_none_is_named(small: Experiment, content: bytes) -> None:
    replies_file(small).write_bytes(content)
    with pytest.raises(InputError, match="is no file of recorded replies"):
        begin_with_replies(small)
    assert not small.adaptations.exists()


@pytest.mark.parametrize(
    "change",
    [{"ordinal": "0"}, {"unit": 3}, {"request": "no hex"}, {"reply": {"message": 1}}, {"extra": 1}],
)
def test_a_reply_that_was_changed_is_refused(small: Experiment, two_real: None, change: dict[str, object]) -> None:
    with Store.open(small.adaptations) as store:
        store.journal(
            JournaledReply("collect/a", 0, "compressor", "sim-compressor", "00ff", Reply(assistant("so")), 1.0)
        )
    keep_replies(small)
    file = replies_file(small)
    line = json.loads(lzma.decompress(file.read_bytes()))
    file.write_bytes(lzma.compress(json.dumps(line | change).encode()))
    again = elsewhere(small, "again")
    with pytest.raises(InputError, match="is no file of recorded replies"):
        begin_with_replies(again)
    assert not again.adaptations.exists()


def test_where_nothing_was_recorded_that_is_said(small: Experiment) -> None:
    with pytest.raises(InputError, match="does not exist: nothing was recorded of small"):
        begin_with_replies(small)


def test_each_config_has_a_file_of_its_own(small: Experiment) -> None:
    assert replies_file(small).name == "replies.jsonl.xz"
    assert replies_file(replace(small, config_name="hosted")).name == "replies-hosted.jsonl.xz"


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.decompress(file.read_bytes()).splitlines()]


def write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    file.write_bytes(lzma.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))


@pytest.mark.slow
def test_what_was_recorded_in_part_is_played_so_far_and_the_rest_left(
    played: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    file = replies_file(played)
    write_lines(file, [line for line in lines_of(file) if "pocket-test-002" not in line["unit"]])
    again = without_models(elsewhere(played, "again"))
    begin_with_replies(again)
    assert run(again, METHODS, "all", None, 1) in (0, 2)
    assert "No more was recorded: --resume asks a model for the rest." in capsys.readouterr().out
    text = page(again)
    assert "1 task, 1 run." in text
    assert "pocket-test-001 |" in text
    assert "pocket-test-002 |" not in text


@pytest.mark.slow
def test_the_optimizers_replies_stand_where_its_questions_are_worded_otherwise(played: Experiment) -> None:
    file = replies_file(played)
    lines = lines_of(file)
    questions = [line for line in lines if line["role"] == "optimizer"]
    for line in questions:
        line["request"] = "00ff"
    write_lines(file, lines)
    again = without_models(elsewhere(played, "again"))
    begin_with_replies(again)
    assert run(again, METHODS, "all", None, 1) in (0, 2)
    simulated = "Simulated models: these figures show how Recompact works, not how any real model behaves.  \n"
    assert page(again) == page(played).replace(simulated, "")  # nobody says of himself here that he is simulated
    assert sum(cast(RecordedModel, model).reworded for model in again.models.values()) == len(questions) > 0


def test_a_call_that_nobody_answered_is_not_made_up(small: Experiment, two_real: None) -> None:
    with Store.open(small.adaptations) as store:
        store.journal(JournaledReply("collect/a", 0, "agent", "sim-compressor", "00ff", Reply(assistant("so")), 1.0))
        store.journal(
            JournaledReply("diagnose/a", 0, "optimizer", "sim-optimizer", "00ff", Reply(assistant("thus")), 1.0)
        )
    keep_replies(small)
    model = without_models(small).models["sim-optimizer"]

    def ask(unit: str) -> Reply:
        return asyncio.run(model.reply(Request((), decoding=Decoding(1).seeded(seed_of(unit, 0)))))

    assert ask("diagnose/a").message == assistant("thus")
    for unit in ("collect/a", "diagnose/b"):  # an agent's reply to another question would be no reply
        with pytest.raises(NotRecorded, match="--resume asks for it"):
            ask(unit)


SHIPPED = [name for name in names() if replies_file(load_experiment(name)).is_file()]


def repeated(name: str, place: Path) -> Experiment:
    """A shipped experiment, played by its recorded replies alone."""
    experiment = without_models(load_experiment(name, place=place))
    assert begin_with_replies(experiment) > 0
    run(experiment, experiment.plan.methods, "all", None, experiment.plan.runs)
    return experiment


def test_the_fresh_tasks_come_out_as_their_page_says(tmp_path: Path) -> None:
    def outcomes(text: str) -> list[str]:
        return re.findall(r"^\| pocket-fresh-.*|^- In all .*", text, re.MULTILINE)

    again = repeated("fresh-tasks", tmp_path)
    assert outcomes(page(again)) == outcomes(again.page.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_shipped_gives_the_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a model: what stands on the page is all in the recorded replies, to the letter.

    Where a word of a table has changed: `python experiments/results.py NAME --write`, after `run.py NAME --recorded`.
    """
    if name == "officebench":
        require("officebench")
    if name == "mini-files":  # whose program runs again, on the recorded replies
        require("mini", "bubblewrap")
    monkeypatch.setenv("RECOMPACT_OFFICEBENCH", str(OFFICEBENCH))
    again = repeated(name, tmp_path)
    assert page(again) == again.page.read_text(encoding="utf-8")
