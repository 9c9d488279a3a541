"""The wheel as somebody has it who has no clone: built, installed into an empty environment, and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path
from typing import Any

import pytest
from needs import ROOT, needs

pytestmark = needs("wheel")
SESSION: tuple[dict[str, Any], ...] = (
    {"type": "user", "message": {"role": "user", "content": "Read the notes and sum them up."}},
    {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "I read them."}]}},
    {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": 1000}},
    {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "They are about a harbour."}},
    {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "A harbour."}]}},
)


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel and nothing of ours besides."""
    place = tmp_path_factory.mktemp("wheel")
    wheel = Path(os.environ["RECOMPACT_TEST_WHEEL"])  # the wheel of a release, or a new one
    if wheel.suffix != ".whl":
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(place), str(ROOT)], check=True)
        (wheel,) = place.glob("recompact-*.whl")
    venv.create(place / "env", with_pip=True)
    install = [str(place / "env" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*install, "--constraint", str(ROOT / "constraints.txt"), f"{wheel.resolve()}[server]"], check=True)
    return place / "env" / "bin"


def used(binaries: Path, home: Path, *arguments: str) -> str:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RECOMPACT"))}
    variables = {**bare, "HOME": str(home), "PATH": f"{binaries}:{os.defpath}"}
    command = [str(binaries / "recompact"), *arguments]
    done = subprocess.run(command, cwd=home, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_and_a_look_at_its_runs(binaries: Path, tmp_path: Path) -> None:
    demo = json.loads(used(binaries, tmp_path, "demo", "--train", "6", "--test", "2", "--runs", "1", "--json"))
    assert set(demo["arms"]) == {"none", "prompting/history", "PAIR/history"}
    assert (tmp_path / "recompact-demo" / "report.html").stat().st_size > 10_000
    view = subprocess.Popen(
        [str(binaries / "recompact"), "view", "recompact-demo", "--no-open", "--for", "60", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert view.stdout is not None
        address = json.loads("".join(iter(view.stdout.readline, "}\n")) + "}")["address"]
        with urllib.request.urlopen(address) as page:
            assert page.status == 200
            assert b"adapt" in page.read()
    finally:
        view.terminate()
        view.wait()


def test_an_audit_of_a_session(binaries: Path, tmp_path: Path) -> None:
    lines = [
        {"sessionId": "s", "uuid": str(number), "timestamp": f"2026-03-01T10:00:0{number}.000Z", "cwd": "/", **line}
        for number, line in enumerate(SESSION)
    ]
    (tmp_path / "s.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    told = json.loads(used(binaries, tmp_path, "audit", "s.jsonl", "--no-page", "--json"))
    assert len(told["compactions"]) == 1


def test_an_export_of_the_default_template(binaries: Path, tmp_path: Path) -> None:
    used(binaries, tmp_path, "export", "default", "--to", "claude-code")
    assert any(path.is_file() for path in (tmp_path / "compaction-claude-code").rglob("*"))


def test_what_is_missing_is_installed_by_the_command_that_is_named(binaries: Path, tmp_path: Path) -> None:
    command = "from recompact.version import install_command; print(install_command('officebench'))"
    printed = subprocess.run([str(binaries / "python"), "-c", command], capture_output=True, text=True, check=True)
    assert printed.stdout.startswith("pip install ")
    assert ".whl[officebench]" in printed.stdout
