"""A task folder of Harbor whose image is nothing but files, so that it can be played without a container; any other is
refused, with the reason."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from recompact.errors import InputError
from recompact.values.reading import read_small

_REWARD = (
    "import json, pathlib, sys; p = pathlib.Path(sys.argv[1]); j = p / 'reward.json';"
    " print(float(json.loads(j.read_text())['reward'] if j.exists() else (p / 'reward.txt').read_text()))"
)
_CHECK = (
    'LOGS=$(mktemp -d); sed -E -e "s#/logs/verifier#$LOGS#g"'
    ' -e "s#(^|[^A-Za-z0-9_./-])/tests\\\\b#\\\\1$CHECK#g" "$CHECK/test.sh" > "$LOGS/test.sh";'
    ' TESTS="$CHECK" LOGS="$LOGS" bash "$LOGS/test.sh" >&2;'
    f' python3 -c {shlex.quote(_REWARD)} "$LOGS"'
)
_NEEDS = ("gpus", "tpu", "docker_image", "mcp_servers", "healthcheck")
_CONTAINER = re.compile(r"(?<![\w./-])/(?:tests|logs|solution)(?![\w-])")


@dataclass(frozen=True)
class HarborTask:
    """What is to be known of one: its check prints the reward that `tests/test.sh` writes."""

    instruction: str
    check: str
    seconds: float
    split: str
    groups: Mapping[str, str]
    files: tuple[tuple[str, str], ...]  # what is copied, and to where in the workspace
    tests: str = "tests"


def read_harbor_task(path: Path, data: Mapping[str, Any], mount: str) -> HarborTask:
    """The task in a folder with this `task.toml`, for workspaces that are seen at `mount`."""
    if reason := next(_obstacles(path, data, mount), ""):
        raise InputError(
            f"{path} is a task of Harbor that needs a container, which this suite has not: {reason}. Run it with"
            " Harbor, and our gateway in between: harbor run -p TASKS --agent recompact.integrations.harbor:Agent"
        )
    metadata, verifier = data.get("metadata") or {}, data.get("verifier") or {}
    return HarborTask(
        read_small(path / "instruction.md"),
        _CHECK,
        float(verifier.get("timeout_sec") or 600.0),
        str(metadata.get("split", "train")),
        {key: str(value) for key, value in metadata.items() if isinstance(value, str | int) and key != "split"},
        tuple(_copies(path, mount)),
    )


def _obstacles(path: Path, data: Mapping[str, Any], mount: str) -> Iterator[str]:
    """Why a task cannot be played in a plain directory."""
    environment = data.get("environment") or {}
    yield from (f"[environment] {key} is set" for key in _NEEDS if environment.get(key))
    if data.get("steps"):
        yield "it has several steps"
    if not (path / "tests" / "test.sh").is_file():
        yield "it has no tests/test.sh"
    if (path / "environment" / "docker-compose.yaml").exists():
        yield "its environment is a composition of containers"
    place = mount
    for word, rest in _instructions(path):
        if word == "WORKDIR":
            place = rest
        elif word not in ("FROM", "COPY") and not (word == "RUN" and rest.startswith("rm -f ")):
            yield f"its Dockerfile says {word} {rest[:60]}"
    place = str(environment.get("workdir") or place)
    texts = {name: read_small(name) for name in sorted((path / "tests").rglob("*")) if name.suffix in (".sh", ".py")}
    for file, text in {**texts, path / "instruction.md": read_small(path / "instruction.md")}.items():
        named = _CONTAINER.search(text) if file.name != "test.sh" else None
        if named or (place != mount and place in text):
            yield f"{file.name} names {named[0] if named else place}, a place in the container"


def _instructions(path: Path) -> Iterator[tuple[str, str]]:
    file = path / "environment" / "Dockerfile"
    text = read_small(file).replace("\\\n", " ") if file.is_file() else ""
    for line in filter(None, (line.strip() for line in text.splitlines())):
        if not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word.upper(), rest.strip()


def _copies(path: Path, mount: str) -> Iterator[tuple[str, str]]:
    """What the Dockerfile copies, and to where in the workspace."""
    place = PurePosixPath(mount)
    for word, rest in _instructions(path):
        if word == "WORKDIR":
            place = PurePosixPath(rest)
        if word == "COPY":
            *sources, target = (part for part in shlex.split(rest) if not part.startswith("--"))
            whole = place / target
            if not whole.is_relative_to(place) or any(".." in part.split("/") for part in (*sources, target)):
                raise InputError(f"{path}: its Dockerfile copies to {target}, outside of its working directory {place}")
            for source in sources:
                directory = (path / "environment" / source).is_dir()
                inside = whole if directory or not target.endswith(("/", ".")) else whole / PurePosixPath(source).name
                yield f"environment/{source}", str(inside.relative_to(place))
