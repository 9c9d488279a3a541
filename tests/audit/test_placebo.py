"""Placebo points and the contrast with them: no harm where there is none, and harm where it is planted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from audit_planting import CWD, Compact, PlantedCall, Said, Script, claude_code, read, shell
from hypothesis import given, strategies as st

from recompact.audit.auditing import audit_transcripts
from recompact.audit.scoring import LEAST, Assessment, assess, mean_of_sessions
from recompact.audit.visibility import intervals, visible_numbers
from recompact.harnesses.transcripts.registry import read_transcripts


def session(rng: random.Random, forgets: bool) -> Script:
    """Steady work on few files, with a compaction in the middle after which the agent forgets, or does not."""
    files = {f"{CWD}/m{n}.py": [f"x_{n}_{line} = compute_it({rng.random()})" for line in range(120)] for n in range(60)}
    paths = list(files)

    def work(count: int, first: int) -> list[PlantedCall]:
        made = []
        for place in range(count):
            path = paths[(first + place // 3) % 60]
            if place % 3 == 2:
                body = {"path": path, "oldText": "a", "newText": str(rng.random())}
                made.append(PlantedCall("edit", body, f"Edited {path}"))
            elif rng.random() < 0.1:
                made.append(read(paths[rng.randrange(first, first + place // 3 + 1) % 60], 1, files[path]))
            else:
                made.append(read(path, 1 + 40 * (place % 3), files[path]))
        return made

    before = work(110, 0)
    again = [read(paths[n], 1, files[paths[n]]) for n in range(20, 34)] if forgets else []
    return [Said("Go."), *before, Compact("Summary.", 0), *again, *work(90, 38)[rng.randrange(3) :]]


def assessed(tmp_path: Path, forgets: bool) -> Assessment:
    for seed in range(8):
        lines, _ = claude_code(session(random.Random(seed), forgets))
        lines = [line.replace('"uuid": "u', f'"uuid": "{seed}-u') for line in lines]
        (tmp_path / f"{seed}.jsonl").write_text("\n".join(lines))
    return assess(audit_transcripts(read_transcripts([tmp_path])))


def test_planted_forgetting_is_shown_as_harm(tmp_path: Path) -> None:
    contrast = assessed(tmp_path, forgets=True).contrast("refetched")
    assert contrast is not None
    assert contrast.difference.sessions == 8
    assert contrast.separates


def test_a_compaction_without_loss_is_not(tmp_path: Path) -> None:
    result = assessed(tmp_path, forgets=False)
    assert result.placebo_points >= 8 * 5
    assert [each.measure.name for each in result.contrasts if each.separates] == []


def test_the_score_is_about_zero_where_nothing_happened_and_high_where_it_did(tmp_path: Path) -> None:
    calm, bad = tmp_path / "calm", tmp_path / "bad"
    calm.mkdir()
    bad.mkdir()
    without = [each.score or 0 for each in assessed(calm, forgets=False).ranked]
    with_loss = [each.score or 0 for each in assessed(bad, forgets=True).ranked]
    assert max(without) < min(with_loss)


def test_one_session_is_no_interval(tmp_path: Path) -> None:
    lines, _ = claude_code(session(random.Random(1), forgets=True))
    path = tmp_path / "one.jsonl"
    path.write_text("\n".join(lines))
    contrast = assess(audit_transcripts(read_transcripts([path]))).contrast("refetched")
    assert contrast is not None
    assert contrast.difference.low is None
    assert not contrast.separates


def test_everything_that_is_told_of_a_compaction_is_from_one_window(tmp_path: Path) -> None:
    """A session that compacts every thirty calls is measured in windows of ten, in which eight calls forget."""
    files = {
        f"{CWD}/m{n}.py": [f"x_{n}_{line} = compute_the_value({n * line})" for line in range(120)] for n in range(16)
    }
    work: Script = [read(path, 1, lines) for path, lines in files.items()]
    rest: Script = [shell(f"ls d{n}", f"plain {n}") for n in range(16)]
    script: Script = []
    for _ in range(4):
        script += [*rest, *work, Compact("Summary.", 0), *rest[:2], *work]
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    assert session.scheme == "narrow"
    found = session.compactions[0]
    assert found.following > 20
    per_ten = sum(refetch.chars for refetch in found.refetches if refetch.reading)
    assert found.points["narrow"].values["refetched"] == per_ten > 0
    assert len(found.refetches) == len(found.rereads) == 8
    assert {need.position for need in found.needs} <= set(range(1, 11))
    assert len(found.scene.after) == 10


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_intervals_cover_the_mean(shift: float) -> None:
    rng = random.Random(5)
    covered = 0
    for _ in range(60):
        made = mean_of_sessions([shift + rng.gauss(0, 1) for _ in range(20)])
        assert made is not None
        assert made.low is not None
        assert made.high is not None
        covered += made.low <= shift <= made.high
    assert covered >= 48  # 0.95 asked for; the percentile bootstrap of 20 values gives a little less


def test_few_sessions_have_no_interval() -> None:
    made = mean_of_sessions([1.0] * (LEAST - 1))
    assert made is not None
    assert made.low is None


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_visibility_is_what_sets_say(numbers: set[int], gone: set[int], cut: int) -> None:
    visible = visible_numbers(numbers)
    for n in range(62):
        assert visible.holds(n) == (n in numbers)
        assert visible.without(gone).holds(n) == (n in numbers - gone)
        assert visible.until(cut).holds(n) == (n in numbers and n < cut)
        assert visible.since(cut).holds(n) == (n in numbers and n >= cut)
        assert visible.onwards(cut).holds(n) == (n >= cut or n in numbers)
    assert intervals(()).holds(0) is False
