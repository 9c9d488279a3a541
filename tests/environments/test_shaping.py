"""The door: whatever comes, a shaped value comes out, or a sentence that says what was expected."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from examples import examples
from hypothesis import given, strategies as st

from recompact.cli.main import cli
from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessEpisode, InProcessSuite
from recompact.environments.protocol import EnvironmentFailed, Observation, SuiteFailed, Task
from recompact.environments.shaping import WrongShape, shape_json, shape_observation, shape_score, shape_tasks
from recompact.values.chat import canonical
from recompact.values.trajectory import Score

anything: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.decimals()
    | st.dates()
    | st.datetimes()
    | st.uuids()
    | st.fractions()
    | st.complex_numbers()
    | st.builds(object)
    | st.sampled_from([int, len, Path("x"), range(3), iter(())]),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters()) | st.integers() | st.none() | st.tuples(st.integers()), inner)
        | st.sets(st.integers() | st.text())
    ),
    max_leaves=20,
)
plain: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(anything)
@examples(300)
def test_anything_becomes_json_or_is_refused_and_shaping_again_changes_nothing(value: Any) -> None:
    try:
        shaped = shape_json(value, "it")
    except WrongShape:
        return
    assert json.loads(canonical(shaped).encode()) == shaped
    assert shape_json(shaped, "it") == shaped


@given(plain)
@examples(200)
def test_json_passes_as_it_is(value: Any) -> None:
    assert canonical(shape_json(value, "it")) == canonical(value)
    assert canonical(shape_json(value, "it", exact=True)) == canonical(value)


@given(anything, anything, anything)
@examples(300)
def test_a_value_is_shaped_or_refused_in_words(one: Any, two: Any, three: Any) -> None:
    for shape, value in (
        (shape_observation, Observation(one, two, three)),
        (shape_score, Score(one, two, three)),
        (shape_observation, one),
        (shape_score, two),
    ):
        try:
            shaped = shape(value)
        except WrongShape as reason:
            text = str(reason)
        else:
            assert isinstance(shaped, Observation | Score)
            continue
        assert "expected" in text
        text.encode()


class Listing:
    name = "listing"

    def __init__(self, tasks: Any) -> None:
        self._tasks = tasks

    def splits(self) -> tuple[str, ...]:
        return ("train",)

    def tasks(self, split: str) -> Any:
        return self._tasks

    def environment(self, task: Task) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("tasks", "excerpt"),
    [
        ([Task("a", "x"), Task("b", "x"), Task("a", "y")], "more than one task has the id 'a'"),
        ([Task(str(n % 7), "x") for n in range(14)], r"'0', '1', '2', '3', '4' and 2 more"),
        ([Task("", "x")], "none of them a control character, was expected for the id of a task, not ''"),
        ([Task(5, "x")], "a str was expected for the id of a task, not an int"),  # type: ignore[arg-type]
        ([Task("a\nb", "x")], r"not 'a\\nb'"),
        ([Task("a\x1b[31m", "x")], "control character"),
        ([Task("\ud800", "x")], "control character"),
        ([Task("a", None)], "task 'a': a str was expected for its text, not None"),  # type: ignore[arg-type]
        ([Task("a", "x", ["g"])], "task 'a': a mapping was expected for its groups"),  # type: ignore[arg-type]
        (["a"], "a sequence of Tasks was expected, not one with 'a'"),
        (None, "a sequence of Tasks was expected for what was returned, not None"),
        ((Task(str(n), "x") for n in iter(int, 1)), "at most 200,000 Tasks|more than one task"),
        ("abc", "a sequence of Tasks was expected"),
    ],
)
async def test_tasks_that_cannot_be_told_apart_are_an_error_that_names_them(tasks: Any, excerpt: str) -> None:
    with pytest.raises(SuiteFailed, match=excerpt) as refused:
        await InProcessSuite(Listing(tasks)).tasks("train")
    assert str(refused.value).startswith("suite listing: tasks ")


def test_data_that_has_to_travel_must_be_json() -> None:
    assert shape_tasks([Task("a", "x", data={"f": len})])[0].data == {"f": len}
    with pytest.raises(WrongShape, match=r"task 'a': .*builtin_function"):
        shape_tasks([Task("a", "x", data={"f": len})], travels=True)


@pytest.mark.parametrize("name", [None, 5, "", "a\nb"])
def test_a_suite_needs_a_name(name: Any) -> None:
    suite = Listing([])
    suite.name = name
    with pytest.raises(SuiteFailed, match="name"):
        InProcessSuite(suite)


HOSTED = """
from recompact.environments.protocol import Task
class Suite:
    name = "twice"
    def splits(self): return ("train",)
    def tasks(self, split): return [Task("a", "x"), Task("a", "x")]
    def environment(self, task): raise asyncio.CancelledError
"""


async def test_a_hosted_suite_is_held_to_the_same(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(HOSTED)
    with pytest.raises(SuiteFailed, match=r"suite twice\.py:Suite: tasks .*the id 'a'"):
        await HostedSuite("twice.py:Suite", {}, tmp_path, timeout=20).tasks("train")


ENDING = """
import asyncio
from recompact.environments.protocol import Task
class Env:
    def start(self): raise asyncio.CancelledError
    def close(self): raise SystemExit(0)
class Suite:
    name = "ending"
    def splits(self): return ("train",)
    def tasks(self, split): return [Task(f"t{n}", "x") for n in range(3)]
    def environment(self, task): return Env()
"""


def test_a_run_whose_tasks_are_all_broken_has_them_all_on_record(tmp_path: Path) -> None:
    (tmp_path / "ending.py").write_text(ENDING)
    (tmp_path / "c.toml").write_text('[suite]\nuse = "ending.py:Suite"')
    ran = CliRunner().invoke(cli, ["collect", str(tmp_path / "c.toml"), "--json"])
    data = json.loads(ran.stdout)
    assert data["digest"] is None or not data["digest"].startswith("e3b0c442")  # the digest of nothing
    shown = CliRunner().invoke(cli, ["show", str(tmp_path / "runs" / "c.db"), "t1", "--json"])
    assert "start raised CancelledError" in shown.stdout


INTERRUPTED = """
import asyncio, os, signal, sys
from recompact.environments.inprocess import InProcessEpisode

class Slow:
    def start(self):
        print("started", flush=True)
        while True:
            pass
    def close(self): pass

async def main():
    await InProcessEpisode(Slow(), "t").start()

asyncio.run(main())
"""


def test_ctrl_c_still_ends_the_program() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    for _ in range(2):  # the first one cancels the task, which does not listen
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.3)
        except subprocess.TimeoutExpired:
            continue
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert errors.rstrip().endswith("KeyboardInterrupt")


async def test_an_interrupt_of_the_environments_own_is_its_own_failure() -> None:
    class Interrupting:
        def start(self) -> Any:
            raise KeyboardInterrupt

        def close(self) -> None: ...

    with pytest.raises(EnvironmentFailed, match="start raised KeyboardInterrupt"):
        await InProcessEpisode(Interrupting(), "t").start()  # type: ignore[arg-type]
    await asyncio.sleep(0)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_how_deep_json_may_be_does_not_depend_on_the_python(opening: str, closing: str) -> None:
    def nested(depth: int) -> Any:
        value: Any = "[" * 1000 + '"{'
        for _ in range(depth):
            value = [value] if opening == "[" else {"a": value}
        return value

    assert shape_json(nested(400), "it") == nested(400)
    for depth in (501, 800):
        with pytest.raises(WrongShape, match=rf"\b500 deep\b.*\b{depth}\b"):
            shape_json(nested(depth), "it")
