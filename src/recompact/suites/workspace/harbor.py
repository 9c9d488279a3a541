"""Tasks of the suite `workspace` as task folders of Harbor: an image with the files, and the check as its verifier."""

from __future__ import annotations

import shlex
from pathlib import Path

from recompact.suites.workspace.task import CHECK, FILES, MOUNT, TaskFolder, copy_tree, toml

IMAGE = "python:3.12-slim"
SCHEMA = "1.4"
_KEEP = ".recompact-keep"
_SCORE = 'import json, sys; d = json.load(sys.stdin); print(float(d["score"] if isinstance(d, dict) else d))'


def write_harbor_task(folder: TaskFolder, target: Path, image: str = IMAGE) -> None:
    """Write one task into a new folder. Its check needs in the image what it needs on this machine."""
    environment, tests = target / "environment", target / "tests"
    for directory in (environment / FILES, tests):
        directory.mkdir(parents=True)
    folder.lay_out(environment / FILES)
    lines = [f"FROM {image}", f"WORKDIR {MOUNT}", f"COPY {FILES}/ {MOUNT}/"]
    if not any((environment / FILES).iterdir()):  # COPY wants something to copy
        (environment / FILES / _KEEP).touch()
        lines.append(f"RUN rm -f {MOUNT}/{_KEEP}")
    (environment / "Dockerfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if (folder.path / CHECK).is_dir():
        copy_tree(folder.path / CHECK, tests / CHECK)
    if folder.check.protected:
        folder.lay_out(tests / "protected")
    script = tests / "test.sh"
    script.write_text(_verifier(folder), encoding="utf-8")
    script.chmod(0o755)
    (target / "instruction.md").write_text(folder.instruction.rstrip("\n") + "\n", encoding="utf-8")
    (target / "task.toml").write_text(_settings(folder), encoding="utf-8")


def _settings(folder: TaskFolder) -> str:
    lines = [f'schema_version = "{SCHEMA}"', "", "[metadata]", f"split = {toml(folder.split)}"]
    lines += [f"{toml(key)} = {toml(value)}" for key, value in folder.groups.items() if key != "split"]
    lines += ["", "[verifier]", f"timeout_sec = {folder.check.seconds:.1f}"]
    lines += ["", "[environment]", f'workdir = "{MOUNT}"', f"memory_mb = {folder.limits.memory // 1024**2}"]
    return "\n".join(lines) + "\n"


def _verifier(folder: TaskFolder) -> str:
    """The check of the task. The places are variables, so that the script can be tried without a container."""
    back = [
        f'rm -rf -- {name} && mkdir -p -- "$(dirname -- {name})" && cp -a -- "$TESTS"/protected/{name} {name}'
        for name in map(shlex.quote, folder.check.protected)
    ]
    command = f"bash -c {shlex.quote(folder.check.command)}"
    score = f"{command} | grep -v '^[[:space:]]*$' | tail -n 1 | python3 -c {shlex.quote(_SCORE)}"
    by_exit = f"if {command} >&2; then echo 1; else echo 0; fi"
    judged = f"{score} || echo 0" if folder.check.verdict == "json" else by_exit
    lines = [
        "#!/bin/bash",
        'TESTS="${TESTS:-/tests}" LOGS="${LOGS:-/logs/verifier}"',
        f'export CHECK="$TESTS/{CHECK}" WORKSPACE="${{WORKSPACE:-{MOUNT}}}" ANSWER_FILE="$LOGS/answer.txt"',
        'mkdir -p "$LOGS" && touch "$ANSWER_FILE"  # Harbor keeps no last words of an agent',
        'cd "$WORKSPACE" || exit 1',
        *back,
        f'({judged}) > "$LOGS/reward.txt"',
    ]
    return "\n".join(lines) + "\n"
