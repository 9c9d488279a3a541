"""Each harness's records become the same events: compactions, what they kept, branches, subagents, copies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from needs import TRANSCRIPTS, needs

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import Session
from recompact.audit.scoring import assess
from recompact.harnesses.transcripts import claude_code, codex, copilot, gemini, pi
from recompact.harnesses.transcripts.registry import READERS, read_transcripts, usual_places
from recompact.values.session import Passage, Tally

# file -> harness, version, compactions with their lines (from the table of the transcripts' own index)
KNOWN = {
    "claude-code/cc-2.0.76-entire-cli-a.jsonl": ("claude-code", "2.0.76", [232]),
    "claude-code/cc-2.1.7-entire-cli-b-3compactions.jsonl": ("claude-code", "2.1.7", [230, 517, 871]),
    "claude-code/cc-2.1.45-context-evaluator.jsonl": ("claude-code", "2.1.45", [331]),
    "claude-code/cc-2.1.217-oh-my-posh-manual-preserved.jsonl": ("claude-code", "2.1.217", [543]),
    "codex/codex-0.118.0-git-sync-subagent-2compactions.jsonl": ("codex", "0.118.0", [995, 2050]),
    "codex/codex-0.142.2-agentv-2compactions.jsonl": ("codex", "0.142.2", [272, 573]),
    "pi/pi-v1-pi-mono-2compactions.jsonl": ("pi", "format 1", [360, 629]),
    "pi/pi-v3-pi.dev.jsonl": ("pi", "format 3", [217]),
    "copilot-cli/copilot-1.0.74-starcar-a.jsonl": ("copilot", "1.0.74", [1837]),
    "openhands/openhands-sdk-a-7condensations.jsonl": ("openhands", "", [83, 126, 169, 212, 255, 298, 341]),
    "openhands/openhands-sdk-c-3condensations.jsonl": ("openhands", "", [83, 126, 169]),
    "opencode/opencode-1.4.3-session-bridge.json": ("opencode", "1.4.3", [46]),
    "openclaw/openclaw-v3-inspect-scout-lru-demo.jsonl": ("openclaw", "format 3", [83]),
    "gemini-cli/gemini-cli-history-after-compression.json": ("gemini", "", [2]),
}


def audited(*paths: Path) -> list[Session]:
    findings = audit_transcripts(read_transcripts(paths))
    assert [file for file in findings.skipped if file.reason == "unreadable"] == []
    return list(findings.sessions)


def written(tmp_path: Path, records: Iterable[Any], name: str = "s.jsonl") -> Session:
    path = tmp_path / name
    path.write_text("\n".join(map(json.dumps, records)))
    (session,) = audited(path)
    return session


@needs("transcripts")
@pytest.mark.parametrize("name", KNOWN)
def test_real_transcripts(name: str) -> None:
    (session,) = audited(TRANSCRIPTS / name)
    harness, version, lines = KNOWN[name]
    assert (session.harness, session.info.version) == (harness, version)
    assert [found.line for found in session.compactions] == lines
    assert session.calls > 40
    assert not session.tally.unknown
    assert session.tally.broken == 0
    assert all(found.readable for found in session.compactions) == (harness != "codex")


@needs("transcripts")
def test_sizes_are_those_that_the_harness_reports() -> None:
    (session,) = audited(TRANSCRIPTS / "claude-code/cc-2.1.217-oh-my-posh-manual-preserved.jsonl")
    assert (session.compactions[0].before, session.compactions[0].after) == (297190, 16970)
    (session,) = audited(TRANSCRIPTS / "codex/codex-0.142.2-agentv-2compactions.jsonl")
    assert [(found.before, found.after) for found in session.compactions] == [(88246, 13290), (95808, 13682)]
    (session,) = audited(TRANSCRIPTS / "opencode/opencode-1.4.3-session-bridge.json")
    assert (session.compactions[0].before, session.compactions[0].after) == (112579, 16514)


@needs("transcripts")
def test_a_failure_is_not_charged_to_a_compaction_that_dropped_nothing_of_it() -> None:
    """The first compaction forgot it, and no summary mentions it; it is hit again only after the second."""
    (session,) = audited(TRANSCRIPTS / "openhands/openhands-sdk-c-3condensations.jsonl")
    assert [found.failures for found in session.compactions] == [(), (), ()]


@needs("transcripts")
def test_all_shared_transcripts_and_real_against_placebo() -> None:
    findings = audit_transcripts(read_transcripts([TRANSCRIPTS]))
    assert [file for file in findings.skipped if file.reason == "unreadable"] == []
    result = assess(findings)
    contrast = result.contrast("refetched")
    assert contrast is not None
    assert contrast.separates
    assert contrast.ratio is not None
    assert contrast.ratio > 2
    changes = result.contrast("changes")
    assert changes is not None
    assert not changes.separates
    assert {each.session.path.name.split("-")[0] for each in result.ranked[:5]} >= {"pi", "codex", "cc"}


def claude(uuid: str, parent: str | None, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, "id": f"m-{uuid}"}
    base = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "isSidechain": False, "version": "2"}
    return {**base, "cwd": "/w", "message": message, **more}


def use(number: int, command: str = "ls") -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}]


def result(number: int, text: str = "ok") -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": f"t{number}", "content": text}]


def test_a_branch_that_was_left_is_told_apart_from_parallel_calls(tmp_path: Path) -> None:
    records = [
        claude("a", None, "user", "one"),
        claude("b", "a", "assistant", use(1)),
        claude("c", "b", "assistant", use(2)),  # a parallel call
        claude("d", "b", "user", result(1)),
        claude("e", "c", "user", result(2)),
        claude("f", "e", "assistant", [{"type": "text", "text": "done"}]),
        claude("g", "f", "user", "two"),
        claude("h", "g", "assistant", use(3)),
        claude("i", "h", "user", result(3)),
    ]
    assert written(tmp_path, records).rewinds == 0
    records += [claude("j", "f", "user", "two, but better"), claude("k", "j", "assistant", use(4))]
    assert written(tmp_path, records).rewinds == 1


def test_what_a_left_branch_read_is_not_charged_to_the_compaction(tmp_path: Path) -> None:
    text = "\n".join(f"a line of the file, number {n}, which is long enough" for n in range(30))
    records = [claude("a", None, "user", "one"), claude("a2", "a", "assistant", [{"type": "text", "text": "yes"}])]
    records += [claude("b", "a2", "assistant", use(1, "cat x.py")), claude("c", "b", "user", result(1, text))]
    after = [
        {"type": "system", "subtype": "compact_boundary", "uuid": "z", "sessionId": "s", "parentUuid": None},
        claude("y", "z", "user", "Summary.", isCompactSummary=True),
        claude("x", "y", "assistant", use(9, "cat x.py")),
        claude("w", "x", "user", result(9, text)),
    ]
    (found,) = written(tmp_path, [*records, *after]).compactions
    assert len(found.refetches) == 1
    rewound = [
        claude("d", "a2", "user", "other"),
        claude("e", "d", "assistant", use(2)),
        claude("f", "e", "user", result(2)),
    ]
    (found,) = written(tmp_path, [*records, claude("q", "c", "assistant", "so"), *rewound, *after]).compactions
    assert found.refetches == ()


def test_subagents_inside_and_beside_the_main_file(tmp_path: Path) -> None:
    main = [claude("a", None, "user", "one"), claude("b", "a", "assistant", use(1), isSidechain=True)]
    session = written(tmp_path, main)
    assert (session.info.standing, session.calls, session.tally.subagent) == ("main", 0, 1)
    side = [
        claude("a", None, "user", "one", isSidechain=True, agentId="x"),
        claude("b", "a", "assistant", use(1), isSidechain=True),
    ]
    session = written(tmp_path, side, "agent-x.jsonl")
    assert (session.info.standing, session.calls, session.info.parent) == ("subagent", 1, "s")


def test_a_resumed_session_repeats_a_compaction_which_counts_once(tmp_path: Path) -> None:
    records = [
        claude("a", None, "user", "one"),
        {"type": "system", "subtype": "compact_boundary", "uuid": "z", "sessionId": "s", "parentUuid": None},
        claude("y", "z", "user", "Summary.", isCompactSummary=True),
    ]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("\n".join(map(json.dumps, records)))
    sessions = audited(tmp_path)
    assert sum(len(session.compactions) for session in sessions) == 1
    assert sum(session.copies for session in sessions) == 1


@pytest.mark.parametrize(("other", "copies"), [("other", 0), ("one", 1)])
def test_codex_sessions_with_the_same_request_are_told_apart_by_what_is_encrypted(
    other: str, copies: int, tmp_path: Path
) -> None:
    request = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Make all tests pass."}]}
    for name, secret in (("a", "one"), ("b", other)):
        history = [request, {"type": "compaction", "encrypted_content": secret}]
        records = [
            {"type": "session_meta", "payload": {"id": name, "cwd": "/w"}},
            {"type": "response_item", "payload": request},
            {"type": "compacted", "payload": {"message": "", "replacement_history": history}},
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert sum(session.copies for session in audited(tmp_path)) == copies


@pytest.mark.parametrize("depth", [300, 1000])
def test_a_deep_history_costs_no_file(depth: int, tmp_path: Path) -> None:
    deep = f'{{"message": "s", "replacement_history": [{"[" * depth}{"]" * depth}]}}'
    meta = json.dumps({"type": "session_meta", "payload": {"id": "a", "cwd": "/w"}})
    (tmp_path / "s.jsonl").write_text(f'{meta}\n{{"type": "compacted", "payload": {deep}}}\n')
    audited(tmp_path)


@pytest.mark.parametrize(("session", "copies"), [({}, 0), ({"session_id": "s"}, 1)])
def test_atif_files_without_a_session_are_no_copies(session: dict[str, str], copies: int, tmp_path: Path) -> None:
    reference = {"subagent_trajectory_ref": [{"session_id": "s-summarization-1"}]}
    steps = [
        {"source": "user", "message": "go"},
        {"source": "system", "message": "", "observation": {"results": [reference]}},
        {"source": "user", "message": "What happened so far."},
    ]
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"schema_version": "ATIF-v1.5", **session, "steps": steps}))
    assert sum(found.copies for found in audited(tmp_path)) == copies


def test_a_clearing_is_listed_and_not_scored(tmp_path: Path) -> None:
    cleared = {"trigger": "auto", "preTokens": 60364, "tokensSaved": 21294, "compactedToolIds": ["t1"]}
    boundary = {"type": "system", "subtype": "microcompact_boundary", "uuid": "z", "sessionId": "s", "parentUuid": "c"}
    records = [
        claude("a", None, "user", "one"),
        claude("b", "a", "assistant", use(1)),
        claude("c", "b", "user", result(1)),
        {**boundary, "microcompactMetadata": cleared},
    ]
    session = written(tmp_path, records)
    (found,) = session.compactions
    assert (found.kind, found.before, found.after, found.dropped_calls) == ("clearing", 60364, 39070, 1)


def test_codex_fork_and_exit_codes(tmp_path: Path) -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}
    meta = {"id": "me", "cwd": "/w", "cli_version": "0.145", "source": spawned, "forked_from_id": "p"}
    records = [
        {"type": "session_meta", "payload": meta},
        {"type": "session_meta", "payload": {"id": "p", "cwd": "/w", "cli_version": "0.1"}},
        {"type": "brand_new", "payload": {}},
    ]
    session = written(tmp_path, records)
    assert (session.info.standing, session.info.parent, session.info.version) == ("subagent", "p", "0.145")
    assert session.tally.unknown == {"brand_new": 1}


def test_pi_branches_by_parent(tmp_path: Path) -> None:
    def entry(key: str, parent: str | None) -> dict[str, Any]:
        return {"type": "message", "id": key, "parentId": parent, "message": {"role": "user", "content": key}}

    records = [{"type": "session", "version": 3, "id": "s", "cwd": "/w"}, entry("a", None), entry("b", "a")]
    assert written(tmp_path, [*records, entry("c", "b")]).rewinds == 0
    assert written(tmp_path, [*records, entry("c", "a")]).rewinds == 1


def test_openhands_events_in_files(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    events: list[dict[str, Any]] = [
        {"kind": "MessageEvent", "id": "e0", "source": "user", "llm_message": {"content": "go"}}
    ]
    for n in range(1, 4):
        call = {"function": {"name": "execute_bash", "arguments": json.dumps({"command": f"ls {n}"})}}
        events.append(
            {
                "kind": "ActionEvent",
                "id": f"a{n}",
                "tool_name": "execute_bash",
                "tool_call_id": f"t{n}",
                "tool_call": call,
            }
        )
        events.append(
            {"kind": "ObservationEvent", "id": f"o{n}", "tool_call_id": f"t{n}", "observation": {"content": "x"}}
        )
    # The action is forgotten, its observation in no list: an orphan that no model is sent.
    events.append(
        {"kind": "Condensation", "id": "k", "forgotten_event_ids": ["gone", "a1", "o1", "a2"], "summary": "S"}
    )
    for n, event in enumerate(events):
        (folder / f"event-{n:05}-x.json").write_text(json.dumps(event))
    (session,) = audited(tmp_path)
    (found,) = session.compactions
    assert (found.dropped_calls, found.kept_calls) == (2, 1)


def test_several_sessions_on_the_lines_of_one_file(tmp_path: Path) -> None:
    line = {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "<summary>s</summary>"}]}
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join([json.dumps(line)] * 3))
    sessions = audited(path)
    assert [len(session.compactions) for session in sessions] == [1, 1, 1]


def test_inspect_keeps_what_the_next_input_holds(tmp_path: Path) -> None:
    def model(*messages: dict[str, Any]) -> dict[str, Any]:
        return {
            "event": "model",
            "model": "m",
            "input": list(messages),
            "output": {"choices": [{"message": {"content": "ok"}}]},
        }

    def tool(n: int) -> dict[str, Any]:
        return {"event": "tool", "id": f"t{n}", "function": "bash", "arguments": {"command": f"ls {n}"}, "result": "x"}

    task = {"role": "user", "content": "task"}
    summary = {"role": "user", "content": "What happened so far."}
    kept = {"role": "tool", "tool_call_id": "t2", "content": "x"}
    events = [model(task), tool(1), tool(2), {"event": "compaction", "type": "summary"}, model(task, summary, kept)]
    path = tmp_path / "log.json"
    path.write_text(
        json.dumps({"version": 2, "eval": {"task": "t"}, "samples": [{"id": 1, "events": events}]}, indent=1)
    )
    (session,) = audited(path)
    (found,) = session.compactions
    assert (found.dropped_calls, found.kept_calls, found.scene.summary) == (1, 1, "What happened so far.")


def asked_in(records: Iterable[Any], read: Any) -> list[str]:
    """What counts as said by the user."""
    events = read(enumerate(records, 1), Tally())
    return [event.text for event in events if isinstance(event, Passage) and event.role == "user"]


def test_what_a_harness_says_in_the_users_name_was_not_asked() -> None:
    def item(text: str) -> dict[str, Any]:
        payload = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        return {"type": "response_item", "payload": payload}

    notices = ("<subagent_notification> {}", "<turn_aborted>\n", "<user_shell_command>", "<environment_context>")
    assert asked_in(map(item, ("Go on.", *notices)), codex.read) == ["Go on."]
    stops = ("[Request interrupted by user]", "[Request interrupted by user for tool use]", "<system-reminder>x")
    said = [claude(f"u{n}", None, "user", text) for n, text in enumerate(("Go on.", *stops))]
    assert asked_in(said, claude_code.read) == ["Go on."]
    lines = ("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\n", "[OpenClaw heartbeat poll]", "Go on.")
    entries = [{"type": "message", "id": text, "message": {"role": "user", "content": text}} for text in lines]
    assert asked_in(entries, pi.read) == ["Go on."]
    contents = [{"role": "user", "parts": [{"text": text}]} for text in ("<session_context>\nToday", "Go on.")]
    assert asked_in([contents], gemini.read) == ["Go on."]


def test_copilot_tells_its_own_and_its_agents_messages_from_the_users() -> None:
    def message(content: str, agent: str = "", **data: Any) -> dict[str, Any]:
        return {"type": "user.message", "id": content, "agentId": agent, "data": {"content": content, **data}}

    records = [
        message("Go on.", parentAgentTaskId="t"),
        message("", source="system"),
        message("<system_reminder>", source="system"),
        message("Review it.", agent="a", source="agent-1", parentAgentTaskId="t"),
    ]
    assert asked_in(records, copilot.read) == ["Go on."]


@needs("transcripts")
@pytest.mark.parametrize(
    ("name", "harness", "compactions"),
    [
        ("atif/harbor-golden-hello-world-context-summarization.trajectory.json", "atif", 1),
        ("atif/inspect-scout-openhands_hello-world.trajectory.json", "atif", 0),
        ("inspect/inspect-scout-compaction_boundary.json", "inspect", 1),
        ("hermes/hermes-vcc-compressed_session.json", "hermes", 1),
        ("hermes/agent-sessions-hermes-large.json", "hermes", 0),
        ("gemini-cli/agent-sessions-gemini-jsonl_v040.jsonl", "gemini", 0),
        ("gemini-cli/real-session-bridge-nocompaction.json", "gemini", 0),
        ("codex/inspect-scout-rollout-compacted.jsonl", "codex", 1),
        ("pi/specstory-v1_legacy.jsonl", "pi", 1),
        ("pi/specstory-multi_compaction.jsonl", "pi", 2),
        ("copilot-cli/real-agentv-nocompaction.jsonl", "copilot", 0),
    ],
)
def test_fixtures(name: str, harness: str, compactions: int) -> None:
    (session,) = audited(TRANSCRIPTS / "fixtures" / name)
    assert (session.harness, len(session.compactions)) == (harness, compactions)


def test_every_reader_has_a_name_of_its_own_and_places_move_with_their_variables(tmp_path: Path) -> None:
    assert len({reader.harness for reader in READERS}) == len(READERS)
    (tmp_path / "sessions").mkdir()
    places = dict(usual_places({"CODEX_HOME": str(tmp_path), "HERMES_HOME": str(tmp_path / "none")}))
    assert places["codex"] == tmp_path / "sessions"
    assert "hermes" not in places
