"""`verify`, `boundaries` and `boundary` as a person meets them."""

from __future__ import annotations

import csv
import io
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from commands import recompact, served
from run_files import select_rows
from sim_server import Server
from verify_support import FickleNoter, ShakyReader, config_text

from recompact.engine.store.runs import boundary_rows
from recompact.engine.store.store import Store


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served({"reader": ShakyReader(), "noter": FickleNoter()}, latency=0.01) as running:
        yield running


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Path:
    """A directory with a config and a run that was collected: for tests to copy."""
    return fresh(tmp_path_factory.mktemp("collected"), server, "books_6").parent


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, collected: Path) -> Path:
    """A directory with a config and a run that was collected and verified."""
    directory = tmp_path_factory.mktemp("project")
    copied(collected, directory)
    done = recompact("verify", "books", cwd=directory)
    assert done.returncode == 0, done.stderr
    (directory / "said.txt").write_text(done.stdout)
    return directory


def copied(collected: Path, directory: Path) -> Path:
    """The config in a copy of a directory, with its run beside it."""
    return shutil.copytree(collected, directory, dirs_exist_ok=True) / "books.toml"


def fresh(tmp_path: Path, server: Server, suite: str) -> Path:
    config = tmp_path / "books.toml"
    config.write_text(config_text(suite, server.base_url, concurrency=8))
    done = recompact("collect", config)
    assert done.returncode == 0, done.stderr
    return config


def test_verify_says_what_is_harmful_and_ends_with_the_digest(project: Path, server: Server) -> None:
    said = (project / "said.txt").read_text().strip().splitlines()
    assert said[-1].startswith("digest: ")
    assert "retained (H >= 0.5 or B >= 5" in "\n".join(said)
    assert "Retained does not mean harmful" in "\n".join(said)  # or every reader takes it for that
    assert any(line.startswith("book-00") and " ◆ " in line for line in said)
    asked = sum(server.received.values())
    again = recompact("verify", project / "books.toml", "--json")
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert said[-1] == f"digest: {told['digest']}"
    assert told["unfinished"] == []
    assert told["left_out"] == {}
    assert told["continuations_per_boundary"] == pytest.approx(3.5, abs=0.1)
    assert len(told["retained"]) == told["statement"]["retained"] > 0
    assert set(told["statement"]["sentences"]) <= set(said)
    assert sum(server.received.values()) == asked  # what is there is not asked for again
    # what collect says of the run is the same as before
    assert recompact("collect", project / "books.toml").returncode == 0
    assert sum(server.received.values()) == asked


def test_boundaries_as_a_table_as_json_and_as_csv(project: Path) -> None:
    told = json.loads(recompact("boundaries", "books", "--json", cwd=project).stdout)
    assert told["allocation"] == "halving"
    assert told["settled"]
    rows = told["boundaries"]
    harmful = [row["boundary"] for row in rows if row["retained"]]
    assert harmful == [row["boundary"] for row in rows[: len(harmful)]]
    scores = [row["score"] for row in rows if not row["retained"]]
    assert scores == sorted(scores, reverse=True)
    for row in rows:
        assert row["H_low"] <= row["H"] <= row["H_high"]
        assert row["B_low"] <= row["B"] <= row["B_high"]
        assert row["boundary"] == f"{row['task']}#{row['t']}"
        assert row["channel"] in ("error", "burden", "both", "none")
    read = list(csv.DictReader(io.StringIO(recompact("boundaries", "books", "--csv", cwd=project).stdout)))
    assert [row["boundary"] for row in read] == [row["boundary"] for row in rows]
    assert float(read[0]["H"]) == rows[0]["H"]

    table = recompact("boundaries", project / "runs" / "books.db", "--top", 3, columns=80).stdout.splitlines()
    assert all(word in table[0] for word in ("boundary", "step", "H", "95 %", "B", "draws", "channel"))
    assert max(map(len, table[:4])) <= 80
    assert [line.split()[0] for line in table[1:4]] == [row["boundary"] for row in rows[:3]]
    assert f"{len(rows) - 3} more with --all" in "\n".join(table[4:])
    everything = recompact("boundaries", "books", "--all", cwd=project).stdout
    assert all(row["boundary"] in everything for row in rows)


