"""Would the tests notice? A random sample of small changes to the code (mutants), each of which should fail a test.

    make mutants                            # 150 mutants, seed 1
    make mutants SAMPLE=60 SEED=2
    python benchmarks/mutants.py --package attribution --sample 40

The operators are those of cosmic-ray. A mutant first meets the tests of its own package that run the changed line,
shortest files first, then others that run it, up to a limit of time. Everything happens in copies of the tree in a
temporary directory. One process imports all tests and forks for each mutant, whose functions then get the changed code;
what an import runs is changed on disk, for a pytest of its own. What a test has killed stays killed while its module is
the same, so that a sample can be stopped and resumed; survivors are tried again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

from mutation.changes import Mutant, difference, in_function, mutate, sample_mutants
from mutation.processes import NOT_PUT, WarmTests, copy_of_tree, pytest_in
from mutation.selection import OWN, WIDER, Selection
from mutation.witnesses import CACHE, PACKAGES, ROOT, digest

EQUIVALENT = ROOT / "benchmarks" / "equivalent_mutants.toml"


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant. `fate` is killed, slow (it ran into the time limit), survived or equivalent."""

    mutant: Mutant
    fate: str
    by: str
    diff: str


@cache
def equivalents() -> dict[tuple[str, str], str]:
    """Mutants that no test can tell from the original, each with the reason, by module and difference."""
    if not EQUIVALENT.exists():
        return {}
    entries = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return {(entry["module"], _plain(entry["diff"])): entry["why"] for entry in entries}


def _plain(diff: str) -> str:
    """Without blanks, and without the order of lines."""
    return "\n".join(sorted("".join(line.split()) for line in diff.splitlines() if line.strip()))


def judge(mutant: Mutant, warm: WarmTests, tests: Selection) -> Verdict:
    file = warm.tree / mutant.module
    text = file.read_text()
    code = mutate(mutant, text)
    diff = difference(text, code)
    if why := equivalents().get((mutant.module, _plain(diff))):
        return Verdict(mutant, "equivalent", why, diff)
    some = False
    for by in (OWN, WIDER):
        if not (names := tests.of(mutant, by)):
            continue
        some = True
        seconds = 20 + 4 * sum(tests.seconds.get(name, 1.0) for name in names)
        exit_code = _exit_code(mutant, code, warm, names, seconds)
        if exit_code != 0:
            return Verdict(mutant, "slow" if exit_code is None else "killed", by, diff)
    return Verdict(mutant, "survived", "" if some else "no test runs it", diff)


def _exit_code(mutant: Mutant, code: str, warm: WarmTests, names: Sequence[str], seconds: float) -> int | None:
    """The exit code of the tests on a mutant: 0 where all pass, None at the time limit."""
    file = warm.tree / mutant.module
    text = file.read_text()
    compiled = Path(importlib.util.cache_from_source(str(file)))  # dated to the second, which is too coarse here
    compiled.unlink(missing_ok=True)
    (warm.tree / "chosen-tests").write_text("\n".join(names))
    try:
        file.write_text(code)  # also for the processes that tests start
        if in_function(mutant, warm.tree) and mutant.line not in warm.imported.get(mutant.module, ()):
            exit_code = warm.judge(mutant, code, names, seconds)
            if exit_code != NOT_PUT:
                return exit_code
        return pytest_in(warm.tree, ["@chosen-tests"], seconds)
    finally:
        file.write_text(text)
        compiled.unlink(missing_ok=True)


