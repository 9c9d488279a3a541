"""How fast a large transcript is audited, and in how much memory: prints both. No model, no network.

    python benchmarks/audit.py            # writes a transcript of 1 GB to a temporary folder and audits it
    python benchmarks/audit.py --size 200 # MB
    python benchmarks/audit.py --file PATH # an audit of this file or folder instead

The file is in Claude Code's format: reads, searches, tests and edits of a made-up project, a compaction each time the
context is full. As in that harness's own files, a second field repeats the result and, with an edit, the whole file
before it; about a third of the bytes are text of results (in real files of all harnesses 0.05 to 0.56).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

WORDS = [
    "value",
    "state",
    "index",
    "order",
    "token",
    "chunk",
    "frame",
    "cache",
    "batch",
    "route",
    "shape",
    "field",
    "event",
    "entry",
    "block",
    "table",
    "query",
]
CONTEXT = 600_000  # characters of results after which the session compacts


def project(rng: random.Random, files: int = 400) -> list[tuple[str, list[str]]]:
    """Files of a made-up project, with lines that look like code."""
    made = []
    for number in range(files):
        path = f"/home/dev/project/src/{rng.choice(WORDS)}/{rng.choice(WORDS)}_{number}.py"
        lines = []
        for line in range(rng.randint(60, 500)):
            indent = "    " * rng.randint(0, 3)
            names = "_".join(rng.choices(WORDS, k=rng.randint(1, 3)))
            lines.append(
                f"{indent}{names} = self.{rng.choice(WORDS)}({rng.choice(WORDS)}, {rng.randint(1, 99999)})  # {line}"
            )
        made.append((path, lines))
    return made


def records(rng: random.Random) -> Iterator[str]:
    """The lines of a session that never ends."""
    files = project(rng)
    common = {
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/dev/project",
        "sessionId": "bench",
        "version": "2.1.7",
    }
    parent: str | None = None
    call = context = 0
    while True:
        call += 1
        path, lines = files[min(int(rng.expovariate(1 / 60)), len(files) - 1)]
        name, given, text = action(rng, call, path, lines)
        ids = f"a{call}", f"u{call}"
        use = {"type": "tool_use", "id": f"t{call}", "name": name, "input": given}
        usage = {"input_tokens": 3, "cache_read_input_tokens": 20_000 + context // 4, "output_tokens": 90}
        message = {"id": f"m{call}", "role": "assistant", "model": "bench", "content": [use], "usage": usage}
        yield json.dumps({**common, "type": "assistant", "uuid": ids[0], "parentUuid": parent, "message": message})
        result = {"type": "tool_result", "tool_use_id": f"t{call}", "content": text}
        user = {"role": "user", "content": [result]}
        record = {
            **common,
            "type": "user",
            "uuid": ids[1],
            "parentUuid": ids[0],
            "message": user,
            "toolUseResult": {"originalFile": "\n".join(lines), **given} if name == "Edit" else {"content": text},
        }
        yield json.dumps(record)
        parent = ids[1]
        context += len(text)
        if context > CONTEXT:
            context = 0
            data = {"trigger": "auto", "preTokens": 155_000}
            boundary = {"type": "system", "subtype": "compact_boundary", "uuid": f"c{call}", "compactMetadata": data}
            yield json.dumps({**common, **boundary, "parentUuid": None})
            summary = " ".join(f"{path}: {rng.choice(lines).strip()}." for path, lines in rng.choices(files, k=120))
            message = {"role": "user", "content": f"This session is being continued. {summary}"}
            record = {**common, "type": "user", "uuid": f"s{call}", "isCompactSummary": True, "message": message}
            yield json.dumps({**record, "parentUuid": f"c{call}"})
            parent = f"s{call}"


def action(rng: random.Random, call: int, path: str, lines: list[str]) -> tuple[str, dict[str, object], str]:
    """A call and its result."""
    kind = rng.random()
    if kind < 0.35:
        first = rng.randint(1, max(len(lines) - 80, 1))
        text = "\n".join(f"{n:6}→{line}" for n, line in enumerate(lines[first - 1 : first + 200], first))
        return "Read", {"file_path": path, "offset": first, "limit": 200}, text
    if kind < 0.55:
        text = "\n".join(f"{path}:{n}:{line}" for n, line in enumerate(lines, 1) if rng.random() < 0.2)
        return "Bash", {"command": f"cd /home/dev/project && rg -n {rng.choice(WORDS)}_{call} src | head -60"}, text
    if kind < 0.75:
        text = "\n".join(
            f"tests/test_{rng.choice(WORDS)}_{n}.py::test_{rng.choice(WORDS)} PASSED [{n}%]" for n in range(60)
        )
        return "Bash", {"command": "python -m pytest -q tests 2>&1 | tail -80"}, text
    old, new = rng.choice(lines), f"{rng.choice(lines)}  # {call}"
    lines[lines.index(old)] = new
    text = f"The file {path} has been updated."
    return "Edit", {"file_path": path, "old_string": old, "new_string": new}, text


def write(path: Path, size: int) -> None:
    rng = random.Random(7)
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for line in records(rng):
            file.write(line + "\n")
            written += len(line) + 1
            if written >= size:
                return


def audit(path: Path) -> None:
    """In a process of its own: audit, and print what it took."""
    from recompact.audit.auditing import audit_transcripts
    from recompact.audit.scoring import assess
    from recompact.harnesses.transcripts.registry import read_transcripts

    started, worked = time.perf_counter(), time.process_time()
    findings = audit_transcripts(read_transcripts([path]))
    assessment = assess(findings)
    seconds, busy = time.perf_counter() - started, time.process_time() - worked
    size = sum(p.stat().st_size for p in ([path] if path.is_file() else path.rglob("*")) if p.is_file())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    calls = sum(session.calls for session in findings.sessions)
    print(f"{size / 1e6:,.0f} MB, {calls:,} calls, {len(assessment.ranked):,} compactions")
    print(f"speed   {size / 1e6 / seconds:.1f} MB/s ({seconds:.1f} s); by processor time {size / 1e6 / busy:.1f} MB/s")
    print(f"memory  {memory / 1e6:.0f} MB at most")
    if path.is_file():
        print(f"decoding the JSON alone: {decoding(path):.1f} MB/s by processor time")


def decoding(path: Path) -> float:
    """How fast this machine decodes the same file right now: what to compare the speed above with."""
    from recompact.harnesses.transcripts.files import decode

    started, size = time.process_time(), 0
    with path.open("rb") as file:
        for line in file:
            decode(line)
            size += len(line)
    return size / 1e6 / (time.process_time() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1000, help="MB")
    parser.add_argument("--file", type=Path, help="audit this file or folder instead")
    given = parser.parse_args()
    if given.file:
        audit(given.file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.jsonl"
        write(path, given.size * 1_000_000)
        subprocess.run([sys.executable, __file__, "--file", str(path)], check=True)


if __name__ == "__main__":
    main()
