"""A task folder of Harbor: played in a plain directory if its image is nothing but files, else in a container; one that
needs more than a container is refused, with the reason."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from recompact.environments.shell import CommandLimits
from recompact.errors import InputError
from recompact.suites.workspace.container import ContainerSpec
from recompact.suites.workspace.task import MOUNT, CheckSpec, TaskFolder, TaskTable
from recompact.values.reading import read_small

WITH_HARBOR = "harbor run -p TASKS --agent recompact.integrations.harbor:Agent"
"""How such a task is played all the same."""

_NEWEST = (1, 4)
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
_SETTINGS = (
    *(("environment", "docker_image"), ("environment", "env")),
    *(("agent", "user"), ("verifier", "user"), ("verifier", "env")),
)
_UNPLAIN = re.compile(r"""^--|["'*?\[<$]|(^|[ /])\.\.([ /]|$)""")  # options, patterns, and ways out of the folder
_MORE = ("gpus", "tpu", "mcp_servers", "healthcheck", "skills_dir", "allowed_hosts")
_PLACES = re.compile(r"(?<![\w./-])/(?:tests|logs|solution)(?![\w-])")
_CANARY = re.compile(r"\A(?:(?:<!--.*canary.*-->|#.*canary.*)\n+)+", re.IGNORECASE)
_IMAGE = re.compile(r"\w[\w./:@-]*", re.ASCII)
_USER = re.compile(r"\w[\w.-]*(:\w[\w.-]*)?", re.ASCII)
_MOST = 1e9  # of a number in their task.toml
_SIZES = {"K": 1024, "M": 1024**2, "G": 1024**3}
_CONTAINER_LIMITS = CommandLimits(seconds=60.0, memory=2 * 1024**3, processes=512, disk=2 * 1024**3)


def read_harbor_task(path: Path, id: str, data: TaskTable) -> TaskFolder:
    """The task in a folder with this `task.toml`. Its check prints the reward that `tests/test.sh` writes; in a
    container the check is that script itself, there."""
    tables = {name: data.table(name) for name in ("environment", "agent", "verifier", "metadata")}
    if reason := next(_refusals(path, data.data, tables), ""):
        raise InputError(
            f"{path} is a task of Harbor that this suite cannot play: {reason}. With Harbor: {WITH_HARBOR}"
        )
    metadata = tables["metadata"].data
    task = TaskFolder(
        id,
        path,
        _CANARY.sub("", read_small(path / "instruction.md")),
        CheckSpec(_CHECK, "json", seconds=tables["verifier"].number("timeout_sec", most=_MOST) or 600.0),
        str(metadata.get("split", "train")),
        {key: str(value) for key, value in metadata.items() if isinstance(value, str | int) and key != "split"},
        files=(),
        judge="tests",
    )
    if reason := next(_obstacles(path, tables), ""):
        return _in_container(task, tables, reason)
    return replace(task, files=tuple(_copies(path)))


def _refusals(path: Path, data: Mapping[str, Any], tables: Mapping[str, TaskTable]) -> Iterator[str]:
    """Why not even a container of ours is enough."""
    environment, verifier = tables["environment"].data, tables["verifier"].data
    version = str(data.get("schema_version", data.get("version", "1.0")))
    if not re.fullmatch(r"\d+\.\d+", version) or tuple(map(int, version.split("."))) > _NEWEST:
        yield f"its schema_version is {version[:40]!r}, and {'.'.join(map(str, _NEWEST))} is the newest known here"
    yield from (f"[environment] {key} is set" for key in _MORE if environment.get(key))
    if str(environment.get("os", "linux")).lower() != "linux":
        yield f"it is made for {environment['os']}"
    if data.get("steps"):
        yield "it has several steps"
    if not (path / "tests" / "test.sh").is_file():
        yield "it has no tests/test.sh"
    if any((path / "environment" / f"docker-compose.{end}").exists() for end in ("yaml", "yml")):
        yield "its environment is a composition of containers"
    if verifier.get("environment_mode", "shared") != "shared" or verifier.get("environment") or verifier.get("collect"):
        yield "its verifier has a container of its own"
    for name, table in tables.items():
        mode = table.data.get("network_mode")
        if mode not in (None, "public", "no-network"):
            yield f"[{name}] network_mode = {mode!r}: a list of allowed hosts needs a proxy"
        if name != "environment" and mode is not None and (mode == "public") != _network(environment):
            yield f"[{name}] network_mode differs from the one of [environment]"


