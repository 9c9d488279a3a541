"""The shell, one command at a time in the sandbox, and the calculator: arithmetic read as a tree and never executed as
code."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from recompact.environments.files import ActionError
from recompact.environments.shell import observe_command
from recompact.suites.officebench.apps.spec import App, Desk, shorten
from recompact.suites.officebench.tree import MOUNT

SHOWN = 10_000
"""Characters of a command's output that an agent is shown."""

SHELL = App("shell", f"commands in the directory {MOUNT}, which holds data/, emails/ and calendar/")


@SHELL.read("command", f"run a shell command in {MOUNT}; there is no network and nothing outside can be changed")
def _command(desk: Desk, command: str) -> str:
    run, shown = partial(desk.shell.run, directory=desk.files.root), partial(shorten, limit=SHOWN)
    return observe_command(command, run, shown)


_LENGTH = 2_000
_LARGEST = 10**100

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "max": max,
    "min": min,
    "round": round,
    "sqrt": math.sqrt,
    "sum": sum,
}

CALCULATOR = App("calculator", "arithmetic")


@CALCULATOR.read("calculate", f"work out an expression with + - * / // % ** and {', '.join(_FUNCTIONS)}")
def _calculate(desk: Desk, expression: str) -> str:
    return f"{expression} = {calculate(expression)}"


def calculate(expression: str) -> int | float:
    """The value of an arithmetic expression.

    >>> calculate("(78 + 75) / 2"), calculate("2 ** 10"), calculate("max(3, 4)")
    (76.5, 1024, 4)
    """
    if len(expression) > _LENGTH:
        raise ActionError(f"the expression is longer than {_LENGTH:,} characters")
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ActionError(f"{expression[:80]} cannot be calculated: {error}") from None
    if not isinstance(value, int | float):
        raise ActionError(f"{expression[:80]} is a list and no number")
    return value


def _value(node: ast.AST) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bound(node.value)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _power(_value(node.left), _value(node.right))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if isinstance(left, list) or isinstance(right, list):
            raise ValueError("a list is for functions such as sum")
        return _bound(_OPERATORS[type(node.op)](left, right))
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element) for element in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id in _FUNCTIONS:
            return _bound(_FUNCTIONS[node.func.id](*(_value(argument) for argument in node.args)))
        raise ValueError(f"there is no function {node.func.id!r}, only {', '.join(_FUNCTIONS)}")
    raise ValueError("only numbers, + - * / // % **, parentheses and a few functions are understood")


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > 1000 or (abs(base) > 1 and abs(exponent) * math.log10(abs(base)) > 100):
        raise ValueError("the number would be too large")
    value = base**exponent
    if isinstance(value, complex):
        raise ValueError("a negative number has no root")
    return _bound(value)


def _bound(value: Any) -> Any:
    if not isinstance(value, list) and abs(value) > _LARGEST:
        raise ValueError("the number is too large")
    return value