def test_boundary_shows_contexts_losses_and_continuations_as_plain_text(project: Path) -> None:
    (first, *_) = json.loads(recompact("boundaries", "books", "--json", cwd=project).stdout)["boundaries"]
    whole = json.loads(recompact("boundary", "books", first["boundary"], "--json", cwd=project).stdout)
    assert whole["H"] == first["H"]
    assert [pair["draw"] for pair in whole["pairs"]] == [1, 2, 3]
    assert whole["dropped"]["literals"]
    assert "[bold]now[/bold]" in json.dumps(whole["pre"])

    wide = recompact("boundary", "books", first["boundary"], columns=140, cwd=project).stdout
    assert any("PRE, " in line and "POST, " in line for line in wide.splitlines())
    narrow = recompact("boundary", "books", first["boundary"], columns=80, cwd=project).stdout
    assert not any("PRE, " in line and "POST, " in line for line in narrow.splitlines())
    for said in (wide, narrow):
        assert "H: +" in said
        assert "95 %" in said
        assert "The last page read was page" in said
        assert "dropped, and used by no PRE continuation: " in said
        assert "PRE, draw 1: " in said
        assert "POST, draw 3: " in said
    marked = [pair for pair in whole["pairs"] if pair["first_divergence"] is not None]
    assert (wide.count("≠") > 1) == bool(marked)
    repeats = sum(len(pair[arm]["repeated"]) for pair in whole["pairs"] for arm in ("PRE", "POST"))
    assert wide.count("↻") == 1 + repeats

    missing = recompact("boundary", "books", "book-000#77", cwd=project)
    assert missing.returncode == 2
    assert "book-000#1" in missing.stderr


def test_a_dry_run_asks_nobody_and_writes_nothing(tmp_path: Path, collected: Path, server: Server) -> None:
    config = copied(collected, tmp_path)
    run = tmp_path / "runs" / "books.db"
    asked = sum(server.received.values())
    before = run.read_bytes()
    said = recompact("verify", config, "--dry-run")
    assert said.returncode == 0, said.stderr
    told = json.loads(recompact("verify", config, "--dry-run", "--draws", 3, "--json").stdout)
    with Store.read(run) as store:
        boundaries = len(boundary_rows(store))
    (work,) = told["works"]
    assert work["expected"]["units"] == work["at_most"]["units"] == 6 * boundaries
    assert 0 < work["expected"]["tokens"] <= work["at_most"]["tokens"]
    assert set(work["expected"]["usage"]) == {"agent"}
    assert sum(server.received.values()) == asked
    assert run.read_bytes() == before
    with Store.read(run) as store:
        assert not store.finished("continuation")


