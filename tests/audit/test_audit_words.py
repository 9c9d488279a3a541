"""What an audit says about a compaction is so: the turn it fell in, the calls around it, why it has no score."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_planting import Compact, PlantedCall, Said, Script, claude_code, codex, shell
from sentences import numbers_in

from recompact.audit.auditing import audit_transcripts
from recompact.audit.diagnosis import Draft
from recompact.audit.scoring import Assessment, RankedCompaction, assess
from recompact.engine.config import AdaptConfig
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.audit import words
from recompact.presentation.audit.page import render
from recompact.presentation.audit.plain import plain
from recompact.values.template import default_template

PLAN = PlantedCall("plan", {"todos": []}, "ok")
EDIT = PlantedCall("edit", {"path": "a.py", "oldText": "a", "newText": "b"}, "Edited")


def assessed(script: Script, tmp_path: Path) -> Assessment:
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    return assess(audit_transcripts(read_transcripts([tmp_path])))


def ranked(script: Script, tmp_path: Path) -> list[RankedCompaction]:
    """The compactions of a session, in its order."""
    return sorted(assessed(script, tmp_path).ranked, key=lambda each: each.compaction.line)


def shells(count: int) -> Script:
    return [shell(f"echo {n}", f"plain {n}") for n in range(count)]


@pytest.mark.parametrize(
    ("before", "after", "starts", "said"),
    [
        ([Said("Now the second.")], shells(6), True, "at the start of a user turn"),
        ([], [Said("Go on."), *shells(6)], True, "at the start of a user turn"),
        ([Said("Now the second."), *shells(1)], shells(6), False, "in the middle of a turn"),
        ([Said("Now the second.")], [], None, ""),
    ],
)
def test_the_turn_that_a_compaction_fell_in(
    before: Script, after: Script, starts: bool | None, said: str, tmp_path: Path
) -> None:
    (each,) = ranked([Said("Go."), *shells(3), *before, Compact("Summary.", 0), *after], tmp_path)
    assert each.compaction.starts_turn is starts
    assert each.point is None or each.point.starts_turn is starts
    first = next(iter(words.details(each)))
    assert said in first
    assert ("turn" in first) is bool(said)


@pytest.mark.parametrize(
    ("calls", "since", "said"),
    [
        (shells(7), None, "It happened in the middle of a turn, with no edit before it in the file."),
        ([*shells(3), EDIT, *shells(4)], 4, "It happened in the middle of a turn, 4 calls after the last edit."),
        ([*shells(3), EDIT], 0, "It happened in the middle of a turn, right after an edit."),
    ],
)
def test_calls_since_the_last_edit(calls: Script, since: int | None, said: str, tmp_path: Path) -> None:
    (each,) = ranked([*calls, Compact("Summary.", 0), *shells(2)], tmp_path)
    assert each.compaction.since_edit == since
    assert said in next(iter(words.details(each)))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ([Compact("One.", 0), *shells(6)], ["no call before it is in the file"]),
        ([*shells(3), Compact("One.", 0)], ["no call after it"]),
        ([*shells(3), Compact("One.", 0), *shells(2)], ["only 2 calls after it"]),
        ([*shells(3), Compact("One.", 0), PLAN], ["the only call after it read, ran or changed nothing"]),
        ([*shells(3), Compact("One.", 0), *[PLAN] * 7], ["none of the 7 calls after it read, ran or changed anything"]),
        (
            [*shells(3), Compact("One.", 0), *shells(2), *[PLAN] * 18, *shells(20)],
            ["only 2 of the first 10 calls after it read, ran or changed anything"],
        ),
        (
            [PLAN, PLAN, Compact("One.", 0), *shells(6)],
            ["it dropped 2 calls, none that read, ran or changed anything"],
        ),
        (
            [*shells(12), Compact("One.", 0), Compact("Two.", 0), *shells(6)],
            ["no call after it", "no call since the last compaction"],
        ),
        ([*shells(3), Compact("One.", 0), *shells(6)], ["no placebo points to compare it with"]),
    ],
)
def test_why_a_compaction_has_no_score(script: Script, why: list[str], tmp_path: Path) -> None:
    assert [words.reason_unscored(each) for each in ranked(script, tmp_path)] == why


def test_all_calls_are_counted_where_they_are_shown(tmp_path: Path) -> None:
    script: Script = [*shells(3), PLAN, PLAN, Compact("One.", 0), *shells(6)]
    told = plain(assessed(script, tmp_path))["compactions"][0]
    assert (told["dropped_calls"], told["kept_calls"]) == (5, 0)
    (each,) = ranked(script, tmp_path)
    assert numbers_in(next(iter(words.details(each))))[:2] == ["5", "0"]
    assert each.compaction.dropped_calls == 3


@pytest.mark.parametrize("summary", ["We looked.", ""])
def test_what_a_summary_lacks_is_known_only_if_it_can_be_read(summary: str, tmp_path: Path) -> None:
    read = shell("./names.sh", "def fetch_the_parcel(argument): return None")
    script: Script = [read, Compact(summary, 0), shell("grep fetch_the_parcel src", "x"), *shells(5)]
    (tmp_path / "s.jsonl").write_text("\n".join(codex(script)[0]))  # without a message, Codex's summary is encrypted
    (told,) = plain(assess(audit_transcripts(read_transcripts([tmp_path]))))["compactions"]
    assert told["literals_needed"] == 1
    if summary:
        assert (told["literals_covered"], [each["literal"] for each in told["literals_missing"]]) == (
            0,
            ["fetch_the_parcel"],
        )
    else:
        assert (told["literals_covered"], told["literals_missing"], told["summary"]) == (None, None, None)


def test_a_refetch_is_as_many_calls_before_the_compaction_as_the_file_shows(tmp_path: Path) -> None:
    text = "\n".join(f"a line of the file, number {n}, which is long enough" for n in range(30))
    script: Script = [shell("cat a.py", text), *shells(2), PLAN, PLAN, Compact("One.", 0), shell("cat a.py", text)]
    (each,) = ranked(script, tmp_path)
    assert [refetch.age for refetch in each.compaction.refetches] == [4]
    assert "5 calls before" in render(assessed(script, tmp_path))


def test_a_cut_claims_no_number_of_characters(tmp_path: Path) -> None:
    long = "a word " * 9_000
    script: Script = [Said(long), shell(f"echo {long}", long), Compact(long, 0), shell("ls", "x")]
    result = assessed(script, tmp_path)
    assert "more characters" not in render(result) + str(plain(result))


def test_the_last_step_exports_what_the_step_before_it_writes(tmp_path: Path) -> None:
    assessment = assessed([Said("Go."), *shells(3), Compact("Summary.", 0), *shells(6)], tmp_path)
    draft = Draft(default_template(), 0, (), None)
    commands = [command for _, command in words.next_steps(assessment, draft, ["claude-code"])]
    assert commands[-2:] == [
        "recompact adapt mine.toml",
        f"recompact export runs/mine-{AdaptConfig().method} --to claude-code",
    ]
