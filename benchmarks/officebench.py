"""How long each action of OfficeBench takes, and a snapshot and its restore.

    python benchmarks/officebench.py --tasks TREE        # or RECOMPACT_OFFICEBENCH; a table, in milliseconds
    python benchmarks/officebench.py --tasks TREE --json

Every template of the tree is laid out once; all its documents are read, those that apps can change are changed, and
every app is used. Conversions are shown but are not part of the median of all actions, which is expected to be below 10
ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recompact.environments.inprocess import InProcessSuite
from recompact.environments.protocol import Task
from recompact.suites.officebench.suite import OfficeBenchEnvironment, OfficeBenchSuite
from recompact.values.trajectory import Action

Call = tuple[str, dict[str, Any]]
READERS = {".xlsx": ("excel", "file_path"), ".docx": ("word", "file_path"), ".pdf": ("pdf", "pdf_file_path")}


def calls(testbed: Path) -> Iterator[Call]:
    """Something to do with everything in a testbed."""
    names = sorted(str(path.relative_to(testbed)) for path in testbed.rglob("*") if path.is_file())
    for name in names:
        suffix = Path(name).suffix
        if suffix in READERS:
            app, argument = READERS[suffix]
            yield f"{app}.read_file", {argument: name}
        if suffix == ".xlsx":
            yield "excel.set_cell", {"file_path": name, "row_idx": 2, "column_idx": 2, "text": "17"}
            yield "excel.convert_to_pdf", {"excel_file_path": name, "pdf_file_path": f"{name}.pdf"}
        if suffix == ".docx":
            yield "word.write_to_file", {"file_path": name, "contents": "One more sentence."}
            yield "word.convert_to_pdf", {"word_file_path": name, "pdf_file_path": f"{name}.pdf"}
        if suffix == ".ics":
            yield "calendar.list_events", {"username": Path(name).stem}
        if suffix == ".eml":
            yield "email.read_email", {"username": Path(name).parent.name, "email_id": Path(name).name}
    hours = {"time_start": "2020-05-08 10:00:00", "time_end": "2020-05-08 11:00:00"}
    yield "calendar.create_event", {"user": "Alice", "summary": "Training", **hours}
    yield "email.send_email", {"sender": "Alice", "recipient": "Bob", "subject": "Training", "content": "On Friday."}
    yield "email.list_emails", {"username": "Bob"}
    yield "shell.command", {"command": "ls -R"}
    yield "calculator.calculate", {"expression": "(78 + 75) / 2"}
    yield "system.finish_task", {"answer": "None"}


async def measure(suite: OfficeBenchSuite, tasks: Sequence[Task]) -> dict[str, list[float]]:
    """Seconds by action, snapshot and restore among them."""
    seconds: dict[str, list[float]] = {}
    for task in tasks:
        environment = suite.environment(task)
        began = time.perf_counter()
        environment.start()
        seconds.setdefault("start", []).append(time.perf_counter() - began)
        for name, arguments in list(calls(environment.directory / "testbed")):
            began = time.perf_counter()
            observation = environment.step(Action("act", {"action": name, "arguments": arguments}))
            seconds.setdefault(name, []).append(time.perf_counter() - began)
            if observation.error:
                print(f"task {task.id}: {name} failed: {observation.text.splitlines()[0]}")
        environment.close()
        await measure_restoring(suite, task, seconds)
    return seconds


async def measure_restoring(suite: OfficeBenchSuite, task: Task, seconds: dict[str, list[float]]) -> None:
    episode = InProcessSuite(suite).episode(task)
    await episode.start()
    began = time.perf_counter()
    snapshot = await episode.snapshot()
    seconds.setdefault("snapshot", []).append(time.perf_counter() - began)
    assert snapshot is not None
    began = time.perf_counter()
    await episode.restore(snapshot)
    seconds.setdefault("restore", []).append(time.perf_counter() - began)
    await episode.close()


def warm(suite: OfficeBenchSuite, task: Task) -> None:
    """Import the libraries, which an episode does once."""
    environment: OfficeBenchEnvironment = suite.environment(task)
    environment.start()
    for name, arguments in calls(environment.directory / "testbed"):
        environment.step(Action("act", {"action": name, "arguments": arguments}))
    environment.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", help="the task tree; without it, RECOMPACT_OFFICEBENCH")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    suite = OfficeBenchSuite(args.tasks)
    every = [*suite.tasks("train"), *suite.tasks("test")]
    templates = list({task.data["template"]: task for task in every}.values())
    warm(suite, next(task for task in templates if task.id.startswith("1-15")))
    seconds = asyncio.run(measure(suite, templates))
    actions = {name: taken for name, taken in seconds.items() if "." in name and ".convert_" not in name}
    rows = {**seconds, "all actions but conversions": [value for taken in actions.values() for value in taken]}
    table = [
        {"what": name, "median_ms": statistics.median(taken) * 1000, "p95_ms": p95(taken) * 1000, "n": len(taken)}
        for name, taken in rows.items()
    ]
    if args.json:
        print(json.dumps(table, indent=1))
        return
    print(f"{'':30}{'median':>9}{'p95':>9}{'n':>6}   (milliseconds)")
    for row in table:
        print(f"{row['what']:30}{row['median_ms']:9.1f}{row['p95_ms']:9.1f}{row['n']:6}")


def p95(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


if __name__ == "__main__":
    main()
