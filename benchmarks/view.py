"""How fast the viewer shows runs of 1,000, 10,000 and 100,000 boundaries, and how much memory it takes.

    python benchmarks/view.py                # under two minutes, most of it for making the records
    python benchmarks/view.py --sizes 1000

Records are made up and written as rows; each view is then requested over HTTP from a server in a process of its own.
The goal is a first page in under a second and under 300 MB at 100,000 boundaries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from urllib.parse import quote

from recompact.attribution.continuations import continuation_unit
from recompact.attribution.judgement import store_verdicts
from recompact.engine.config import VerifyConfig
from recompact.engine.store.records import write_continuation, write_trajectory
from recompact.engine.store.store import Store
from recompact.values.chat import system, user
from recompact.values.context import Context
from recompact.values.trajectory import Score, Trajectory
from report import _boundary, _claim, _continuations, _turns  # the same made-up office

SIZES = (1_000, 10_000, 100_000)
EACH = 3  # boundaries of a trajectory
PREFIX = (system("You are an agent in a made-up office."), user("Do what the task says."))


def make_run(path: Path, boundaries: int) -> None:
    """One real trajectory with its continuations, and its rows again under other names: the views read rows, and texts
    of the one that is opened."""
    with Store.open(path) as store:
        _claim(store, "verify")
        store.set_metadata(replace(store.metadata, verified=asdict(VerifyConfig(allocation="uniform:3"))))
        task, unit = "office-000", "collect/office-000"
        whole = tuple(_boundary(task, index) for index in range(1, EACH + 1))
        trajectory = Trajectory(task, _turns(task, 24), whole, "finished", Score.of(False), Context(PREFIX))
        write_trajectory(store, unit, trajectory, phase="collect", run=0, groups={"kind": "0"}, seconds=0.0)
        for boundary in whole:
            for arm, draw, continuation in _continuations(task, boundary):
                name = continuation_unit(task, boundary.index, arm, draw)
                write_continuation(store, name, unit, boundary.index, arm, draw, continuation, seconds=0.0)
        _copy_rows(store, -(-boundaries // EACH))
        store_verdicts(store, VerifyConfig(allocation="uniform:3"))


def _copy_rows(store: Store, trajectories: int) -> None:
    chance = Random(7)
    with store.transaction():
        store._db.execute("PRAGMA cache_size = -200000")
        tables = {
            t: store._rows(f"SELECT * FROM {t}") for t in ("trajectories", "boundaries", "continuations", "units")
        }
        results = {row["name"]: row for row in tables["units"]}
        for n in range(1, trajectories):
            task, unit = f"office-{n:06d}", f"collect/office-{n:06d}"
            source = dict(tables["trajectories"][0])
            changes = {
                "unit": unit,
                "task": task,
                "success": int(chance.random() < 0.7),
                "steps": chance.randrange(8, 50),
            }
            store.insert("trajectories", {**source, **changes, "groups": json.dumps({"kind": str(n % 9)})})
            store.insert("units", {**dict(results["collect/office-000"]), "name": unit})
            for row in tables["boundaries"]:
                store.insert("boundaries", {**dict(row), "unit": unit})
            for row in tables["continuations"]:
                name = row["name"].replace("office-000", task)
                value = float(chance.random() < 0.8)
                kept = {**dict(row), "name": name, "unit": unit, "value": value, "success": int(value)}
                store.insert("continuations", {**kept, "steps": chance.randrange(3, 20)})
                store.insert("units", {**dict(results[row["name"]]), "name": name})


@contextmanager
def server(directory: Path) -> Iterator[tuple[str, int]]:
    """A viewer in a process of its own: its address and its process id."""
    words = [sys.executable, "-m", "recompact", "view", str(directory), "--json", "--no-open", "--for", "600"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        try:
            yield json.loads("".join(lines))["address"], process.pid
        finally:
            process.terminate()


def fetch(address: str) -> tuple[float, int]:
    """Seconds and bytes of a page."""
    start = time.perf_counter()
    with urllib.request.urlopen(address, timeout=120) as answer:
        return time.perf_counter() - start, len(answer.read())


def peak_memory(process: int) -> float:
    """In MB, since the process began."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(size: int, home: Path) -> dict[str, float]:
    place = home / f"runs-{size}"
    place.mkdir()
    make_run(place / "big.db", size)
    last = f"collect/office-{-(-size // EACH) - 1:06d}"
    views = {
        "runs": "",
        "run": "run/big/",
        "sorted by harm": "run/big/?order=harm",
        "sorted by steps": "run/big/?order=steps",
        "failures": "run/big/?outcome=failure&order=task",
        "a group": "run/big/?group=kind%3D4&order=task",
        "a task": f"run/big/?task={last[-6:]}&order=task",
        "last page": f"run/big/?order=task&offset={size // EACH // 50 * 50}",
        "trajectory": f"run/big/trajectory?unit={quote(last, safe='')}",
        "case": f"run/big/case?unit={quote(last, safe='')}&index=2",
    }
    with server(place) as (address, process):
        seconds = {name: fetch(address + path)[0] for name, path in views.items()}
        return {**seconds, "memory, MB": peak_memory(process)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", help="numbers of boundaries, with commas", default=",".join(map(str, SIZES)))
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    sizes = [int(size) for size in chosen.sizes.split(",")]
    with tempfile.TemporaryDirectory() as scratch:
        measured = {size: measure(size, Path(scratch)) for size in sizes}
    if chosen.json:
        print(json.dumps(measured, indent=2))
        return
    print("".join(f"{head:>18}" for head in ("seconds", *(f"{size:,}" for size in sizes))))
    for name in next(iter(measured.values())):
        digits = 0 if "MB" in name else 2
        print(f"{name:>18}" + "".join(f"{measured[size][name]:>18,.{digits}f}" for size in sizes))


if __name__ == "__main__":
    main()
