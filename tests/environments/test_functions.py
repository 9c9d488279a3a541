"""Suites of plain functions: their splits, the schemas of their tools, and what is refused with a sentence."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal, Optional

import pytest

from recompact.environments.functions import function_suite, json_schema, tool_spec
from recompact.environments.protocol import Task
from recompact.errors import InputError
from recompact.values.trajectory import Action


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def paint(
    what: str,
    color: Color,
    size: Literal["s", "m", 3] = "m",
    dry: bool | None = None,
    names: Optional[list[str]] = None,  # noqa: UP045
    counts: dict[str, int] = {"a": 1},  # noqa: B006
    *,
    coats: int = 2,
    state: dict[str, Any],
) -> str:
    """Paint something."""
    assert isinstance(color, Color)
    return f"{what} {color.name} {size} {dry} {names} {coats}"


def look(room: str) -> str:
    return room


def test_the_schema_of_a_function_tells_all_that_its_signature_does() -> None:
    spec = tool_spec(paint)
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "what": {"type": "string"},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "size": {"type": ["string", "integer"], "enum": ["s", "m", 3], "default": "m"},
            "dry": {"type": ["boolean", "null"]},
            "names": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}, "default": {"a": 1}},
            "coats": {"type": "integer", "default": 2},
        },
        "required": ["what", "color"],
    }


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (list, {"type": "array"}),
        (list[list[int]], {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
        (dict, {"type": "object"}),
        (int | float, {"type": ["integer", "number"]}),
        (Annotated[int, "years"], {"type": "integer"}),
        (Literal[True, None], {"type": ["boolean", "null"], "enum": [True, None]}),
        (Any, {}),
        (str | Any, {}),
    ],
)
def test_schemas(kind: Any, schema: dict[str, Any]) -> None:
    assert json_schema(kind) == schema


def by_position(a: str, /) -> str:
    return a


def with_stars(*rest: str) -> str:
    return ""


def with_keywords(a: str, **rest: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("tool", "sentence"),
    [
        (with_stars, "tool with_stars: the parameter *rest takes any number of arguments, which no schema can tell"),
        (with_keywords, "tool with_keywords: the parameter **rest takes arguments of any name"),
        (by_position, "tool by_position: the parameter a can only be given by position"),
        (lambda: "", "a tool must be a function with a name"),
    ],
)
def test_what_no_agent_can_call_is_refused_with_a_sentence(tool: Any, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        function_suite("s", [tool], {})
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("tools", "tasks", "given"),
    [(look, {"a": ("A?", "a")}, "function"), ([look], [("A?", "a")], "list of 1"), ([look], None, "NoneType")],
)
def test_what_a_suite_is_made_of_is_said_where_it_is_something_else(tools: Any, tasks: Any, given: str) -> None:
    with pytest.raises(InputError, match=f"suite s: its (tools|tasks) must be .* not {given}"):
        function_suite("s", tools, tasks)


def test_an_agent_gives_the_value_of_an_enum_and_the_function_gets_the_member() -> None:
    suite = function_suite("s", [paint], {"t": ("Paint.", "done")})
    environment = suite.environment(Task("t", "Paint."))
    observation = environment.step(Action("paint", {"what": "wall", "color": "red"}))
    assert observation.text == "wall RED m None None 2"
    wrong = environment.step(Action("paint", {"what": "wall", "color": "green"}))
    assert wrong.error
    assert "'green' is not a valid Color" in wrong.text


def ids(suite: Any) -> dict[str, list[str]]:
    return {split: [task.id for task in suite.tasks(split)] for split in suite.splits()}


def test_splits_by_name_or_by_nesting() -> None:
    tasks = {"a": ("A?", "a"), "b": ("B?", "b"), "c": ("C?", "c")}
    assert ids(function_suite("s", [look], tasks)) == {"train": ["a", "b", "c"]}
    by_name = function_suite("s", [look], tasks, splits={"train": ["a", "b"], "test": ["c"]})
    nested = function_suite("s", [look], {"train": {"a": tasks["a"], "b": tasks["b"]}, "test": {"c": tasks["c"]}})
    assert ids(by_name) == ids(nested) == {"train": ["a", "b"], "test": ["c"]}
    environment = nested.environment(nested.tasks("test")[0])
    environment.step(Action("finish", {"answer": "C"}))
    assert environment.score().success
    assert by_name.tasks("dev") == ()


@pytest.mark.parametrize(
    ("tasks", "splits", "sentence"),
    [
        ({"a": ("A?", "a")}, {"test": ["b"]}, "split 'test' names task 'b', which there is not"),
        ({"a": ("A?", "a")}, {"test": "a"}, "split 'test' names not a list of ids"),
        ({"train": {"a": ("A?", "a")}}, {"test": ["a"]}, "by split, or all of them and `splits`, not both"),
        ({"train": {"a": ("A?", "a")}, "b": ("B?", "b")}, None, "by split, or all of them"),
        ({"a": "A?"}, None, "task 'a' of split 'train' must be its text and the answer expected, not str"),
        ({"a": ("A?", 5)}, None, "the answer to task 'a' must be a str or a function"),
        ({"x": {"a": ("A?", "a")}, "y": {"a": ("B?", "a")}}, None, "splits 'x' and 'y' have different tasks 'a'"),
    ],
)
def test_tasks_that_are_wrong_are_named(tasks: Any, splits: Any, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        function_suite("rooms", [look], tasks, splits=splits)
    assert str(refused.value).startswith("suite rooms: ")
    assert sentence in str(refused.value)


def test_what_a_tool_returns_is_shown_as_json_where_it_is_no_text() -> None:
    def many(n: int) -> Any:
        return {"set": {2, 1}, "self": object()} if n else None

    environment = function_suite("s", [many], {"t": ("x", "y")}).environment(Task("t", "x"))
    assert environment.step(Action("many", {"n": 1})).text == '{"set": [1, 2], "self": "⟨object⟩"}'
    assert environment.step(Action("many", {"n": 0})).text == "null"


def look_twice(room: str) -> Any:
    yield room


async def look_twice_async(room: str) -> Any:
    yield room


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        (look_twice, "look_twice is a generator"),
        (look_twice_async, "look_twice_async is an async generator"),
    ],
)
def test_a_tool_whose_call_would_not_run_it_is_refused(tool: Any, kind: str) -> None:
    with pytest.raises(InputError, match=f"suite s: tool {kind}"):
        function_suite("s", [look, tool], {"a": ("?", "x")})


def score_by(check: Any) -> Any:
    environment = function_suite("s", [look], {"a": ("?", check)}).environment(Task("a", "?"))
    environment.step(Action("finish", {"answer": "x"}))
    return environment.score()


@pytest.mark.parametrize(
    ("verdict", "success", "value"),
    [(True, True, 1.0), (False, False, 0.0), (1, True, 1.0), (0, False, 0.0), (0.5, False, 0.5), (1.0, True, 1.0)],
)
def test_a_check_returns_a_bool_or_a_value(verdict: Any, success: bool, value: float) -> None:
    score = score_by(lambda answer, state: verdict)
    assert (score.success, score.value, score.details) == (success, value, {"answer": "x"})
    assert type(score.success) is bool


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ((False, "why"), "a tuple"),
        ("no", "'no'"),
        (None, "None"),
        (float("nan"), "nan"),
        (-0.1, "-0.1"),
        (2, "2"),
        pytest.param(10**5000, "an int", id="huge"),  # too long for Python to write out
        ([], "a list"),
    ],
)
def test_what_else_a_check_returns_is_no_verdict(verdict: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"task 'a' .* {words}$"):
        score_by(lambda answer, state: verdict)


def test_a_check_that_is_an_async_function_is_told_as_one() -> None:
    async def check(answer: str, state: dict[str, Any]) -> bool:
        return False

    with pytest.raises(TypeError, match="coroutine"):
        score_by(check)
