"""Transcripts written to deceive or to break: no crash, nothing executed, nothing outside read, memory bounded."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import zipfile
from collections import Counter
from html import unescape
from pathlib import Path

import pytest
from audit_planting import CWD, Compact, PlantedCall, Said, claude_code, planted
from commands import recompact
from examples import examples
from growth import LINEAR, growth
from hypothesis import HealthCheck, given, strategies as st
from needs import needs

from recompact.audit.auditing import audit_transcripts
from recompact.audit.scoring import assess
from recompact.harnesses.transcripts import files
from recompact.harnesses.transcripts.registry import READERS, read_transcripts
from recompact.presentation.audit.page import render
from recompact.presentation.audit.plain import plain
from recompact.values.masking import mask_secrets
from recompact.values.session import Tally, Unreadable

SECRETS = (
    "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "hunter2hunter2",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "MIIEpAIBAAKCAQEA7vN4Zq3fP0x9KkLmRt5sWQ2y8bVh",
)
TROUBLE = (
    '<script>alert(1)</script> <img src=x onerror="alert(2)"> \x1b[31mred\x1b]0;title\x07 \u202egnp.exe '
    f"\u200b zero \ud800 half key={SECRETS[0]} {SECRETS[1]} {SECRETS[2]} "
    f"password: {SECRETS[3]} Authorization: Bearer {SECRETS[4]} "
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRETS[5]}\n-----END RSA PRIVATE KEY----- https://u:{SECRETS[3]}@host/x"
)


def hostile_session(count: int = 30) -> list[str]:
    made = [Said(TROUBLE)]
    known = "\n".join(f"{TROUBLE} line number {n} of the text" for n in range(20))
    script: list[PlantedCall | Said | Compact] = [*made]
    for n in range(count):
        command = f"cat '{TROUBLE[:40]}' /tmp/{n} && export API_TOKEN={SECRETS[1]}"
        script.append(
            PlantedCall("bash", {"command": command, TROUBLE: TROUBLE}, known if n in (3, 20) else f"{TROUBLE} {n}")
        )
    script.insert(16, Compact(TROUBLE * 3, 0))
    lines, _ = claude_code(script)
    return [line.replace(json.dumps(CWD), json.dumps(TROUBLE)) for line in lines]


def test_everything_shown_is_masked_escaped_and_visible(tmp_path: Path) -> None:
    path = tmp_path / "bad\x1b[31m\u202e<b>.jsonl"
    path.write_text("\n".join(hostile_session()), encoding="utf-8")
    done = recompact("audit", path, "--out", tmp_path / "audit.html", columns=80)
    assert done.returncode == 0, done.stderr
    told = recompact("audit", path, "--json", "--no-page")
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    for shown in (done.stdout, told.stdout, page):
        for secret in SECRETS:
            assert secret not in shown, secret
        for character in "\x1b\x07\u202e\u200b":
            assert character not in shown.replace("\x1b[", "") or character == "\x1b"
        shown.encode("utf-8")
    assert "\x1b]0;" not in done.stdout
    assert "\x1b" not in page + told.stdout
    assert "<script" not in page
    assert "<img" not in page
    assert "default-src 'none'" in unescape(page)
    assert json.loads(told.stdout)["compactions"]


@pytest.mark.parametrize(
    ("text", "is_masked"),
    [
        ('"PWD": "~/dev/posh"', False),
        ("PWD=/home/me/posh", False),
        (r"PWD=C:\Users\me", False),
        ("OLDPWD=/home/me/posh", False),
        ("PWD=hunter2hunter2", True),
        ("PWD=~hunter2", True),
        ("UID=sa;PWD=/hunter2", True),
        ("UID=sa; PWD=/hunter2", True),
        ("DB_PWD=/hunter2", True),
        ("pwd=/hunter2", True),
        ('"pwd": "hunter2"', True),
    ],
)
def test_the_working_folder_is_no_password(text: str, is_masked: bool) -> None:
    assert ("[masked]" in mask_secrets(text)) is is_masked


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_survives_a_cut(secret: str, tmp_path: Path) -> None:
    script: list[PlantedCall | Said | Compact] = []
    for n in range(40):
        pad = "x" * n * 11
        script.append(PlantedCall("bash", {"command": f"echo {pad} token={secret}"}, f"{pad} password={secret}"))
    script.insert(20, Compact(f"{'y' * 15_990} secret={secret}", 0))
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    result = assess(audit_transcripts(read_transcripts([tmp_path])))
    for shown in (render(result), json.dumps(plain(result))):
        assert secret[:16] not in shown


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    lines = planted(1, claude_code, False).lines
    (outside / "private.jsonl").write_text("\n".join(lines))
    (inside / "own.jsonl").write_text("\n".join(lines))
    (inside / "file.jsonl").symlink_to(outside / "private.jsonl")
    (inside / "folder").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    os.mkfifo(inside / "pipe.jsonl")
    findings = audit_transcripts(read_transcripts([inside]))
    assert [session.path.name for session in findings.sessions] == ["own.jsonl"]
    assert Counter(file.reason for file in findings.skipped) == {"link": 3, "special": 1}


def test_nothing_in_the_folder_changes(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(planted(1, claude_code, False).lines))
    before = path.stat()
    audit_transcripts(read_transcripts([tmp_path]))
    assert os.listdir(tmp_path) == ["own.jsonl"]
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)


def test_broken_lines_are_counted_and_a_cut_last_one_is_normal(tmp_path: Path) -> None:
    lines = planted(1, claude_code, False).lines
    lines[3:3] = ["{broken", "[" * 100_000, '{"type": "not-known", "uuid": "x"}', "17", "null", '"text"', ""]
    (tmp_path / "s.jsonl").write_text("\n".join(lines) + '\n{"type": "user", "mess')
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    assert session.tally.broken == 5  # two are no JSON, three are no records
    assert session.tally.cut == 1
    assert session.tally.unknown["not-known"] == 1
    assert len(session.compactions) == 1


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("kind", ["lines", "document", "archive"])
def test_a_byte_order_mark_costs_no_record(encoding: str, kind: str, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "ä €"}, {"role": "user", "content": "<summary>s</summary>"}]
    text = json.dumps({"messages": messages}, ensure_ascii=False, indent=1)
    if kind == "lines":
        text = "\n".join(json.dumps(message, ensure_ascii=False) for message in messages)
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path = tmp_path / ("s.jsonl" if kind == "lines" else "s.json")
    path.write_text(mark + text, encoding=encoding)
    if kind == "archive":
        with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
            archive.write(path, path.name)
        path.unlink()
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    (found,) = session.compactions
    assert (found.scene.asked, found.scene.summary) == ("ä €", "<summary>s</summary>")
    assert (session.tally.broken, session.tally.cut) == (0, 0)


def test_a_long_file_in_utf_16_is_read_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 7)  # odd: characters are cut in two
    lines = [json.dumps({"role": "user", "content": f"€ 🙂 {n}"}, ensure_ascii=False) for n in range(40)]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(lines), encoding="utf-16")
    (transcript,) = files.find([path])
    assert isinstance(transcript, files.RecordFile)
    tally = Tally()
    assert [value["content"] for _, value in transcript.open(tally)] == [f"€ 🙂 {n}" for n in range(40)]
    assert tally.broken == 0


def test_a_file_that_begins_inside_a_record_is_still_lines(tmp_path: Path) -> None:
    lines = planted(1, claude_code, False).lines
    (tmp_path / "s.jsonl").write_text("\n".join([lines[0][40:], *lines[1:]]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    assert (session.tally.broken, len(session.compactions)) == (1, 1)


@needs("linux")
def test_a_line_of_200_megabytes_takes_no_more_memory_than_the_limit(tmp_path: Path) -> None:
    lines = planted(1, claude_code, False).lines
    path = tmp_path / "s.jsonl"
    with path.open("w") as file:
        file.write("\n".join(lines[:50]) + "\n")
        file.write('{"type": "user", "message": {"content": "')
        for _ in range(200):
            file.write("x" * 1_000_000)
        file.write('"}}\n' + "\n".join(lines[50:]))
    code = (
        "import re, sys; from pathlib import Path\n"
        "from recompact.audit.auditing import audit_transcripts\n"
        "from recompact.harnesses.transcripts.registry import read_transcripts\n"
        "(s,) = audit_transcripts(read_transcripts([Path(sys.argv[1])])).sessions\n"
        # Not ru_maxrss, which a child takes over from the process that started it.
        "memory = re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1]\n"
        "print(s.tally.long, len(s.compactions), memory)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    long, compactions, memory = map(int, done.stdout.split())
    assert (long, compactions) == (1, 1)
    assert memory < 250_000  # kB


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "DOCUMENT_LIMIT", 1 << 20)
    bomb = tmp_path / "log.eval"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/1_epoch_1.json", b'{"events": [' + b" " * (50 << 20) + b"]}")
    (tmp_path / "torn.eval").write_bytes(bomb.read_bytes()[:300])
    findings = audit_transcripts(read_transcripts([tmp_path]))
    assert findings.sessions == ()
    assert [file.reason for file in findings.skipped] == ["unreadable"] * 2
    assert "unpacks to more than" in findings.skipped[0].why


def test_an_archive_of_very_many_large_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ARCHIVE_LIMIT", 1000)
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(3):
            archive.writestr(f"samples/{n}.json", '{"events": [' + " " * 500 + "]}")
    findings = audit_transcripts(read_transcripts([tmp_path]))
    assert findings.sessions == ()
    assert "unpacks to" in findings.skipped[0].why


def test_a_file_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(planted(1, claude_code, False).lines))
    assert len(audit_transcripts(read_transcripts((tmp_path, path, tmp_path / "." / "own.jsonl"))).sessions) == 1


def test_a_number_of_ten_thousand_digits_is_a_broken_record(tmp_path: Path) -> None:
    lines = planted(1, claude_code, False).lines
    (tmp_path / "s.jsonl").write_text("\n".join([*lines[:5], '{"a": ' + "9" * 10_000 + "}", *lines[5:]]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    assert len(session.compactions) == 1


@pytest.mark.parametrize(("padding", "read"), [(0, True), (3_000, True), (30_000, False)])
def test_a_document_of_one_line_may_be_longer_than_a_record(
    padding: int, read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LINE_LIMIT", 1000)
    monkeypatch.setattr(files, "DOCUMENT_LIMIT", 20_000)
    message = json.dumps({"role": "user", "content": "hello" + " " * padding})
    (tmp_path / "s.json").write_text(f'{{"messages": [{message}, {{"role": "assistant", "content": "yes"}}]}}')
    skipped = audit_transcripts(read_transcripts([tmp_path])).skipped
    assert all(file.reason == "unreadable" and "JSONL" in file.why for file in skipped)
    assert bool(skipped) is not read


@pytest.mark.parametrize("name", ["s.jsonl", "s.json"])
@pytest.mark.parametrize(
    "holes",
    [["\0" * 60_000], ["x" * 9_000] * 5, ["\0" * 900] * 60],
    ids=["one hole", "lines over the limit", "many holes"],
)
def test_a_file_of_holes_is_not_read_to_its_end(
    name: str, holes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole of any size costs whoever makes it nothing."""
    monkeypatch.setattr(files, "LINE_LIMIT", 1_000)
    monkeypatch.setattr(files, "SKIPPED_LIMIT", 20_000)
    monkeypatch.setattr(files, "BLOCK", 100)
    (tmp_path / name).write_text("\n".join(['{"type": "user"}', *holes, "{}"]))
    with (tmp_path / name).open("rb") as file:
        with pytest.raises(Unreadable):
            list(files._split(file))
        assert file.tell() < 40_000
    (skipped,) = audit_transcripts(read_transcripts([tmp_path])).skipped
    assert skipped.reason == "unreadable"