def test_more_draws_use_those_that_are_there(tmp_path: Path, collected: Path) -> None:
    config = copied(collected, tmp_path)
    first = json.loads(recompact("verify", config, "--draws", 1, "--json").stdout)
    assert first["continuations"] == 2 * first["boundaries"]
    left = json.loads(recompact("verify", config, "--draws", 2, "--dry-run", "--json").stdout)
    assert left["works"][0]["expected"]["units"] == 2 * first["boundaries"]
    second = json.loads(recompact("verify", config, "--draws", 2, "--json").stdout)
    assert second["continuations"] == 4 * first["boundaries"]
    listed = json.loads(recompact("boundaries", tmp_path / "runs" / "books.db", "--json").stdout)
    assert listed["allocation"] == "uniform:2"
    both = recompact("verify", config, "--draws", 2, "--allocation", "racing")
    assert both.returncode == 2
    wrong = recompact("verify", config, "--allocation", "guess")
    assert wrong.returncode == 2
    assert "halving, uniform, racing" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_runs_and_configs_that_do_not_fit_are_told(tmp_path: Path, collected: Path) -> None:
    nothing = recompact("verify", "nothing", cwd=tmp_path)
    assert nothing.returncode == 2
    assert "there is no run 'nothing'" in nothing.stderr
    config = copied(collected, tmp_path)
    empty = recompact("boundaries", "books", cwd=tmp_path)
    assert "no draws yet: recompact verify" in empty.stdout
    changed = tmp_path / "changed.toml"
    changed.write_text(config.read_text().replace("budget = 500", "budget = 600"))
    other = recompact("verify", changed, "--run", "books")
    assert other.returncode == 2
    assert "compressor.budget: 500 -> 600" in other.stderr
    config.rename(tmp_path / "moved.toml")
    lost = recompact("verify", "books", cwd=tmp_path)
    assert lost.returncode == 2
    assert "CONFIG --run books" in lost.stderr
    assert recompact("verify", tmp_path / "moved.toml", "--run", "books", "--draws", 1).returncode == 0
    assert recompact("verify", "books", "--draws", 1, cwd=tmp_path).returncode == 0  # now it knows the new place


def test_a_boundary_that_cannot_be_replayed_is_named_and_left_out(tmp_path: Path, server: Server) -> None:
    config = fresh(tmp_path, server, "drifting_4")
    done = recompact("verify", config)
    assert done.returncode == 0, done.stderr
    assert "left out: book-001#1: " in done.stderr
    assert "action 1 (look)" in done.stderr
    assert f"recompact verify {tmp_path / 'runs' / 'books.db'} --retry" in done.stderr
    again = recompact("verify", config, "--retry")
    assert again.returncode == 0, again.stderr
    assert "left out: book-001#1: " in again.stderr  # nothing was mended
    shown = recompact("boundaries", tmp_path / "runs" / "books.db", "--all")
    assert "left out" in shown.stdout
    one = recompact("boundary", tmp_path / "runs" / "books.db", "book-001#1")
    assert "left out: replay differs" in one.stdout


def test_a_suite_that_cannot_be_restored_says_so_with_the_way_out(tmp_path: Path, server: Server) -> None:
    config = tmp_path / "books.toml"
    text = config_text("drifting_4", server.base_url, concurrency=8)
    config.write_text(text.replace("[suite]", '[suite]\ntasks = ["book-001"]'))
    assert recompact("collect", config).returncode == 0
    control = recompact("verify", config, "--control", "aa")
    assert "book-001#1" in control.stderr
    done = recompact("verify", config)
    assert done.returncode == 2
    assert "left out" in done.stdout
    assert recompact("verify", config, "--control", "aa").returncode == 2
    assert "nothing was compacted" not in done.stdout.lower()
    assert f"recompact verify {tmp_path / 'runs' / 'books.db'} --retry" in done.stderr


