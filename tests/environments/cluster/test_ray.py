"""Environments on a Ray cluster of three nodes on this machine: `make test-ray`."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random

import cluster_suites
import pytest
from cluster_suites import SICK, CountingBurglar, safes_config
from cluster_support import RayNodes, cluster_of_nodes
from needs import needs, require

from recompact.adaptation.adapt import adapt
from recompact.engine.assembly import open_study
from recompact.engine.config_parser import parse_config
from recompact.environments.cluster.settings import ClusterSettings
from recompact.environments.cluster.suite import ClusterSuite
from recompact.environments.hosted import HostedSuite
from recompact.environments.own_directory import own_directory
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request
from recompact.values.trajectory import Action

require("ray")
pytestmark = [pytest.mark.slow, needs("linux")]

SPEC = f"{Path(cluster_suites.__file__)}:Safes"
OPEN = Action("unlock", {"house": 1, "code": "zx-4748"})
KILLS = int(os.environ.get("RECOMPACT_TEST_KILLS", "20"))  # fewer on a machine that is too busy
POCKET = """
[suite]
use = "pocket"
host = {host}
limit = 6
[compressor]
budget = 1200
[run]
concurrency = 6
[adapt]
method = "pair"
candidates = 2
fit_tasks = 2
[verify]
allocation = "uniform:1"
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with cluster_of_nodes(cpus=2) as running:
        yield running


def on(nodes: RayNodes) -> str:
    return f'[cluster]\naddress = "{nodes.address}"\n'


async def adapted(path: Path, text: str, model: ChatModel | None = None) -> tuple[str, str]:
    """The digest of a study from collection to selection, and where its hosts were."""
    config = parse_config(text, path.with_suffix(".toml"))
    async with open_study(config, path, models={"burglar": model} if model else {}) as study:
        adaptation = await adapt(study)
        endings = [(row["task"], row["ending"]) for row in study.store._rows("SELECT task, ending FROM trajectories")]
        assert adaptation.candidates, endings
        return study.store.digest(), getattr(study.episodes, "whereabouts", str)()


async def test_pocket_is_the_same_as_in_process(nodes: RayNodes, tmp_path: Path) -> None:
    here, _ = await adapted(tmp_path / "here.db", POCKET.format(host="false"))
    there, where = await adapted(tmp_path / "there.db", POCKET.format(host='"ray"') + on(nodes))
    assert there == here
    assert where.count("/") == 3  # all nodes had hosts


async def test_a_directory_suite_is_the_same_as_in_process(nodes: RayNodes, tmp_path: Path) -> None:
    calm, far = CountingBurglar(), CountingBurglar()
    here, _ = await adapted(tmp_path / "here.db", safes_config(tmp_path, "false"), calm)
    there, _ = await adapted(tmp_path / "there.db", safes_config(tmp_path, '"ray"', on(nodes)), far)
    assert there == here
    assert sorted(map(str, far.seeds)) == sorted(map(str, calm.seeds))


async def test_a_node_on_which_no_host_comes_up_breaks_no_trajectory(nodes: RayNodes, tmp_path: Path) -> None:
    calm, far = CountingBurglar(), CountingBurglar()
    here, _ = await adapted(tmp_path / "here.db", safes_config(tmp_path, "false"), calm)
    await nodes.kill(0, **{SICK: "1"})
    try:
        there = safes_config(tmp_path, '"ray"', on(nodes)).replace('host = "ray"', f'host = "ray"\nenv = ["{SICK}"]')
        digest, where = await adapted(tmp_path / "there.db", there, far)
    finally:
        await nodes.kill(0)
    assert digest == here
    assert "begun again elsewhere" in where
    assert sorted(map(str, far.seeds)) == sorted(map(str, calm.seeds))


