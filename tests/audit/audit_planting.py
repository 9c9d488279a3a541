"""Sessions with planted losses, written in the formats of several harnesses, and the truth about each of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

CWD = "/home/dev/app"


@dataclass
class PlantedCall:
    """A call, its result, and what is planted in it."""

    tool: str
    arguments: dict[str, Any]
    result: str
    failed: bool = False
    plants: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)  # literals used that were dropped and are not in the summary
    covered: set[str] = field(default_factory=set)


@dataclass
class Said:
    text: str


@dataclass
class Compact:
    summary: str
    kept: int  # calls


Script = list[PlantedCall | Said | Compact]


@dataclass(frozen=True)
class Planted:
    """A written session: its lines, and for each kind of plant the lines that have it."""

    lines: list[str]
    truth: dict[str, set[int]]
    missing: set[tuple[int, str]]
    covered: set[tuple[int, str]]


def read(path: str, first: int, lines: list[str], **plant: Any) -> PlantedCall:
    text = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(lines[first - 1 : first + 39], first))
    return PlantedCall("read", {"path": path, "offset": first, "limit": 40}, text, **plant)


def shell(command: str, result: str, **plant: Any) -> PlantedCall:
    return PlantedCall("bash", {"command": f"cd {CWD} && {command}"}, result, **plant)


def script(rng: random.Random, keeps: bool) -> Script:
    """A session: work, a compaction, and then work of which some is planted."""

    def word() -> str:
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=9))

    files = {
        f"{CWD}/src/{word()}/{word()}.py": [f"value = call_{word()}({n}, {word()})" for n in range(120)]
        for _ in range(40)
    }
    paths = list(files)
    edit = iter(range(1000))

    def change(path: str) -> PlantedCall:
        body = {"path": path, "oldText": word(), "newText": f"{word()} {next(edit)}"}
        return PlantedCall("edit", body, f"Edited {path}: replaced text")

    setup = [(f"pip install {word()}", f"ERROR: No matching distribution found for {word()}") for _ in range(3)]
    named = [f"fetch_{word()}" for _ in range(12)]
    before: Script = [Said("Please go on with the work.")]
    before.append(shell("./list_names.sh", "\n".join(f"def {each}(argument): return None" for each in named)))
    for place in range(60):
        path = paths[place % 15]
        first = 1 + 40 * (place // 15 % 3)
        if place % 4 == 3:
            before.append(change(paths[20 + place % 5]))
        else:
            before.append(read(path, first, files[path]))
    before.append(change(paths[31]))  # the last edit: what fails again later does so with nothing changed
    before += [shell(command, f"Collecting packages\n{error}", failed=True) for command, error in setup]
    late, *others = paths[30], paths[25], paths[26], paths[27]
    before += [read(each, 1, files[each]) for each in (*others, late)]  # the latest calls, which some harnesses keep
    read_ranges = {
        (d.arguments["path"], d.arguments["offset"]) for d in before if isinstance(d, PlantedCall) and d.tool == "read"
    }
    dropped = [each for each in sorted(read_ranges) if each[0] not in (late, *others)]
    in_summary, lost = named[:3], named[3:6]
    summary = "## Goal\nGo on.\n" + " ".join(in_summary)
    after: Script = [Said(f"Continue with {named[6]}.")]
    again = rng.sample(dropped, 4)
    for path, first in again[:2]:
        after.append(read(path, first, files[path], plants={"refetch", "reread"}, missing={path[len(CWD) + 1 :]}))
    path, first = again[2]
    after.append(shell(f"rg -n call {word()}", "\n".join(files[path][first : first + 12]), plants={"refetch"}))
    fresh = rng.sample(paths[32:], 3)
    after += [read(path, 1, files[path]) for path in fresh]
    after.append(read(*again[0], files[again[0][0]]))  # read since: no loss any more
    lost_late: dict[str, Any] = {"plants": {"refetch", "reread"}, "missing": {late[len(CWD) + 1 :]}}
    after.append(read(late, 1, files[late], **({} if keeps else lost_late)))
    command, error = setup[0]
    after.append(shell(command, f"Collecting packages\n{error}", failed=True, plants={"failure"}, missing={command}))
    after.append(
        shell(setup[1][0], "Successfully installed", missing={setup[1][0]})
    )  # the same command, which works now
    after.append(shell(f"pip install {word()}", f"ERROR: No matching distribution found for {word()}", failed=True))
    after += [change(fresh[0]), shell("pytest -q", f"FAILED test_{word()}: AssertionError: {word()}", failed=True)]
    after += [
        shell(f"rg -n {each} src", f"def {each}(argument): return {word()}_{word()}", missing={each})
        for each in lost[:2]
    ]
    after.append(shell(f"rg -n {in_summary[0]} src", f"used {word()} in {word()} {word()}", covered={in_summary[0]}))
    after.append(shell(f"rg -n {named[6]} src", "no matches"))  # the user has named it
    after.append(shell(f"rg -n new_{word()} src", "no matches"))  # never seen before
    return [*before, Compact(summary, 4 if keeps else 0), *after]


Writer = Callable[[Script], tuple[list[str], dict[int, int]]]


def planted(seed: int, writer: Writer, keeps: bool) -> Planted:
    """A session in one format, with the truth by line."""
    made = script(random.Random(seed), keeps)
    lines, places = writer(made)
    truth: dict[str, set[int]] = {"refetch": set(), "reread": set(), "failure": set()}
    missing, covered = set(), set()
    for number, item in enumerate(made):
        if isinstance(item, PlantedCall):
            for plant in item.plants:
                truth[plant].add(places[number])
            missing |= {(places[number], each) for each in item.missing}
            covered |= {(places[number], each) for each in item.covered}
    return Planted(lines, truth, missing, covered)


def claude_code(made: Script) -> tuple[list[str], dict[int, int]]:
    names = {"read": "Read", "edit": "Edit", "bash": "Bash", "plan": "TodoWrite", "search": "Grep"}
    keys = {"path": "file_path", "oldText": "old_string", "newText": "new_string"}
    lines: list[str] = []
    places = {}
    parent: str | None = None

    def add(kind: str, message: dict[str, Any], **more: Any) -> None:
        nonlocal parent
        uuid = f"u{len(lines)}"
        base = {"isSidechain": False, "sessionId": "s", "version": "2.1.7", "cwd": CWD, "uuid": uuid}
        lines.append(json.dumps({**base, "type": kind, "parentUuid": parent, "message": message, **more}))
        parent = uuid

    for number, item in enumerate(made):
        if isinstance(item, Said):
            add("user", {"role": "user", "content": item.text})
        elif isinstance(item, Compact):
            parent = None
            add("system", {}, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 150_000})
            add("user", {"role": "user", "content": item.summary}, isCompactSummary=True)
        else:
            given = {keys.get(key, key): value for key, value in item.arguments.items()}
            use = {"type": "tool_use", "id": f"t{number}", "name": names[item.tool], "input": given}
            add("assistant", {"id": f"m{number}", "role": "assistant", "content": [use]})
            places[number] = len(lines)
            result = {
                "type": "tool_result",
                "tool_use_id": f"t{number}",
                "content": item.result,
                "is_error": item.failed,
            }
            add("user", {"role": "user", "content": [result]})
    return lines, places


def pi(made: Script) -> tuple[list[str], dict[int, int]]:
    lines = [json.dumps({"type": "session", "version": 3, "id": "s", "cwd": CWD})]
    places: dict[int, int] = {}
    calls: list[str] = []

    def add(record: dict[str, Any]) -> str:
        key = f"e{len(lines)}"
        parent = f"e{len(lines) - 1}" if len(lines) > 1 else None
        lines.append(json.dumps({"id": key, "parentId": parent, **record}))
        return key

    for number, item in enumerate(made):
        if isinstance(item, Said):
            add({"type": "message", "message": {"role": "user", "content": item.text}})
        elif isinstance(item, Compact):
            kept = calls[-item.kept] if item.kept else f"e{len(lines)}"
            add({"type": "compaction", "summary": item.summary, "firstKeptEntryId": kept, "tokensBefore": 150_000})
        else:
            use = {"type": "toolCall", "id": f"t{number}", "name": item.tool, "arguments": item.arguments}
            calls.append(add({"type": "message", "message": {"role": "assistant", "content": [use]}}))
            places[number] = len(lines)
            content = [{"type": "text", "text": item.result}]
            result = {"role": "toolResult", "toolCallId": f"t{number}", "content": content, "isError": item.failed}
            add({"type": "message", "message": result})
    return lines, places


def codex(made: Script) -> tuple[list[str], dict[int, int]]:
    lines = [json.dumps({"type": "session_meta", "payload": {"id": "s", "cwd": CWD, "cli_version": "0.142.2"}})]
    places = {}

    def item_of(**payload: Any) -> None:
        lines.append(json.dumps({"type": "response_item", "payload": payload}))

    for number, item in enumerate(made):
        if isinstance(item, Said):
            item_of(type="message", role="user", content=[{"type": "input_text", "text": item.text}])
        elif isinstance(item, Compact):
            lines.append(
                json.dumps({"type": "compacted", "payload": {"message": item.summary, "replacement_history": []}})
            )
        else:
            given = item.arguments
            if item.tool == "read":
                first = given["offset"]
                command = f"nl -ba {given['path']} | sed -n '{first},{first + given['limit'] - 1}p'"
            elif item.tool == "edit":
                command = f"sed -i 's/{given['oldText']}/{given['newText']}/' {given['path']}"
            else:
                command = given["command"]
            arguments = json.dumps({"cmd": command, "workdir": CWD, "yield_time_ms": number})
            item_of(type="function_call", name="exec_command", arguments=arguments, call_id=f"t{number}")
            places[number] = len(lines)
            head = f"Chunk ID: {number:06x}\nWall time: 0.1 seconds\nProcess exited with code {int(item.failed)}\n"
            output = f"{head}Original token count: 9\nOutput:\n{item.result}"
            item_of(type="function_call_output", call_id=f"t{number}", output=output)
    return lines, places


WRITERS: dict[str, tuple[Writer, bool]] = {
    "claude-code": (claude_code, False),
    "pi": (pi, True),
    "codex": (codex, False),
}
