"""What is asked of podman or docker, told by a stand-in that writes down how it is called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.shell import CommandLimits
from recompact.suites.workspace.container import Container, ContainerSpec, Engine

LIMITS = CommandLimits(seconds=2.0, memory=128 * 1024**2, processes=99, disk=1024**2, output=1000)
STAND_IN = """#!/bin/sh
cd {place}
echo "$@" >> calls
env | cut -d= -f1 >> variables
case "$1 $2" in
"ps --quiet") test ! -e broken || {{ echo "no daemon" >&2; exit 1; }} ;;
"image inspect") test -e image ;;
"build --quiet"|"pull --quiet") touch image ;;
"inspect --type") cat size ;;
run*) test ! -e bad || {{ echo "no runtime" >&2; exit 126; }}; pwd; cat > /dev/null; touch ended ;;
exec*) while test "$1" != sh; do shift; done; exec "$@" ;;
esac
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "size").write_text("0\n")
    program = tmp_path / "place" / "stand-in"
    program.write_text(STAND_IN.format(place=tmp_path / "place"))
    program.chmod(0o755)
    context = tmp_path / "task" / "environment"
    context.mkdir(parents=True)
    (context / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "task" / "task.toml").touch()
    return tmp_path / "place"


def engine_at(place: Path) -> Engine:
    engine, problem = Engine.of_this_machine(f"{place / 'stand-in'}")
    assert engine is not None, problem
    return engine


def spec_at(place: Path, **settings: object) -> ContainerSpec:
    return ContainerSpec("a test", place.parent / "task" / "environment", **settings)  # type: ignore[arg-type]


def calls(place: Path) -> list[str]:
    return (place / "calls").read_text().splitlines()


def test_a_container_gets_its_limits_and_none_of_our_variables(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("https_proxy", "http://name:word@proxy")
    spec = spec_at(place, image="a/b:1", cpus=1.5, workdir="/app", variables={"A": "b"})
    container = Container(engine_at(place), spec, LIMITS)
    (run,) = [call for call in calls(place) if call.startswith("run ")]
    for part in ("--network none", "--memory 134217728", "--pids-limit 99", "--cpus 1.5", "--env A=b", "--rm"):
        assert part in run
    assert container.place == str(place)
    assert "OPENAI_API_KEY" not in (place / "variables").read_text().split()
    assert (place / "variables").read_text().split().count("https_proxy") == 1  # to pull
    container.close()
    assert (place / "ended").exists()


def test_an_image_is_built_once_for_each_content(place: Path) -> None:
    engine, spec = engine_at(place), spec_at(place)
    first = engine.image(spec)
    assert engine.image(spec) == first
    assert sum(call.startswith("build ") for call in calls(place)) == 1
    (spec.context / "Dockerfile").write_text("FROM other\n")
    assert engine.image(spec) != first


def test_commands_are_bounded(place: Path) -> None:
    container = Container(engine_at(place), spec_at(place), LIMITS)
    result = container.run("echo one; echo two >&2; exit 3", 20)
    assert (result.output, result.code, result.stopped) == ("one\ntwo\n", 3, "")
    assert "1,000 bytes" in container.run("yes", 20).stopped
    assert "0.5 s" in container.run("sleep 20", 0.5).stopped
    assert container.run("echo \ud800", 20).output == "?\n"
    container.write("deep/a", b"\xff\0")
    assert container.read("deep/a") == b"\xff\0"
    (place / "size").write_text("2000000\n")
    assert "1,048,576" in container.excess()
    assert "disk" in container.run("sleep 20", 20).stopped
    container.close()


def test_what_does_not_work_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_at(place)
    (place / "bad").touch()
    with pytest.raises(EnvironmentFailed, match=r"no runtime.*container"):
        Container(engine, spec_at(place), LIMITS)
    (place / "broken").touch()
    os.link(place / "stand-in", place / "docker")
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(place / name) if name == "docker" else None)
    found, problem = Engine.of_this_machine()
    assert found is None
    assert problem == "podman is not installed and docker does not work: no daemon"
