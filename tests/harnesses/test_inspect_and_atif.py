"""Logs of Inspect and trajectories in ATIF in the forms that newer versions write."""

from __future__ import annotations

import copy
import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from recompact.audit.auditing import Audit, audit_transcripts
from recompact.audit.findings import Session
from recompact.harnesses.transcripts import atif, files, inspect
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.values.session import CompactionEvent, Event, KeptKeys, Result, Tally
from recompact.version import install_command

LONG = "a text that is too long for an event, so that it is stored as an attachment beside the events of a sample"


# -- Inspect ---------------------------------------------------------------------------------------------------------


def message(role: str, said: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": said, **more}


def model(inputs: list[dict[str, Any]], answer: str, **more: Any) -> dict[str, Any]:
    return {
        "event": "model",
        "model": "m",
        "input": inputs,
        "output": {"choices": [{"message": message("assistant", answer, **more)}]},
    }


def looks(number: int) -> list[dict[str, Any]]:
    return [
        message("assistant", f"look {number}", tool_calls=[{"id": f"c{number}"}]),
        message("tool", f"result {number} {LONG}", tool_call_id=f"c{number}"),
    ]


def sample(before: int = 3, kept: int = 1) -> dict[str, Any]:
    """Calls, the request that writes the summary, a compaction, and calls after it."""
    start = [message("system", "You look."), message("user", f"The task. {LONG}")]
    history: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []

    def call(number: int) -> None:
        events.append(model([*start, *history], f"look {number}", tool_calls=[{"id": f"c{number}"}]))
        history.extend(looks(number))
        events.append(
            {
                "event": "tool",
                "id": f"c{number}",
                "function": "look",
                "arguments": {"page": number},
                "result": history[-1]["content"],
            }
        )

    for number in range(before):
        call(number)
    events.append(model([*start, *history, message("user", "Summarize.")], "It is amber."))
    events.append({"event": "compaction", "type": "summary", "tokens_before": 90, "tokens_after": 9, "uuid": "u"})
    tail = history[len(history) - 2 * kept :]
    history[:] = [message("user", "[SUMMARY] It is amber.", metadata={"summary": True}), *tail]
    for number in range(before, before + 2):
        call(number)
    return {"id": "s", "uuid": "s", "events": events, "scores": {"match": {"value": "C"}}}


def condense(document: dict[str, Any], *, by_index: bool = False) -> dict[str, Any]:
    """The same sample as newer versions write it: inputs as ranges of a pool, long texts as attachments."""
    document = copy.deepcopy(document)
    pool: list[dict[str, Any]] = []
    texts: list[str] = []

    def name(said: str) -> str:
        if len(said) < 100:
            return said
        if said not in texts:
            texts.append(said)
        return f"attachment://{texts.index(said) if by_index else zlib.crc32(said.encode())}"

    for event in document["events"]:
        if "input" in event:
            ranges = []
            for each in event["input"]:
                each = {**each, "content": name(each["content"])}
                if each not in pool:
                    pool.append(each)
                ranges.append([pool.index(each), pool.index(each) + 1])
            event["input"], event["input_refs"] = [], ranges
        if "result" in event:
            event["result"] = name(event["result"])
    attachments: Any = texts if by_index else {str(zlib.crc32(said.encode())): said for said in texts}
    return {**document, "attachments": attachments, "events_data": {"messages": pool, "calls": []}}


def events_of(document: dict[str, Any]) -> list[Event]:
    tally = Tally()
    events = list(inspect.read([(1, document)], tally))
    assert not tally.unknown
    return events


@given(st.integers(1, 6), st.integers(0, 1), st.booleans())
def test_a_condensed_sample_is_the_same_session(before: int, kept: int, by_index: bool) -> None:
    plain = sample(before, kept)
    events = events_of(plain)
    assert events_of(condense(plain, by_index=by_index)) == events
    (compaction,) = [event for event in events if isinstance(event, CompactionEvent)]
    assert compaction.summary == "[SUMMARY] It is amber."
    assert compaction.kept == KeptKeys(frozenset(f"c{number}" for number in range(before - kept, before)))
    assert [event.text.split()[1] for event in events if isinstance(event, Result)] == [*map(str, range(before + 2))]


def archive_of(members: dict[str, Any], *, zstd: bool) -> bytes:
    """An archive; with `zstd` each member is two frames by a method that `zipfile` may not know."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, value in members.items():
            data = json.dumps(value).encode()
            if not zstd:
                archive.writestr(name, data, zipfile.ZIP_DEFLATED)
                continue
            zstandard = pytest.importorskip("zstandard")
            half = len(data) // 2
            packed = b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:]))
            archive.writestr(name, packed)
            info = archive.getinfo(name)
            info.compress_type, info.file_size, info.CRC = files.ZSTD, len(data), zlib.crc32(data)
    return out.getvalue()


def audit(folder: Path) -> Audit:
    return audit_transcripts(read_transcripts([folder]))


def only_session(folder: Path) -> Session:
    findings = audit(folder)
    assert findings.skipped == ()
    (session,) = findings.sessions
    return session


@pytest.mark.parametrize("zstd", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
def test_archives_are_read_in_every_form(zstd: bool, chunked: bool, tmp_path: Path) -> None:
    document = condense(sample(), by_index=chunked)
    members: dict[str, Any] = {"header.json": {"eval": {}}, "samples/s_epoch_1.json": document}
    if chunked:
        shell = {key: document[key] for key in ("id", "uuid", "scores")}
        members = {
            "header.json": {"eval": {}},
            "samples/s_epoch_1/sample.json": shell,
            "samples/s_epoch_1/events/stats.json": {},
        }
        sequences = {
            "messages": document["events_data"]["messages"],
            "events": document["events"],
            "attachments": document["attachments"],
        }
        for name, values in sequences.items():
            for start in range(0, len(values), 2):
                members[f"samples/s_epoch_1/{name}/{start}.json"] = values[start : start + 2]
    (tmp_path / "log.eval").write_bytes(archive_of(members, zstd=zstd))
    session = only_session(tmp_path)
    assert (session.harness, session.calls, session.info.score) == ("inspect", 5, 1.0)
    (compaction,) = session.compactions
    assert (compaction.scene.summary, compaction.dropped_calls, compaction.kept_calls) == (
        "[SUMMARY] It is amber.",
        2,
        1,
    )


def test_without_the_extra_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.eval").write_bytes(archive_of({"samples/s_epoch_1.json": sample()}, zstd=True))
    monkeypatch.setattr(files, "zstandard", None)
    if hasattr(zipfile, "ZIP_ZSTANDARD"):
        pytest.skip("this Python reads zstd by itself")
    (skipped,) = audit(tmp_path).skipped
    assert install_command("audit") in skipped.why


def test_a_member_that_yields_more_than_it_declares_is_refused(tmp_path: Path) -> None:
    data = archive_of({"samples/s_epoch_1.json": sample()}, zstd=True)
    declared = struct.pack("<L", len(json.dumps(sample()).encode()))
    (tmp_path / "log.eval").write_bytes(data.replace(declared, struct.pack("<L", 10)))
    (skipped,) = audit(tmp_path).skipped
    assert skipped.reason == "unreadable"


@pytest.mark.parametrize(
    ("value", "score"), [("C", 1.0), ("I", 0.0), (0.25, 0.25), (True, 1.0), ("?", None), (None, None)]
)
def test_the_score_of_a_sample(value: Any, score: float | None, tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(
        json.dumps({"version": 2, "eval": {}, "samples": [{**sample(), "scores": {"a": {"value": value}}}]})
    )
    assert only_session(tmp_path).info.score == score


# -- ATIF ------------------------------------------------------------------------------------------------------------


def agent_step(number: int, **more: Any) -> dict[str, Any]:
    call = {"tool_call_id": f"c{number}", "function_name": "look", "arguments": {"page": number}}
    result = {"source_call_id": f"c{number}", "content": f"result {number}"}
    return {
        "source": "agent",
        "message": f"step {number}",
        "tool_calls": [call],
        "observation": {"results": [result]},
        **more,
    }


def managed(kind: str, boundary: str, said: str = "") -> dict[str, Any]:
    results = [{"content": said}] if said else []
    extra = {"context_management": {"type": kind, "boundary": boundary, "tokens_before": 90}}
    return {"source": "system", "message": "Context managed", "observation": {"results": results}, "extra": extra}


def trajectory(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    numbered = [{"step_id": place, **step} for place, step in enumerate(steps, 1)]
    return {
        "schema_version": "ATIF-v1.7",
        "trajectory_id": "t",
        "agent": {"name": "a", "version": "1"},
        "steps": numbered,
        **more,
    }


def written(tmp_path: Path, document: dict[str, Any]) -> list[Session]:
    (tmp_path / "trajectory.json").write_text(json.dumps(document))
    findings = audit(tmp_path)
    assert findings.skipped == ()
    return list(findings.sessions)


def test_a_replaced_context_is_a_compaction_and_copies_are_no_calls(tmp_path: Path) -> None:
    copied = agent_step(2, is_copied_context=True)
    (session,) = written(
        tmp_path,
        trajectory(
            agent_step(1), agent_step(2), managed("compaction", "replace", "The summary."), copied, agent_step(3)
        ),
    )
    assert session.calls == 3
    (compaction,) = session.compactions
    assert (compaction.kind, compaction.before, compaction.dropped_calls, compaction.kept_calls) == (
        "summary",
        90,
        1,
        1,
    )
    assert compaction.scene.summary.startswith("The summary.")


@pytest.mark.parametrize(
    ("kind", "boundary", "expected"),
    [
        ("compaction", "replace", ["summary"]),
        ("compaction", "", ["summary"]),
        ("pruning", "truncate", ["clearing"]),
        ("injection", "append", []),
        ("compaction", "append", []),
        ("novel", "strange", []),
    ],
)
def test_what_context_management_means(kind: str, boundary: str, expected: list[str], tmp_path: Path) -> None:
    (session,) = written(tmp_path, trajectory(agent_step(1), managed(kind, boundary, "text"), agent_step(2)))
    assert [each.kind for each in session.compactions] == expected
    assert bool(session.tally.unknown) is (kind == "novel")


def test_a_trajectory_that_goes_on_in_another_file_is_one_session(tmp_path: Path) -> None:
    refers = {"subagent_trajectory_ref": [{"trajectory_path": "trajectory.summarization-1-summary.json"}]}
    handoff = {**managed("compaction", "replace"), "observation": {"results": [refers]}}
    summary = {"source": "user", "message": "The handoff.", "is_copied_context": True}
    parts = {
        "trajectory.json": trajectory(agent_step(1), handoff, continued_trajectory_ref="trajectory.cont-1.json"),
        "trajectory.cont-1.json": trajectory(summary, agent_step(2), trajectory_id="u"),
    }
    for name, document in parts.items():
        (tmp_path / name).write_text(json.dumps(document))
    session = only_session(tmp_path)
    assert (session.path.name, session.calls) == ("trajectory.json", 2)
    (compaction,) = session.compactions
    assert (compaction.scene.summary, compaction.dropped_calls, compaction.following) == ("The handoff.", 1, 1)
    (tmp_path / "trajectory.json").unlink()
    assert only_session(tmp_path).compactions == ()


@pytest.mark.parametrize("name", ["../other.json", "/etc/passwd", "trajectory.json", "missing.json"])
def test_a_continuation_that_is_not_beside_it_is_not_read(name: str, tmp_path: Path) -> None:
    (session,) = written(tmp_path, trajectory(agent_step(1), continued_trajectory_ref=name))
    assert session.calls == 1


def test_embedded_trajectories_are_sessions_of_their_own(tmp_path: Path) -> None:
    inner = trajectory(agent_step(1), agent_step(2), trajectory_id="inner")
    outer, embedded = written(tmp_path, trajectory(agent_step(1), subagent_trajectories=[inner]))
    assert (outer.calls, outer.info.standing, embedded.calls, embedded.info.standing) == (1, "main", 2, "subagent")


@pytest.mark.parametrize(
    ("version", "noted"), [("ATIF-v1.0", False), ("ATIF-v1.8", False), ("ATIF-v1.9", True), ("ATIF-v2.0", True)]
)
def test_a_newer_version_is_noted(version: str, noted: bool) -> None:
    tally = Tally()
    list(atif.read([(1, {**trajectory(agent_step(1)), "schema_version": version})], tally))
    assert bool(tally.notes) is noted


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "source",
                    "message",
                    "extra",
                    "context_management",
                    "type",
                    "boundary",
                    "observation",
                    "results",
                    "content",
                    "is_copied_context",
                    "tool_calls",
                    "tool_call_id",
                    "event",
                    "input_refs",
                    "output",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(ANY, max_size=6), st.lists(ANY, max_size=3))
def test_odd_shapes_are_no_accident(steps: list[Any], others: list[Any]) -> None:
    list(atif.read([(1, {"schema_version": "ATIF-v1.7", "steps": steps, "subagent_trajectories": others})], Tally()))
    list(inspect.read([(1, {"events": steps, "events_data": {"messages": others}, "attachments": others})], Tally()))
