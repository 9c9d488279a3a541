"""Reads the texts that speak of summaries from the syntax trees of Python source files, without importing them.

Names are resolved where the file itself says what they are: constants of the module, and locals that are bound once.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from recompact.harnesses.importing.texts import Hole, Pieces, SourceText, speaks_of_summaries

# Parsing costs time: a file is parsed only if a text in it has a heading, or a name in it promises a prompt.
_SIGN = re.compile(rb"(?m)(?:^|[\"'}]|\\n)## |(?i:summari[sz]ation_?prompt)")

# Calls that only tidy a text, so that its value is known: by method, and by function.
_METHODS: dict[str, Callable[[str], str]] = {"strip": str.strip, "lstrip": str.lstrip, "rstrip": str.rstrip}
_FUNCTIONS: dict[str, Callable[[str], str]] = {
    "dedent": textwrap.dedent,
    "textwrap.dedent": textwrap.dedent,
    "cleandoc": inspect.cleandoc,
    "inspect.cleandoc": inspect.cleandoc,
}


def worth_reading(data: bytes) -> bool:
    return b"ummar" in data and _SIGN.search(data) is not None


def texts(data: bytes) -> Iterator[SourceText]:
    """The texts of a file that speak of summaries, in order; nothing if it is not Python."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return
    reader = _Reader()
    reader.visit(tree)
    lines = [0, *accumulate(len(line) for line in data.splitlines(keepends=True))]
    for name, value, scope in reader.assignments:
        offset = lines[value.lineno - 1] + value.col_offset
        pieces = _pieces(value, scope, (name,))
        if speaks_of_summaries(pieces):
            yield SourceText(name, offset, pieces, scope.notes(name))


@dataclass
class _Scope:
    """The names of a module, class or function, each with everything bound to it; None if that is not an expression."""

    outer: _Scope | None = None
    is_class: bool = False
    bindings: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    extensions: dict[str, list[int]] = field(default_factory=dict)  # name -> the lines of its `+=`

    def bind(self, name: str, value: ast.expr | None) -> None:
        self.bindings.setdefault(name, []).append(value)

    def holder(self, name: str) -> _Scope | None:
        """The scope that binds a name; the names of a class are not visible in scopes inside it."""
        scope: _Scope | None = self
        while scope and (name not in scope.bindings or (scope.is_class and scope is not self)):
            scope = scope.outer
        return scope

    def notes(self, name: str) -> tuple[str, ...]:
        return tuple(f"the code may append to `{name}` (line {line})" for line in self.extensions.get(name, ()))


class _Reader(ast.NodeVisitor):
    """Collects every `name = value` with its scope; texts are put together only when all bindings are known."""

    def __init__(self) -> None:
        self.scope = _Scope()
        self.assignments: list[tuple[str, ast.expr, _Scope]] = []

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, node.value)
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.scope.extensions.setdefault(node.target.id, []).append(node.lineno)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):  # a loop, a with, an unpacking, a del: no known value
            self.scope.bind(node.id, None)

    def visit_arg(self, node: ast.arg) -> None:
        self.scope.bind(node.arg, None)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node, is_class=False)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._enter(node, is_class=False)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node, is_class=True)

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, *, is_class: bool) -> None:
        self.scope.bind(node.name, None)
        self.scope = _Scope(self.scope, is_class)
        self.generic_visit(node)
        assert self.scope.outer is not None
        self.scope = self.scope.outer

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.scope.bind(target.id, value)
            self.assignments.append((target.id, value, self.scope))
        else:
            self.visit(target)


def _pieces(node: ast.expr, scope: _Scope, inside: tuple[str, ...]) -> Pieces:
    """An expression as text with holes."""
    match node:
        case ast.Constant(value=str(text)):
            return (text,)
        case ast.JoinedStr(values=values):
            return tuple(piece for value in values for piece in _pieces(value, scope, inside))
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _pieces(value, scope, inside)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (*_pieces(left, scope, inside), *_pieces(right, scope, inside))
        case ast.Name(id=name) if name not in inside:
            return _pieces_of_name(node, name, scope, (*inside, name))
        case ast.Call(args=[], keywords=[], func=ast.Attribute(value=value, attr=attr)) if attr in _METHODS:
            return _tidy_pieces(node, _METHODS[attr], _pieces(value, scope, inside))
        case ast.Call(args=[value], keywords=[], func=function) if ast.unparse(function) in _FUNCTIONS:
            return _tidy_pieces(node, _FUNCTIONS[ast.unparse(function)], _pieces(value, scope, inside))
    return (_hole(node, optional=_may_be_empty(node)),)


def _pieces_of_name(node: ast.Name, name: str, scope: _Scope, inside: tuple[str, ...]) -> Pieces:
    """The one value that is bound to a name. With more than one, only a run could tell which."""
    holder = scope.holder(name)
    values = holder.bindings[name] if holder else []
    if holder and len(values) == 1 and values[0] is not None:
        pieces = _pieces(values[0], holder, inside)
        if any(isinstance(piece, str) for piece in pieces):
            return pieces
    return (_hole(node, optional=any(value is not None and _may_be_empty(value) for value in values)),)


def _tidy_pieces(node: ast.expr, tidy: Callable[[str], str], pieces: Pieces) -> Pieces:
    match pieces:
        case (str(text),):
            return (tidy(text),)
    return (_hole(node),)


def _may_be_empty(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=""):
            return True
        case ast.IfExp(body=body, orelse=orelse):
            return _may_be_empty(body) or _may_be_empty(orelse)
    return False


def _hole(node: ast.expr, *, optional: bool = False) -> Hole:
    """With a conversion or a format in the braces (`{x!r}`), the source is an f-string of that alone."""
    formatted = isinstance(node, ast.FormattedValue)
    try:
        source = ast.unparse(ast.JoinedStr([node]) if formatted else node)
    except ValueError:  # quotes that cannot be nested
        source = f"the expression in line {node.lineno}"
        formatted = False
    return Hole(source, source[2:-1] if formatted else f"{{{source}}}", optional)
