"""Planted losses are found, and little else: precision and recall at least 0.95 in each format."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from audit_planting import WRITERS, Compact, Said, Script, claude_code, planted, shell

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import AuditedCompaction
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.audit.words import size

SESSIONS = 12


def found_in(found: AuditedCompaction) -> dict[str, set[object]]:
    return {
        "refetch": {refetch.line for refetch in found.refetches if refetch.reading},
        "reread": {reread.line for reread in found.rereads},
        "failure": {failure.line for failure in found.failures},
        "missing": {(need.line, need.literal.form) for need in found.needs if not need.covered},
        "covered": {(need.line, need.literal.form) for need in found.needs if need.covered},
    }


@pytest.mark.parametrize("harness", WRITERS)
def test_precision_and_recall(harness: str, tmp_path: Path) -> None:
    writer, keeps = WRITERS[harness]
    right: Counter[str] = Counter()
    claimed: Counter[str] = Counter()
    true: Counter[str] = Counter()
    for seed in range(SESSIONS):
        made = planted(seed, writer, keeps)
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("\n".join(made.lines) + "\n")
        (session,) = audit_transcripts(read_transcripts([path])).sessions
        assert session.harness == harness
        (found,) = session.compactions
        truth: dict[str, set[object]] = {name: set(lines) for name, lines in made.truth.items()}
        truth |= {"missing": set(made.missing), "covered": set(made.covered)}
        for kind, claims in found_in(found).items():
            right[kind] += len(claims & truth[kind])
            claimed[kind] += len(claims)
            true[kind] += len(truth[kind])
    print()
    for kind in true:
        precision, recall = right[kind] / max(claimed[kind], 1), right[kind] / true[kind]
        print(f"{harness:12} {kind:8} precision {precision:.3f} recall {recall:.3f} of {true[kind]}")
    for kind in true:
        assert right[kind] >= 0.95 * claimed[kind], kind
        assert right[kind] >= 0.95 * true[kind], kind


def test_a_fact_that_survived_one_summary_and_not_the_next(tmp_path: Path) -> None:
    names = "\n".join(f"def build_the_{n}(): pass" for n in ("one", "two"))
    script: Script = [shell("./names.sh", names)]
    script += [shell(f"echo {n}", f"plain {n}") for n in range(5)]
    script.append(Compact("We know build_the_one and build_the_two.", 0))
    script += [shell(f"echo again {n}", f"build_the_one {n}" if n == 2 else f"plain {n}") for n in range(5)]
    script.append(Compact("We know build_the_two.", 0))
    script += [shell("grep build_the_one src", "x"), shell("grep build_the_two src", "x")]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(claude_code(script)[0]))
    (session,) = audit_transcripts(read_transcripts([path])).sessions
    needs = {need.literal.form: need for need in session.compactions[1].needs}
    assert {form: (need.covered, need.lost_late) for form, need in needs.items()} == {
        "build_the_one": (False, True),
        "build_the_two": (True, False),
    }


def test_a_literal_that_only_the_earlier_summary_held_is_noticed(tmp_path: Path) -> None:
    quiet = [shell(f"ls {n}", f"plain {n}") for n in range(6)]
    script: Script = [*quiet, Compact("Hosts are in ops/hosts_prod.yaml.", 0), *quiet, Compact("All is well.", 0)]
    script += [shell("cat ops/hosts_prod.yaml", "x"), *quiet]
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    (need,) = session.compactions[1].needs
    assert (need.literal.form, need.covered, need.lost_late) == ("ops/hosts_prod.yaml", False, True)


def test_a_size_that_the_file_does_not_tell_is_unknown(tmp_path: Path) -> None:
    """Plain messages report no sizes; what came before the first summary is not in this file."""
    said = [("user", "go on"), ("user", "<summary>" + "w " * 400), ("assistant", "x" * 4_000), ("user", "<summary>s")]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(json.dumps({"role": role, "content": text}) for role, text in said))
    (session,) = audit_transcripts(read_transcripts([path])).sessions
    assert [(found.before, found.after) for found in session.compactions] == [(None, 202), (1202, 2)]
    assert [size(found) for found in session.compactions] == ["? → ~202", "~1,202 → ~2"]


@pytest.mark.parametrize("before_use", [True, False])
def test_what_the_user_says_after_a_use_does_not_explain_it(before_use: bool, tmp_path: Path) -> None:
    script: Script = [shell("./names.sh", "def fetch_the_parcel(argument): return None"), shell("ls", "a.py")]
    script.append(Compact("Summary.", 0))
    use, hint = shell("grep fetch_the_parcel src", "x"), Said("I meant fetch_the_parcel.")
    script += [hint, use] if before_use else [use, hint]
    script += [shell(f"echo {n}", f"plain {n}") for n in range(5)]
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    named = {need.literal.form for need in session.compactions[0].needs}
    assert ("fetch_the_parcel" in named) is not before_use


def test_a_command_is_a_literal_that_a_summary_can_carry(tmp_path: Path) -> None:
    build, check = "make -C firmware BOARD=q7 image", "tox -e py311 -- -x"
    script: Script = [shell(build, "built"), shell(check, "passed"), shell("ls src", "a.py b.py")]
    script.append(Compact(f"Build with `{build}`.", 0))
    script += [
        shell(build, "built"),
        shell(check, "passed"),
        shell("ls src", "a.py b.py"),
        shell("make new", "no rule"),
    ]
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    needs = session.compactions[0].needs
    assert {need.literal.form: need.covered for need in needs if need.literal.kind == "command"} == {
        build: True,
        check: False,
    }


def test_what_the_harness_attached_again_was_not_fetched_again(tmp_path: Path) -> None:
    text = "\n".join(f"a line of the file, number {n}, which is long enough" for n in range(30))
    script: Script = [shell("cat a.py", text), Compact("Summary.", 0), shell("cat a.py", text)]
    lines, _ = claude_code(script)
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(lines))
    (session,) = audit_transcripts(read_transcripts([path])).sessions
    assert len(session.compactions[0].refetches) == 1
    content = {"type": "text", "file": {"filePath": "a.py", "content": text}}
    attachment = {"type": "attachment", "uuid": "x", "sessionId": "s", "isSidechain": False}
    lines.insert(4, json.dumps({**attachment, "attachment": {"type": "file", "content": content}}))
    path.write_text("\n".join(lines))
    (session,) = audit_transcripts(read_transcripts([path])).sessions
    assert session.compactions[0].refetches == ()
