"""The verdict, in a process in which no agent's code has run and which alone sees the ground truth.

The grader is an environment like any other: its one action is the evidence of an episode, the files in which the engine
keeps the apps' changes, as one compressed text. Unpacking it trusts nothing: it comes from a process in which an
agent's code ran.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree

from recompact.environments.protocol import Observation, Opening
from recompact.suites.appworld.world import EXPERIMENT, private_root
from recompact.values.chat import system
from recompact.values.trajectory import Action, Score

MOST_CHARACTERS = 3_500_000
"""In the compressed text, which has a few thousand in a typical episode."""

_MOST_BYTES = 256 * 1024 * 1024  # when unpacked
_FILE = re.compile(r"[a-z_]{1,40}\.jsonl?")


class Unusable(ValueError):
    """Unusable evidence; the text says why."""


def pack(files: Mapping[str, str]) -> str:
    text = base64.b64encode(zlib.compress(json.dumps(files).encode())).decode()
    if len(text) > MOST_CHARACTERS:
        raise Unusable(f"the episode has changed too much to be judged: {len(text):,} characters, compressed")
    return text


def unpack(text: object) -> dict[str, str]:
    """The files by name. Raises Unusable for what cannot be such files; it may come from an agent."""
    if not isinstance(text, str):
        raise Unusable("it is not a text")
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        files = json.loads(data) if unpacking.eof else None
    except (ValueError, zlib.error, RecursionError):
        files = None
    if not isinstance(files, dict):
        raise Unusable("it cannot be unpacked")
    for name, content in files.items():
        if not _FILE.fullmatch(name) or not isinstance(content, str):
            raise Unusable(f"{name[:80]!r} is not a file of the apps' state")
    return files


class Grader:
    """An `Environment` that judges one episode."""

    snapshots = "replay"

    def __init__(self, data: Path) -> None:
        self._data = data
        self._root = Path()
        self._score = Score.of(False, reason="no evidence was given")

    def start(self) -> Opening:
        self._root = private_root(self._data)
        return Opening((system("Evidence in, a verdict out."),), ())

    def step(self, action: Action) -> Observation:
        self._score = self._judge(str(action.arguments["task"]), action.arguments.get("evidence"))
        return Observation("judged", done=True)

    def score(self) -> Score:
        return self._score

    def snapshot(self) -> bytes:
        raise NotImplementedError

    def restore(self, state: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass  # its directory goes with the host

    def _judge(self, task: str, evidence: object) -> Score:
        if not re.fullmatch(r"[0-9A-Za-z]{1,40}_[0-9]{1,9}", task):
            raise ValueError(f"{task[:80]!r} is not an id of a task")
        try:
            files = unpack(evidence)
        except Unusable as unusable:
            return Score.of(False, reason=f"the evidence is unusable: {unusable}")
        place = self._root / "experiments" / "outputs" / EXPERIMENT / "tasks" / task / "dbs"
        rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, text in files.items():
            (place / name).write_text(text, encoding="utf-8")
        if reason := self._unusable(task, place):
            return Score.of(False, reason=f"the apps' state cannot be loaded ({reason})")
        evaluator = importlib.import_module("appworld.evaluator")
        tests = evaluator.evaluate_task(task, EXPERIMENT, suppress_errors=True, save_report=False)
        labels = [failure["label"] for failure in tests.failures]
        details = {"tests": tests.num_tests, "passed": tests.pass_count, "difficulty": tests.difficulty}
        # The texts of the tests say what the task wants: they stay with the ground truth.
        return Score.of(tests.success, **details, collateral_damage=labels.count("no_op_pass"))

    def _unusable(self, task: str, place: Path) -> str:
        """Why the engine refuses what an episode left behind, if it does: that failure is the agent's doing."""
        models = importlib.import_module("appworld.collections.models").ModelCollection
        apps = importlib.import_module("appworld.apps").get_all_apps(skip_admin=True)
        try:
            models.load(to_db_home_path=f":memory:evidence-{task}", from_db_home_path=str(place), load_apps=list(apps))
        except Exception as error:
            return type(error).__name__
        return ""