def _obstacles(path: Path, tables: Mapping[str, TaskTable]) -> Iterator[str]:
    """Why a task cannot be played in a plain directory."""
    yield from (f"[{name}] {key} is set" for name, key in _SETTINGS if tables[name].data.get(key))
    place = MOUNT
    for word, rest in _instructions(path):
        if word == "WORKDIR":
            place = rest
        elif word not in ("FROM", "COPY") and not (word == "RUN" and rest.startswith("rm -f ")):
            yield f"its Dockerfile says {word} {rest[:60]}"
        elif word == "COPY" and (_UNPLAIN.search(rest) or not _target(place, rest).is_relative_to(place)):
            yield f"its Dockerfile says COPY {rest[:60]}"
    place = str(tables["environment"].data.get("workdir") or place)
    texts = {name: read_small(name) for name in sorted((path / "tests").rglob("*")) if name.suffix in (".sh", ".py")}
    for file, text in {**texts, path / "instruction.md": read_small(path / "instruction.md")}.items():
        named = _PLACES.search(text) if file.name != "test.sh" else None
        if named or (place != MOUNT and place in text):
            yield f"{file.name} names {named[0] if named else place}, a place in the container"


def _in_container(task: TaskFolder, tables: Mapping[str, TaskTable], reason: str) -> TaskFolder:
    path, environment, verifier = task.path, tables["environment"], tables["verifier"]
    image, workdir = _text(environment, "docker_image", _IMAGE), _text(environment, "workdir")
    if not image and not (path / "environment" / "Dockerfile").is_file():
        raise InputError(f"{path} has neither [environment] docker_image nor environment/Dockerfile")
    if workdir and not workdir.startswith("/"):
        raise environment.refuse("workdir", f"= {workdir!r} must begin with /")
    spec = ContainerSpec(
        reason,
        path / "environment",
        image,
        workdir,
        user=_text(tables["agent"], "user", _USER),
        verifier_user=_text(verifier, "user", _USER),
        variables=_variables(environment),
        verifier_variables=_variables(verifier),
        network=_network(environment.data),
        cpus=environment.number("cpus", most=_MOST),
        build_seconds=environment.number("build_timeout_sec", most=_MOST) or ContainerSpec.build_seconds,
    )
    limits = replace(
        _CONTAINER_LIMITS,
        memory=_bytes(environment, "memory") or _CONTAINER_LIMITS.memory,
        disk=_bytes(environment, "storage") or _CONTAINER_LIMITS.disk,
    )
    check = replace(task.check, command="tests/test.sh")
    return replace(task, check=check, container=spec, limits=limits)


def _network(environment: Mapping[str, Any]) -> bool:
    """Only where the task says so: Harbor's default is the public network."""
    return bool(environment.get("network_mode", "public" if environment.get("allow_internet") else "") == "public")


def _bytes(table: TaskTable, key: str) -> int:
    """A size in megabytes, or in the old form, such as "2G"; zero where neither is given."""
    if size := table.number(f"{key}_mb", most=_MOST):
        return int(size * _SIZES["M"])
    value = str(table.data.get(key, "0M")).strip().upper()
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?[KMG]", value):
        raise table.refuse(key, f'= {table.data[key]!r} must be a size such as "2G"')
    return int(float(value[:-1]) * _SIZES[value[-1]])


def _text(table: TaskTable, key: str, form: re.Pattern[str] = re.compile(r"[^\0\n]+")) -> str:
    """Nothing where it is not given; a number, as of a user, is a text too."""
    value = table.data.get(key)
    return replace(table, data={key: str(value)} if type(value) is int else table.data).text(key, "", form)


def _variables(table: TaskTable) -> dict[str, str]:
    """Variables of the container; none may come from this machine, where they may be keys."""
    variables = table.table("env")
    for name, value in variables.data.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not isinstance(value, str) or "\0" in value:
            raise variables.refuse(name, "must be a name with a text")
        if "${" in value:
            raise variables.refuse(
                name,
                f"= {value!r} takes a variable of this machine, which no agent may see here: write its value, or use"
                f" Harbor: {WITH_HARBOR}",
            )
    return dict(variables.data)


def _instructions(path: Path) -> Iterator[tuple[str, str]]:
    file = path / "environment" / "Dockerfile"
    text = read_small(file).replace("\\\n", " ") if file.is_file() else ""
    for line in filter(None, (line.strip() for line in text.splitlines())):
        if not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word.upper(), rest.strip()


def _target(place: str, rest: str) -> PurePosixPath:
    """Where a COPY puts things."""
    return PurePosixPath(place) / rest.split()[-1]


def _copies(path: Path) -> Iterator[tuple[str, str]]:
    """What the Dockerfile copies, and to where in the workspace."""
    place = MOUNT
    for word, rest in _instructions(path):
        if word == "WORKDIR":
            place = rest
        if word == "COPY":
            *sources, target = rest.split()
            whole = _target(place, rest)
            for source in sources:
                directory = (path / "environment" / source).is_dir()
                inside = whole if directory or not target.endswith(("/", ".")) else whole / PurePosixPath(source).name
                yield f"environment/{source}", str(inside.relative_to(place))
