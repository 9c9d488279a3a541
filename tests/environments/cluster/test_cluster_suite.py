"""Episodes on a cluster that needs no Ray: the same verbs, the same digest, whichever nodes die."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import cluster_suites
import pytest
from cluster_suites import CountingBurglar, safes_config
from cluster_support import NearCluster
from sentences import numbers_in

from recompact.adaptation.adapt import adapt
from recompact.engine.assembly import open_study
from recompact.engine.config_parser import parse_config
from recompact.environments.cluster import pool
from recompact.environments.cluster.settings import ClusterSettings
from recompact.environments.cluster.suite import ClusterSuite
from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import EnvironmentFailed, EpisodeLost, Strategy
from recompact.errors import InputError
from recompact.values.chat import Reply, Request, Usage, assistant
from recompact.values.trajectory import Action

SPEC = f"{Path(cluster_suites.__file__)}:Safes"
VISITS = [Action("visit", {"house": 1, "desk": desk}) for desk in range(1, 5)]
OPEN = Action("unlock", {"house": 1, "code": "zx-4748"})


def clustered(cluster: NearCluster, most: int = 4, per_actor: int = 1, **options: object) -> ClusterSuite:
    near = HostedSuite(SPEC, options, timeout=20)
    return ClusterSuite(near, ClusterSettings(per_actor=per_actor), most=most, connection=cast(Any, cluster))


async def test_the_verbs_work_and_an_environment_asks_its_model() -> None:
    suite = clustered(NearCluster(), asks=True)
    (task, *_) = await suite.tasks("train")
    questions: list[str] = []

    async def ask(role: str, request: Request) -> Reply:
        questions.append(f"{role}: {request.messages[0].content}")
        if len(questions) == 2:
            raise InputError("there is no such role")
        return Reply(assistant("zx-4748"), Usage(input=3, output=2, calls=1))

    episode = suite.episode(task, ask)
    opening = await episode.start()
    assert [tool.name for tool in opening.tools][:2] == ["visit", "unlock"]
    assert (await episode.step(Action("ask"))).text == "zx-4748"
    assert episode.usage["oracle"].calls == 1
    with pytest.raises(EnvironmentFailed, match="role"):
        await episode.step(Action("ask"))
    assert (await episode.step(OPEN)).text == "It opens."
    assert (await episode.score()).success
    with pytest.raises(EnvironmentFailed, match="step raised RuntimeError: this environment is broken"):
        await episode.step(Action("fail"))
    assert (await episode.step(VISITS[0])).text.startswith("Desk 1")  # it failed that once, and is there still
    assert suite.whereabouts() == "hosts: a 1"
    await episode.close()
    assert questions == ["oracle: Which code?"] * 2
    await suite.aclose()


async def test_a_question_that_cannot_be_answered_ends_the_verb_and_nothing_hangs() -> None:
    suite = clustered(NearCluster(), most=1, asks=True)
    (task, *_) = await suite.tasks("train")

    async def ask(role: str, request: Request) -> Reply:
        raise KeyError("the ceiling, for example")

    episode = suite.episode(task, ask)
    await episode.start()
    with pytest.raises(KeyError):
        await episode.step(Action("ask"))
    await asyncio.wait_for(episode.close(), 10)
    again = suite.episode(task)
    await asyncio.wait_for(again.start(), 10)  # its place was given back
    await again.close()
    await suite.aclose()


@pytest.mark.parametrize("snapshots", ["state", "directory", "replay"])
async def test_environments_come_back_as_they_were_in_another_actor(snapshots: Strategy) -> None:
    cluster = NearCluster()
    suite = clustered(cluster, snapshots=snapshots, ballast=300_000)
    (task, *_) = await suite.tasks("train")
    first, second = suite.episode(task), suite.episode(task)
    await first.start()
    await first.step(OPEN)
    snapshot = await first.snapshot()
    assert snapshot is not None
    assert snapshot.strategy == snapshots
    await second.start()
    assert not (await second.score()).success
    await second.restore(snapshot)
    assert (await second.score()).success
    assert suite.whereabouts() == "hosts: a 1, b 1"
    assert cluster.sent == [snapshot.data]  # by reference where it is large
    for episode in (first, second):
        await episode.close()
    await suite.aclose()


async def test_an_actor_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from recompact.environments.cluster import suite as suites

    monkeypatch.setattr(suites, "_GRACE", 0.2)
    cluster = NearCluster()
    suite = clustered(cluster, seconds=30)
    suite = ClusterSuite(replace(suite.local, timeout=0.3), suite.settings, connection=cast(Any, cluster))
    suite.hosted = replace(
        suite.hosted, settings=replace(suite.hosted.settings, timeout=60)
    )  # no kill timer over there
    (task, *_) = await clustered(cluster).tasks("train")
    episode = suite.episode(task)
    suite.local = replace(suite.local, timeout=20)
    await episode.start()
    suite.local = replace(suite.local, timeout=0.3)
    with pytest.raises(EpisodeLost, match="task safe-1 on a: node a is gone"):
        await episode.step(VISITS[0])
    await asyncio.wait_for(episode.close(), 10)
    await suite.aclose()


async def test_the_survey_says_what_there_is_and_where_the_suite_does_not_load(tmp_path: Path) -> None:
    cluster = NearCluster()
    suite = clustered(cluster)
    notes, problems = await suite.survey("train")
    assert numbers_in(notes[0]) == ["3", "12", "3.0"]
    for name, note in zip("abc", notes[1:], strict=True):
        assert note.startswith(f"node {name}: ")
        assert numbers_in(note.partition(";")[0]) == ["4", "6"]
    assert not problems
    cluster.refusals = [InputError("recompact 0.0 is installed on a")]
    missing = replace(suite.hosted.settings, spec=f"{tmp_path}/none.py:Suite")
    suite.hosted = replace(suite.hosted, settings=missing)
    notes, problems = await suite.survey("train")
    assert len(notes) == 1
    assert problems[0].startswith("[cluster] node a: recompact 0.0")
    assert "node b" in problems[1]
    assert "none.py" in problems[1]
    greedy = ClusterSuite(suite.local, ClusterSettings(cpus=5), connection=cast(Any, cluster))
    notes, problems = await greedy.survey("train")
    assert notes[1].startswith("node a: 4 CPUs")
    assert [problem.startswith("[cluster] cpus: ") for problem in problems] == [True]
    assert numbers_in(problems[0]) == ["5"]
    await suite.aclose()


async def digest_of(path: Path, text: str, model: CountingBurglar, cluster: NearCluster | None, kills: int = 0) -> str:
    """Collect, verify and adapt, while nodes are killed at random moments."""
    config = parse_config(text, path.with_suffix(".toml"))
    suite = None
    if cluster is not None:
        near = HostedSuite(SPEC, config.suite.options, timeout=60)
        suite = ClusterSuite(near, config.cluster, most=6, connection=cast(Any, cluster))
    async with open_study(config, path, models={"burglar": model}, suite=suite) as study:

        async def disturb() -> None:
            chance = Random(path.name)
            for _ in range(kills):
                await asyncio.sleep(chance.uniform(0.05, 0.3))
                assert cluster is not None
                cluster.kill_node(chance.choice(cluster.names))

        disturbance = asyncio.create_task(disturb())
        adapted = await adapt(study)
        assert adapted.selection is not None
        digest = study.store.digest()
        assert disturbance.done() or not kills, "the work was over before all nodes were killed"
        await disturbance
        if suite is not None:
            await suite.aclose()
        return digest


@pytest.mark.parametrize(
    ("snapshots", "kills"),
    [
        ("directory", 2),
        pytest.param("directory", 4, marks=pytest.mark.slow),
        pytest.param("directory", 20, marks=pytest.mark.slow),
        pytest.param("replay", 20, marks=pytest.mark.slow),
    ],
)
async def test_nodes_die_and_the_digest_is_that_of_an_undisturbed_run(
    tmp_path: Path, snapshots: Strategy, kills: int
) -> None:
    calm = CountingBurglar()
    near = safes_config(tmp_path, "true", snapshots=snapshots)
    whole = await digest_of(tmp_path / "near.db", near, calm, None)
    disturbed = CountingBurglar(seconds=0.05)
    cluster = NearCluster()
    assert await digest_of(tmp_path / "killed.db", near, disturbed, cluster, kills=kills) == whole
    assert sorted(map(str, disturbed.seeds)) == sorted(map(str, calm.seeds))  # the same calls, each of them once
    assert len(set(disturbed.seeds)) == len(disturbed.seeds)
    assert cluster.started > 6 or kills < 20  # a few kills may all hit nodes on which nothing runs


@pytest.mark.slow
async def test_a_node_on_which_no_host_comes_up_breaks_no_trajectory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_PAUSE", 0.1)
    near = safes_config(tmp_path, "true")
    whole = await digest_of(tmp_path / "near.db", near, CountingBurglar(), None)
    cluster = NearCluster()
    cluster.sick.add("a")
    burglar = CountingBurglar()
    assert await digest_of(tmp_path / "sick.db", near, burglar, cluster) == whole
    assert any(actor.node == "a" for actor in cluster.actors)
    assert len(set(burglar.seeds)) == len(burglar.seeds)


async def test_where_no_host_comes_up_anywhere_the_run_ends_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_PAUSE", 0.1)
    cluster = NearCluster()
    cluster.sick |= set(cluster.names)
    with pytest.raises(InputError, match=r"5 times in a row: .*/no/such/python"):
        await digest_of(tmp_path / "sick.db", safes_config(tmp_path, "true"), CountingBurglar(), cluster)