def verdicts(sample: Sequence[Mutant], workers: int) -> list[Verdict]:
    CACHE.mkdir(parents=True, exist_ok=True)
    known = CACHE / "killed.jsonl"
    killed = {tuple(key): verdict for key, verdict in map(json.loads, _lines(known))}
    done: dict[Mutant, Verdict] = {}
    for mutant in sample:
        if record := killed.get(_key(mutant)):
            done[mutant] = Verdict(mutant, *record)
    waiting = [mutant for mutant in sample if mutant not in done]
    Random(len(sample)).shuffle(waiting)  # so that those that were judged are a sample too, wherever it is stopped
    print(f"{len(sample)} mutants, {len(done)} of them killed before", flush=True)
    if not waiting:
        return [done[mutant] for mutant in sample]
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copies = [WarmTests(copy_of_tree(Path(scratch) / str(number))) for number in range(workers)]
        idle: SimpleQueue[WarmTests] = SimpleQueue()
        tests = Selection(copies[0])
        for warm in copies:
            idle.put(warm)

        def work(mutant: Mutant) -> Verdict:
            warm, begin = idle.get(), time.monotonic()
            try:
                verdict = judge(mutant, warm, tests)
            finally:
                idle.put(warm)
            print(f"{verdict.fate:10} {time.monotonic() - begin:5.1f} s  {mutant.name}", flush=True)
            if verdict.fate == "survived":
                print(verdict.diff, flush=True)
            return verdict

        pool = ThreadPoolExecutor(workers)
        try:
            with known.open("a") as out:
                for future in as_completed([pool.submit(work, mutant) for mutant in waiting]):
                    verdict = future.result()
                    done[verdict.mutant] = verdict
                    if verdict.fate in ("killed", "slow"):
                        out.write(json.dumps([_key(verdict.mutant), [verdict.fate, verdict.by, verdict.diff]]) + "\n")
                        out.flush()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for warm in copies:
                warm.close()
    return [done[mutant] for mutant in sample]


def _key(mutant: Mutant) -> tuple[str, ...]:
    return (mutant.module, digest(ROOT / mutant.module), mutant.operator, str(mutant.occurrence))


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def table(everything: Sequence[Verdict]) -> list[dict[str, Any]]:
    rows = []
    for package in [*dict.fromkeys(verdict.mutant.package for verdict in everything), "all"]:
        own = [verdict for verdict in everything if package in (verdict.mutant.package, "all")]
        killed = [verdict for verdict in own if verdict.fate in ("killed", "slow")]
        survived = sum(verdict.fate == "survived" for verdict in own)
        counted = len(killed) + survived
        rows.append(
            {
                "package": package,
                "mutants": len(own),
                "killed": len(killed),
                "by its own tests": sum(verdict.by == OWN for verdict in killed),
                "by time": sum(verdict.fate == "slow" for verdict in killed),
                "survived": survived,
                "equivalent": len(own) - counted,
                "share killed": len(killed) / counted if counted else 1.0,
            }
        )
    return rows


def show(everything: Sequence[Verdict]) -> None:
    rows = table(everything)
    columns = list(rows[0])
    print("  ".join(f"{name:>{max(len(name), 11)}}" for name in columns))
    for row in rows:
        cells = [f"{row[name]:.1%}" if isinstance(row[name], float) else str(row[name]) for name in columns]
        print("  ".join(f"{cell:>{max(len(name), 11)}}" for name, cell in zip(columns, cells, strict=True)))
    for fate in ("survived", "equivalent"):
        for verdict in everything:
            if verdict.fate == fate:
                print(f"\n{fate}: {verdict.mutant.name}{verdict.by and f' ({verdict.by})'}\n{verdict.diff}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=150, help="how many mutants, the same number for each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", choices=list(PACKAGES), action="append", help="only this one; can be repeated")
    parser.add_argument("--workers", type=int, default=1, help="copies of the tree that are worked in at once")
    parser.add_argument("--at-least", type=float, default=0.9, help="exit code 1 if a smaller share is killed")
    parser.add_argument("--list", action="store_true", help="only show the sample")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copies are removed
    sample = sample_mutants(ROOT, options.sample, options.seed, options.package or list(PACKAGES))
    if options.list:
        for mutant in sample:
            text = (ROOT / mutant.module).read_text()
            print(f"{mutant.name}\n{difference(text, mutate(mutant, text))}\n")
        return
    everything = verdicts(sample, options.workers)
    if options.json:
        print(json.dumps({"table": table(everything), "mutants": [asdict(verdict) for verdict in everything]}))
    else:
        show(everything)
    sys.exit(table(everything)[-1]["share killed"] < options.at_least)


if __name__ == "__main__":
    main()