def test_a_document_over_the_limit_is_refused_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "DOCUMENT_LIMIT", 1000)
    (tmp_path / "s.json").write_text('{\n"messages": [' + " " * 2000 + "]}")
    (file,) = audit_transcripts(read_transcripts([tmp_path])).skipped
    assert "JSONL" in file.why


@pytest.mark.parametrize(
    ("text", "size"), [("-", 225), ("a_", 500), ("/", 1000), ("'", 1000), ("<<E ", 225), ("sk-", 500), ("Error", 48)]
)
def test_the_time_for_a_text_grows_with_it_and_no_faster(text: str, size: int, tmp_path: Path) -> None:
    def audited_with(size: int) -> None:
        long = text * size
        script: list[PlantedCall | Said | Compact] = [
            PlantedCall("bash", {"command": f"run {long}"}, (long + " failed\n") * 60, failed=True) for _ in range(10)
        ]
        script.insert(5, Compact(long * 3, 0))
        (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
        render(assess(audit_transcripts(read_transcripts([tmp_path]))))

    assert growth(audited_with, size) < LINEAR


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
SHAPES = {
    "claude-code": {"type": "assistant", "uuid": "u", "sessionId": "s", "message": {"content": [{"type": "tool_use"}]}},
    "codex": {"type": "response_item", "payload": {"type": "function_call", "arguments": "{}", "call_id": "c"}},
    "pi": {"type": "message", "id": "a", "message": {"role": "assistant", "content": [{"type": "toolCall"}]}},
    "openhands": {"kind": "ActionEvent", "id": "x", "tool_call": {"function": {"arguments": "{}"}}},
    "copilot": {"type": "tool.execution_start", "data": {"toolCallId": "c", "arguments": {}}, "id": "i"},
    "opencode": {"info": {}, "messages": [{"info": {}, "parts": [{"type": "tool", "state": {}}]}]},
    "gemini": {"projectHash": "h", "sessionId": "s", "messages": [{"type": "gemini", "toolCalls": [{}]}]},
    "atif": {"schema_version": "ATIF-v1.5", "steps": [{"source": "agent", "tool_calls": [{}], "observation": {}}]},
    "inspect": {"events": [{"event": "model", "input": [{}], "output": {}}, {"event": "compaction"}]},
    "hermes": {"session_id": "s", "platform": "x", "messages": [{"role": "user", "content": []}]},
    "openai-messages": {"role": "assistant", "content": None, "tool_calls": [{"function": {}}]},
}


def leaves(value: object) -> list[tuple[object, ...]]:
    """The places inside a JSON value."""
    found: list[tuple[object, ...]] = [()]
    if isinstance(value, dict):
        found += [(key, *rest) for key, inner in value.items() for rest in leaves(inner)]
    if isinstance(value, list):
        found += [(n, *rest) for n, inner in enumerate(value) for rest in leaves(inner)]
    return found


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.harness)
@given(data=st.data())
@examples(40, suppress_health_check=list(HealthCheck))
def test_a_record_with_anything_in_any_place_stops_no_reader(reader: object, data: st.DataObject) -> None:
    from recompact.audit.ledger import Ledger
    from recompact.harnesses.transcripts.reader import Reader
    from recompact.values.session import NewSession, Tally

    assert isinstance(reader, Reader)
    shape = SHAPES.get(reader.harness, SHAPES["pi"])
    records = []
    for number in range(1, 4):
        record = json.loads(json.dumps(shape))
        path = data.draw(st.sampled_from(leaves(record)))
        value = data.draw(JSON)
        if path:
            target = record
            for step in path[:-1]:
                target = target[step]
            target[path[-1]] = value
        else:
            record = value
        records.append((number, record))
    tally = Tally()
    ledger = Ledger(tally)
    for event in reader.read(iter(records), tally):
        if not isinstance(event, NewSession):
            ledger.take(event)
    reader.recognises([value for _, value in records], Path("x.jsonl"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2_000_000