def test_controls_confirmation_and_fresh_summaries(project: Path) -> None:
    done = recompact("verify", "books", "--control", "aa", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    control = json.loads(done.stdout)["statement"]["control"]
    assert control["boundaries"] == json.loads(done.stdout)["boundaries"]
    done = recompact("verify", "books", "--confirm", 2, "--resample", 2, "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout)["retained"]:
        assert (row["confirmed"]["pre"], row["confirmed"]["post"], row["resampled"]["post"]) == (2, 2, 2)
    told = json.loads(recompact("controls", "books", "--json", cwd=project).stdout)
    assert told["statement"]["control"] == control
    words = recompact("controls", "books", cwd=project).stdout
    assert "With both arms from PRE (A/A)" in words
    assert "recompact controls runs/books.db --without" in words
    assert "recompact verify runs/books.db --draws 9" in words


def test_draws_beside_a_verification_go_by_its_own_settings(tmp_path: Path, collected: Path) -> None:
    config = copied(collected, tmp_path)  # which says halving
    alone = recompact("verify", config, "--control", "aa", "--draws", 1, "--json")
    assert alone.returncode == 0, alone.stderr  # an unverified run can have a control too
    told = json.loads(alone.stdout)
    assert told["continuations"] == 0
    assert told["further"]["control"] == 2 * told["boundaries"]
    first = json.loads(recompact("verify", config, "--draws", 1, "--json").stdout)
    planned = json.loads(recompact("verify", config, "--confirm", 1, "--dry-run", "--json").stdout)
    assert planned["works"][0]["expected"]["units"] == 0
    for more in (["--confirm", 1, "--resample", 1], ["--control", "aa"]):
        later = json.loads(recompact("verify", config, *more, "--json").stdout)
        for key in ("allocation", "continuations", "digest"):
            assert later[key] == first[key], (more, key)
        assert [row["boundary"] for row in later["retained"]] == [row["boundary"] for row in first["retained"]]
        assert later["further"]["control"] == told["further"]["control"]
    run = tmp_path / "runs" / "books.db"
    statement = json.loads(recompact("controls", run, "--json").stdout)["statement"]
    assert statement["control"]["boundaries"] == first["boundaries"]
    read = list(csv.DictReader(io.StringIO(recompact("boundaries", run, "--csv").stdout)))
    rows = json.loads(recompact("boundaries", run, "--json").stdout)["boundaries"]
    assert any(row["confirmed"] for row in rows)
    for cells, row in zip(read, rows, strict=True):
        assert float(cells["H"]) == row["H"]  # of the verification, whatever fresh pairs say
        assert cells["confirmed_H"] == (str(row["confirmed"]["hazard"]) if row["confirmed"] else "")
        assert cells["confirmed_post_draws"] == ("1" if row["confirmed"] else "")
    assert list(read[0])[-8:-6] == ["confirmed_H", "confirmed_H_low"]


def test_boundaries_of_an_evaluation_say_why_not_and_what_to_do(tmp_path: Path) -> None:
    with Store.open(tmp_path / "arms.db") as store:
        store.set_metadata(replace(store.metadata, command="evaluate", config_file="arms.toml"))
    done = recompact("boundaries", tmp_path / "arms.db")
    assert done.returncode == 2
    assert "recompact collect CONFIG && recompact verify CONFIG" in done.stderr  # it is not there
    config = tmp_path / "arms.toml"
    config.write_text("")
    assert (
        f"recompact collect {config} && recompact verify {config}"
        in recompact("boundaries", tmp_path / "arms.db").stderr
    )
    assert f"recompact show {tmp_path / 'arms.db'} --behaviour" in done.stderr


def test_a_ceiling_and_ctrl_c_stop_cleanly_and_the_same_command_goes_on(tmp_path: Path, collected: Path) -> None:
    config = copied(collected, tmp_path)
    with Store.read(tmp_path / "runs" / "books.db") as store:
        spent = sum(usage.total for usage in store.spent().values())
    plain = config.read_text()
    config.write_text(f"{plain}\n[ceiling]\ntokens = {spent + 5000}\n")
    low = recompact("verify", config)
    assert low.returncode == 3
    assert "raise [ceiling] tokens" in low.stderr
    config.write_text(plain)
    process = subprocess.Popen(
        [sys.executable, "-m", "recompact", "verify", str(config)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    begun = _calls(tmp_path)
    while time.monotonic() < deadline and _calls(tmp_path) == begun and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert f"resume with: recompact verify {config}" in said
    assert "Traceback" not in said
    assert recompact("verify", config).returncode == 0


def _calls(directory: Path) -> int:
    with Store.read(directory / "runs" / "books.db") as store:
        count: int = select_rows(store, "SELECT count(*) AS n FROM calls")[0]["n"]
        return count
