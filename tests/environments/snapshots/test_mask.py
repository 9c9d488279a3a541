"""What a mask looks past, and what a replay says when there is more."""

from __future__ import annotations

import pytest
from snapshot_suites import TASK, OneTask, do

from recompact.environments.inprocess import InProcessEpisode, InProcessSuite
from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.snapshots import VOLATILE, excerpts, log_of, mask_of, masker, record
from recompact.values.trajectory import Action, Snapshot


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 2020-05-01 10:00:00 sharp", "at 2024-12-31 23:59:59 sharp"),
        ("2020-05-01T10:00:00.123Z", "2020-05-02T10:00:00.456+02:00"),
        ("DTSTAMP:20200501T100000Z", "DTSTAMP:20210501T110000Z"),
        ("-rw-r--r-- 1 u u 5 May  1 10:00 a.txt", "-rw-r--r-- 1 u u 5 Jun 12  2019 a.txt"),
        ("commit 9f86d081884c7d659a2feaa0c55ad015", "commit 60303ae22b998861bce3b28f33eec1be"),
        ("<object at 0x7f24b55a6b90>", "<object at 0x7f24b46b2710>"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 123e4567-e89b-12d3-a456-4266141740ff"),
        ("Inode: 1234567 Links: 1", "Inode: 7654 Links: 1"),
        (" 922437 a.txt\n 922438 b.txt", " 922401 a.txt\n 1922402 b.txt"),
        ("started, pid=4711", "started, pid=12"),
    ],
)
def test_volatile_parts_are_masked(one: str, other: str) -> None:
    mask = masker(VOLATILE)
    assert mask is not None
    assert mask(one) == mask(other)


@pytest.mark.parametrize(("one", "other"), [("paid $20", "paid $21"), ("token pay-7f3a9c21", "token pay-7f3a9c22")])
def test_what_means_something_is_not(one: str, other: str) -> None:
    mask = masker(VOLATILE)
    assert mask is not None
    assert mask(one) != mask(other)


def test_a_suite_may_give_the_mask() -> None:
    class Masked:
        mask = ("[0-9]+",)

    mask = mask_of(object(), Masked())
    assert mask is not None
    assert mask("a 1") == mask("a 22")
    assert mask_of(object()) is None


async def test_a_replay_that_differs_names_the_action_and_shows_both_texts() -> None:
    original = InProcessSuite(OneTask("OnlyReplay")).episode(TASK)
    await original.start()
    await original.step(do("a"))
    log = log_of(await original.snapshot() or Snapshot("", b""))
    log.append((do("b"), "b: something else"))
    copy = InProcessSuite(OneTask("OnlyReplay")).episode(TASK)
    await copy.start()
    with pytest.raises(EnvironmentFailed, match=r"action 2 \(do\): .*'b: something else', .*'b"):
        await copy.restore(record(log))


async def test_only_a_fresh_episode_can_be_replayed() -> None:
    episode = InProcessSuite(OneTask("OnlyReplay")).episode(TASK)
    await episode.start()
    await episode.step(do())
    snapshot = await episode.snapshot()
    assert snapshot is not None
    with pytest.raises(EnvironmentFailed, match="fresh"):
        await episode.restore(snapshot)


async def test_what_an_environment_raises_is_its_own_episodes_failure() -> None:
    class Broken:
        snapshots = "directory"

        def close(self) -> None: ...

    episode = InProcessEpisode(Broken(), "t")  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFailed, match="`directory`"):
        await episode.snapshot()
    with pytest.raises(EnvironmentFailed, match=r"'other' .*put back"):
        await episode.restore(Snapshot("other", b""))
    Broken.snapshots = "magic"
    with pytest.raises(EnvironmentFailed, match="state, directory, replay"):
        InProcessEpisode(Broken(), "t")  # type: ignore[arg-type]


def test_excerpts_begin_shortly_before_the_difference() -> None:
    one, other = excerpts("x" * 500 + "yes", "x" * 500 + "no")
    assert one == "…" + "x" * 20 + "yes"
    assert other == "…" + "x" * 20 + "no"


def test_a_log_survives_odd_texts() -> None:
    log = [(Action("a", {"x": "\ud800"}), "text \udfff ü"), (Action("", text="hello"), "")]
    assert log_of(record(log)) == log
