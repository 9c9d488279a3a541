"""`audit --diagnose`: what is sent, what it says about cost, and the template that comes of it; nothing without it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from audit_planting import WRITERS, planted
from commands import recompact
from loopback import served_app
from test_hostile_transcripts import SECRETS, hostile_session

from recompact.audit.diagnosis import OBSERVATIONAL
from recompact.values.template import default_template, resolve

KEY = "the-key-of-the-model-itself-0123456789"


def completion(value: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": json.dumps(value)}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice], "usage": usage}


def revision(prompt: str, clause: str) -> dict[str, Any]:
    """The default template with one clause at the end of its first section, citing every diagnosed compaction."""
    lines = prompt.partition("<diagnoses>\n")[2].partition("\n</diagnoses>")[0].splitlines()
    cited = [json.loads(line)["boundary"] for line in lines]
    original = default_template()
    parts = {
        part: getattr(original, part).replace("## Goal\n", f"## Goal\n{clause}\n", 1) for part in ("first", "update")
    }
    return {"rules": [{"clause": clause, "section": "Goal", "boundaries": cited}], **parts}


@contextmanager
def stub(clause: str = "Keep every path of a file that was read.") -> Iterator[tuple[str, list[str]]]:
    """A model that finds the same cause everywhere, and what it was sent."""
    sent: list[str] = []

    async def answer(http: web.Request) -> web.Response:
        body = await http.text()
        sent.append(body)
        prompt = json.loads(body)["messages"][-1]["content"]
        if "<first>" in prompt:
            return web.json_response(completion(revision(prompt, clause)))
        if "<diagnoses>" in prompt:
            return web.json_response(completion({"groups": []}))
        cause = {"mechanism": "omitted state", "kind": "file paths", "lines": ["C1.1"], "explanation": "It read again."}
        return web.json_response(completion({"findings": [cause], "abstain": ""}))

    with served_app(answer) as url:
        yield url, sent


def config(path: Path, url: str) -> Path:
    path.write_text(
        f'[agent]\nmodel = "stub"\n[models.stub]\nid = "stub"\nbase_url = "{url}"\nkey_env = "STUB_KEY"\n'
        'api = "chat"\nattempts = 1\nprice = { input = 1.0, output = 10.0 }\n'
    )
    return path


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STUB_KEY", KEY)
    folder = tmp_path / "sessions"
    folder.mkdir()
    writer, keeps = WRITERS["pi"]
    for seed in range(3):
        (folder / f"{seed}.jsonl").write_text("\n".join(planted(seed, writer, keeps).lines))
    return folder


def test_a_template_is_revised_and_marked_as_observational(sessions: Path, tmp_path: Path) -> None:
    with stub() as (url, sent):
        settings = config(tmp_path / "c.toml", url)
        done = recompact("audit", sessions, "--no-page", "--top", "2", "--yes", "--diagnose", settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(sent) == 4  # two diagnoses, a grouping, a revision
    before = done.stderr.replace("\n", " ")
    assert "2 masked excerpts" in before
    after = done.stdout.replace("\n", " ")
    assert re.search(r" 2\b.* 0\b.* 0\b.* 4,400 tokens, 0\.0080 ", after)
    assert OBSERVATIONAL in after
    revised = resolve(str(tmp_path / "audit-template"), tmp_path)
    assert "Keep every path of a file that was read." in revised.first
    manifest = json.loads((tmp_path / "audit-template" / "manifest.json").read_text())
    assert manifest["evidence"] == "observational"
    assert manifest["parent"] == default_template().hash
    assert "Observational" in (tmp_path / "audit-template" / "CHANGES.md").read_text()


def test_nothing_is_sent_without_the_flag(sessions: Path, tmp_path: Path) -> None:
    with stub() as (url, sent):
        config(tmp_path / "c.toml", url)
        assert recompact("audit", sessions, "--no-page", cwd=tmp_path).returncode == 0
    assert sent == []


def test_secrets_are_masked_before_anything_is_sent(sessions: Path, tmp_path: Path) -> None:
    lines = [line.replace("<script>", f"{KEY} <script>") for line in hostile_session(60)]
    (sessions / "hostile.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with stub() as (url, sent):
        settings = config(tmp_path / "c.toml", url)
        done = recompact("audit", sessions, "--no-page", "--json", "--yes", "--diagnose", settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    bodies = "\n".join(sent)
    assert "hostile.jsonl" in bodies
    assert "[masked]" in bodies
    assert "[key]" in bodies
    for secret in (*SECRETS, KEY):
        assert secret[:16] not in bodies, secret
    for character in ("\\u001b", "\\u202e", "\x1b", "\u202e"):
        assert character not in bodies


def test_a_revision_that_names_an_instance_is_refused(sessions: Path, tmp_path: Path) -> None:
    with stub("Keep the commit 3f2a9c1d77 of Ann Miller.") as (url, sent):
        settings = config(tmp_path / "c.toml", url)
        (sessions / "named.jsonl").write_text(
            (sessions / "0.jsonl").read_text().replace("/home/dev/app", "/home/dev/3f2a9c1d77")
        )
        done = recompact("audit", sessions, "--no-page", "--json", "--yes", "--diagnose", settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["diagnosis"]
    assert told["directory"] is None
    assert "3f2a9c1d77" in " ".join(told["refused"])
    assert not (tmp_path / "audit-template").exists()
    assert sent


def test_a_model_that_cannot_be_reached_is_one_message(sessions: Path, tmp_path: Path) -> None:
    settings = config(tmp_path / "c.toml", "http://127.0.0.1:9/v1")
    done = recompact("audit", sessions, "--no-page", "--yes", "--diagnose", settings, cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "audit-template").exists()
    assert "Traceback" not in done.stderr


def test_nothing_is_sent_unless_somebody_says_yes(sessions: Path, tmp_path: Path) -> None:
    with stub() as (url, sent):
        settings = config(tmp_path / "c.toml", url)
        done = recompact("audit", sessions, "--no-page", "--diagnose", settings, cwd=tmp_path)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert sent == []