class SlowBurglar(CountingBurglar):
    """A paid model that takes its time while nodes die, so that they die in the middle of the work."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = True

    async def reply(self, request: Request) -> Reply:
        seconds = 2.0 + 2.0 * Random(request.decoding.seed).random()
        for _ in range(int(seconds / 0.1)):
            if self.slow:
                await asyncio.sleep(0.1)
        return await super().reply(request)


async def test_nodes_die_at_random_moments(nodes: RayNodes, tmp_path: Path) -> None:
    calm, slow = CountingBurglar(), SlowBurglar()
    here, _ = await adapted(tmp_path / "here.db", safes_config(tmp_path, "false"), calm)
    chance = Random("nodes")
    work = asyncio.create_task(adapted(tmp_path / "there.db", safes_config(tmp_path, '"ray"', on(nodes)), slow))
    while not slow.seeds and not work.done():
        await asyncio.sleep(0.1)
    for kill in range(KILLS):
        await asyncio.sleep(chance.uniform(0.0, 3.0))
        assert not work.done(), f"the work was over after {kill} kills"
        await nodes.kill(chance.randrange(len(nodes.workers)))
    slow.slow = False
    there, where = await work
    assert there == here
    assert "begun again elsewhere" in where
    print(f"\n{where}; {len(slow.seeds)} calls", file=sys.stderr)
    assert sorted(map(str, slow.seeds)) == sorted(map(str, calm.seeds))  # the same calls, each of them once
    assert len(set(slow.seeds)) == len(slow.seeds)


async def test_a_large_snapshot_reaches_each_node_once(nodes: RayNodes) -> None:
    ray = importlib.import_module("ray")
    near = HostedSuite(SPEC, {"ballast": 3_000_000}, timeout=60)
    suite = ClusterSuite(near, ClusterSettings(nodes.address), most=6)
    (task, *_) = await suite.tasks("train")
    first = suite.episode(task)
    await first.start()
    await first.step(OPEN)
    snapshot = await first.snapshot()
    assert snapshot is not None
    episodes = [suite.episode(task) for _ in range(5)]
    for episode in episodes:
        await episode.start()
        await episode.restore(snapshot)
        assert (await episode.score()).success
    reference = suite.connection.send(snapshot.data)
    assert suite.connection.send(bytes(snapshot.data)) is reference  # by its content
    places = ray.experimental.get_object_locations([reference])[reference]
    assert places["object_size"] > 3_000_000
    assert len(places["node_ids"]) == 4  # the driver's and three others, though it was used five times
    for episode in (first, *episodes):
        await episode.close()
    await suite.aclose()


def marked(mark: str) -> list[str]:
    """Processes that inherited a variable from a command that a test started."""
    lines = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (place / "environ").read_bytes():
                lines.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
        except OSError:
            continue
    return lines


async def command(
    *arguments: str, mark: str, until: str = "", end: signal.Signals = signal.SIGINT
) -> tuple[int | None, str]:
    """A command to its end, or ended once this stands in its output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "recompact", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "RECOMPACT_TEST_MARK": mark},
    )
    assert process.stdout is not None
    output = ""
    while line := (await process.stdout.readline()).decode():
        output += line
        if until and until in line:
            os.kill(process.pid, end)
            until = ""
    return await process.wait(), output


def files_of_ours() -> set[Path]:
    return set(Path("/tmp").glob("recompact-hosts-*/ray"))


async def nothing_left(mark: str) -> None:
    """A minute and more, since Ray's own processes look only now and then whether those that they serve are there."""
    for _ in range(600):
        if not (left := marked(mark)):
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"still there: {left}")


async def test_a_cluster_of_our_own_ends_with_the_command(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    before = files_of_ours()
    config = tmp_path / "study.toml"
    config.write_text('[suite]\nuse = "pocket"\nhost = "ray"\nlimit = 2\n[run]\nconcurrency = 2\n')
    code, output = await command("check", str(config), "--connect", mark=mark)
    assert code == 0, output
    assert "cluster: 1 node, " in output
    assert re.search(r"node .* tasks", output)
    await nothing_left(mark)
    assert files_of_ours() <= before


async def test_actors_leave_no_directory_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are killed, so that nothing is done at their exit."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    config = tmp_path / "study.toml"
    config.write_text('[suite]\nuse = "pocket"\nhost = "ray"\nlimit = 2\n[cluster]\ncpus = 0.5\n')
    code, output = await command("collect", str(config), mark=uuid.uuid4().hex)
    assert code == 0, output
    assert list(temporary.glob("recompact-*")) == []


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
async def test_a_cluster_of_our_own_ends_with_a_command_that_is_stopped(tmp_path: Path, end: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    before = files_of_ours()
    config = tmp_path / "slow.toml"
    config.write_text(safes_config(tmp_path, '"ray"', seconds=5))
    ended, output = await command("collect", str(config), mark=mark, until="hosts: ", end=end)
    await nothing_left(mark)
    if end is signal.SIGINT:
        assert ended == 130, output
        assert "stopped." in output
    else:
        assert files_of_ours() > before
        run = await asyncio.create_subprocess_exec(
            sys.executable, "-c", f"import {own_directory.__module__} as o; o.own_directory()"
        )
        assert await run.wait() == 0  # as the next command does
    assert files_of_ours() <= before
