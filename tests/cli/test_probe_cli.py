"""`recompact probe` as a person meets it: on a run, on sessions without a model, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import recompact
from needs import TRANSCRIPTS, needs

from recompact.engine.store.store import Store

CONFIG = "[suite]\nlimit = 4\n[compressor]\nbudget = 2048\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("probe")
    (home / "ci.toml").write_text(CONFIG)
    assert recompact("collect", "ci.toml", cwd=home).returncode == 0
    records: list[dict[str, Any]] = [{"type": "user", "message": {"role": "user", "content": "Fix the app."}}]
    for n in range(4):
        call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": f"/w/src/app/part{n}.py"}}
        records.append({"type": "assistant", "message": {"role": "assistant", "content": [call]}})
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"text {n} of /w/src/app/part{n}.py " * 20}
        records.append({"type": "user", "message": {"role": "user", "content": [result]}})
    records.append({"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted"})
    summary = {"role": "user", "content": "This session is being continued. It read part2.py."}
    records.append({"type": "user", "isCompactSummary": True, "message": summary})
    for n in (1, 2):
        call = {"type": "tool_use", "id": f"u{n}", "name": "Read", "input": {"file_path": f"/w/src/app/part{n}.py"}}
        records.append({"type": "assistant", "message": {"role": "assistant", "content": [call]}})
        result = {"type": "tool_result", "tool_use_id": f"u{n}", "content": "again"}
        records.append({"type": "user", "message": {"role": "user", "content": [result]}})
    lines = (
        {"uuid": f"id{n}", "sessionId": "s", "version": "2.1.7", "cwd": "/w", **record}
        for n, record in enumerate(records)
    )
    (home / "session.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return home


def probe(home: Path, *arguments: object) -> dict[str, Any]:
    done = recompact("probe", *arguments, "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_session_needs_no_model_and_leaves_nothing_behind(home: Path) -> None:
    before = sorted(home.rglob("*"))
    told = probe(home, "session.jsonl", "--arm", "fifo")
    assert sorted(home.rglob("*")) == before
    recall = {each["condition"]: each["recall"][0] for each in told["summary"]}
    assert (told["points"], recall["full"], recall["recorded"]) == (1, 1.0, 0.5)
    facts = [each["answer"] for each in told["conditions"][0]["asked"] if each["kind"] == "fact"]
    assert facts == ["/w/src/app/part1.py", "/w/src/app/part2.py"]
    assert not told["simulated"]


@needs("transcripts")
def test_sessions_of_real_harnesses(tmp_path: Path) -> None:
    told = probe(tmp_path, TRANSCRIPTS / "claude-code", TRANSCRIPTS / "openclaw", "--arm", "fifo")
    shares = {each["condition"]: each["recall"][0] for each in told["summary"]}
    assert told["points"] >= 6
    assert shares["full"] == 1.0
    assert 0 < shares["fifo"] < 1
    assert 0 < shares["recorded"] < 1


def test_a_run_is_compacted_by_templates_once(home: Path) -> None:
    def calls() -> int:
        with Store.read(home / "runs" / "ci.db") as store:
            return sum(usage.calls for usage in store.spent().values())

    first = probe(home, "ci.toml", "--template", "default", "--arm", "fifo", "--limit", 3)
    before = calls()
    assert [each["condition"] for each in first["summary"]][:2] == ["full", "recorded"]
    assert (first["points"], first["simulated"]) == (3, True)
    assert probe(home, "ci", "--template", "default", "--arm", "fifo", "--limit", 3) == first
    assert calls() == before
    shown = recompact("probe", "ci", "--arm", "fifo", cwd=home)
    assert "facts that later calls used" in shown.stdout


def test_the_forecast_runs_nothing(home: Path) -> None:
    told = probe(home, "session.jsonl", "--template", "default", "--config", "ci.toml", "--ask", "--dry-run")
    assert [work["name"] for work in told["works"]] == ["compact", "ask"]
    assert not (home / "runs" / "probe.db").exists()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("session.jsonl", "--template", "default"), "--config"),
        (("session.jsonl", "--template", "default", "--config", "ci.toml"), "--yes"),
        (("session.jsonl", "--template", "nowhere"), "nowhere"),
        (("ci", "--config", "ci.toml"), "--config"),
        (("ci", "--judge"), "--ask"),
        (("nowhere.jsonl",), "nowhere.jsonl"),
        (("nowhere",), "nowhere"),
        (("ci", "--arm", "fifo", "--template", "fifo=default"), "fifo"),
        (("ci", "--template", "full=default"), "full"),
    ],
)
def test_mistakes_are_refused(home: Path, arguments: tuple[str, ...], names: str) -> None:
    done = recompact("probe", *arguments, cwd=home)
    assert done.returncode == 2, done.stdout
    assert names in done.stderr


def test_a_gate_by_probes(home: Path) -> None:
    done = recompact("gate", "fifo", "masking", "--probes", "session.jsonl", "--pairs", 5, "--json", cwd=home)
    told = json.loads(done.stdout)
    assert (done.returncode, told["measure"], told["items"], len(told["pairs"])) == (3, "recall", 1, 5)
    assert all(0 <= pair[side]["value"] <= 1 for pair in told["pairs"] for side in ("base", "new"))
    run = recompact("gate", "none", "default", "--probes", "ci", "--pairs", 5, "--json", cwd=home)
    assert {pair["base"]["value"] for pair in json.loads(run.stdout)["pairs"]} == {1.0}
    forecast = recompact("gate", "none", "default", "--probes", "ci", "--pairs", 5, "--dry-run", "--json", cwd=home)
    assert json.loads(forecast.stdout)["works"][0]["expected"]["units"] == 10
    refused = recompact("gate", "default", "masking", "--probes", "session.jsonl", cwd=home)
    assert (refused.returncode, "--config" in refused.stderr) == (2, True)


def test_a_gate_on_sessions_sends_nothing_unasked(home: Path) -> None:
    words = ("gate", "default", "mine=default", "--probes", "session.jsonl", "--config", "ci.toml", "--run", "asked")
    before = sorted(home.rglob("*"))
    refused = recompact(*words, cwd=home)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert sorted(home.rglob("*")) == before
    assert recompact(*words, "--yes", cwd=home).returncode in (0, 3)
