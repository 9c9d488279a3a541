"""Released records: runs that others have published, read as arms with their rows as if they were our own.

They come as a file `run_records.jsonl` (one object per task), as a directory that holds such files in one directory per
seed, which is the layout of the authors' repository, or as a CSV with the same fields.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.compressors.protocol import SCOPES
from recompact.engine.store.runs import find_run
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, TaskRun, read_arms
from recompact.evaluation.summary import Evaluation, evaluation
from recompact.values.chat import Usage
from recompact.values.reading import read_small

RECORDS = "run_records.jsonl"
INPUT_ONLY = "agent input"  # a role of its own: input alone is not a total
_SEED = re.compile(r"(?:s|seed|run)[-_]?(\d+)")
_MOST = 1 << 30  # bytes of a file

Record = tuple[str, Mapping[str, Any]]
"""Where it is, for messages, and its fields."""


def is_released(source: str) -> bool:
    """Whether this names released records rather than one of our runs."""
    path = Path(source)
    return path.suffix in (".csv", ".jsonl") or path.is_dir()


def read_released(path: Path) -> tuple[ArmRuns, ...]:
    """The arms that a file or directory of released records holds."""
    if path.is_dir():
        arms = _from_directory(path)
    elif path.suffix == ".csv":
        arms = _from_records(path.stem, _csv_records(path))
    else:
        arms = _from_records(path.parent.name or path.stem, _json_records(path))
    if not arms:
        raise InputError(f"{path} holds no released records: a {RECORDS}, or a CSV with the same fields, is needed")
    return arms


def _from_directory(root: Path) -> tuple[ArmRuns, ...]:
    """One arm for each directory that holds seeds (s1, s2, ...) or records."""
    files: dict[Path, list[tuple[int | None, Path]]] = {}
    try:
        places = sorted(root.resolve().rglob(RECORDS))
    except RecursionError:
        raise InputError(f"{root} cannot be read: its folders are nested too deeply") from None
    for file in places:
        seed = _SEED.fullmatch(file.parent.name)
        home = file.parent.parent if seed else file.parent
        files.setdefault(home, []).append((int(seed[1]) if seed else None, file))
    arms: list[ArmRuns] = []
    for home, seeds in files.items():
        below = home.relative_to(root.resolve()).parts or (home.name,)
        scope = below[-1] if below[-1] in SCOPES else None
        name = "-".join(below[:-1] if scope else below) or root.resolve().name
        records = ((seed, record) for seed, file in seeds for record in _json_records(file))
        arms.append(ArmRuns(name, scope, _rows(records)))
    return tuple(arms)


def _from_records(name: str, records: Iterator[Record]) -> tuple[ArmRuns, ...]:
    """Records of one file, by scope where they name it."""
    by_scope: dict[str | None, list[tuple[int | None, Record]]] = {}
    for record in records:
        scope = record[1].get("scope") or record[1].get("method")
        by_scope.setdefault(str(scope) if scope in SCOPES else None, []).append((None, record))
    return tuple(ArmRuns(name, scope, _rows(iter(own))) for scope, own in by_scope.items())


def _rows(records: Iterator[tuple[int | None, Record]]) -> tuple[TaskRun, ...]:
    """Rows with runs counted from 0 in the order of their seeds. If a task was recorded twice, the last counts."""
    last: dict[tuple[int, str], Record] = {}
    for default, record in records:
        seed = record[1].get("seed", default)
        last[_integer(seed if seed is not None else 0, "seed", record[0]), str(_field(record, "task_id"))] = record
    seeds = sorted({seed for seed, _ in last})
    return tuple(_row(record, task, seeds.index(seed)) for (seed, task), record in last.items())


def _row(record: Record, task: str, run: int) -> TaskRun:
    where, fields = record

    def count(name: str) -> int:
        return _integer(fields.get(name) or 0, name, where)

    usage = {INPUT_ONLY: Usage(input=count("cumulative_input_tokens"))} if "cumulative_input_tokens" in fields else {}
    return TaskRun(
        task=task,
        run=run,
        success=_integer(_field(record, "success"), "success", where) == 1,
        steps=_integer(_field(record, "num_steps"), "num_steps", where),
        compactions=count("n_compressions") if "n_compressions" in fields else None,
        peak_reported=count("peak_prompt_tokens"),
        usage=usage,
        ending=str(fields.get("termination_reason") or ""),
    )


def _field(record: Record, name: str) -> Any:
    where, fields = record
    if fields.get(name) in (None, ""):
        raise InputError(f"{where} has no {name!r}, so it is not the record of a run")
    return fields[name]


def _integer(value: Any, name: str, where: str) -> int:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return int(value.lower() == "true")
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{where}: {name} must be a whole number, not {value!r}") from None


def _json_records(path: Path) -> Iterator[Record]:
    for number, line in enumerate(_text(path).split("\n"), 1):  # other line ends may occur inside a JSON text
        if not line.strip():
            continue
        where = f"{path}, line {number},"
        try:
            fields = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{where} is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise InputError(f"{where} is not a JSON object")
        yield where, fields


def _csv_records(path: Path) -> Iterator[Record]:
    for number, fields in enumerate(csv.DictReader(io.StringIO(_text(path), newline="")), 2):
        yield f"{path}, line {number},", {name: value for name, value in fields.items() if value not in (None, "")}


def _text(path: Path) -> str:
    try:
        text = read_small(path, _MOST)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    return text.removeprefix("\ufeff")  # a byte order mark, which spreadsheets put before the first field


def load_arms(run: str, directory: Path) -> tuple[ArmRuns, ...]:
    """The arms of an evaluation by name or path, or of released records."""
    if is_released(run):
        return read_released(Path(run))
    with Store.read(find_run(run, directory)) as store:
        return read_arms(store)


def load_evaluation(run: str, directory: Path, runs: int | None = None) -> Evaluation:
    """All arms of an evaluation side by side, with its suite and its models; released records name neither."""
    if is_released(run):
        return evaluation(Path(run).stem, read_released(Path(run)), runs=runs)
    with Store.read(find_run(run, directory)) as store:
        return evaluation(
            store.path.stem, read_arms(store), runs=runs, suite=store.metadata.suite, models=models_of(store)
        )


def models_of(store: Store) -> dict[str, str]:
    """The models that answered the calls of a run, by role, as their servers call them."""
    tables = store.metadata.identity.get("models", {})
    by_role: dict[str, list[str]] = {}
    for name, role in sorted(store.spent()):
        by_role.setdefault(role, []).append(str(tables.get(name, {}).get("id", name)))
    return {role: " + ".join(names) for role, names in sorted(by_role.items())}
