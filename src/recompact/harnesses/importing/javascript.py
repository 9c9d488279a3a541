"""Reads string and template literals from JavaScript bundles, minified or not, without running them.

Texts that speak of summaries are unescaped as an engine would do it, and constants are filled in where they can be
resolved. It looks at expressions one at a time instead of tokenizing whole bundles: one regular expression mistaken for
a division would turn everything after it inside out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recompact.harnesses.importing.texts import Hole, Pieces, SourceText, speaks_of_summaries

NEAR = 4096  # bytes; a prompt soon says what it is about, and code that extends it is close by
_HOLE_LIMIT = 4096
_OCCURRENCES = 500  # a minified name that occurs this often in a file is bound more than once

_TOPIC = re.compile(rb"ummar")  # either case of its first letter; a fixed text is found much faster
_PROMISE = re.compile(rb"(?i)summari[sz]ation_?(system_?)?prompt")
_SPACE = rb"(?:\s|/\*.*?\*/|//[^\n]*\n)*+"
# Where an expression can begin, and begins with a literal or with a name that a literal is added to.
_START = re.compile(rb"(?:[=(,:?\[{;!&|>}]|\breturn)\s*+(?=[\"'`]|[A-Za-z_$][\w$]*+\s*+\+\s*+[\"'`])")
_PLUS = re.compile(_SPACE + rb"\+(?![+=])" + _SPACE, re.DOTALL)
_STRINGS = {
    ord('"'): re.compile(rb'"((?:[^"\\\r\n]|\\(?:\r\n|.))*+)"', re.DOTALL),
    ord("'"): re.compile(rb"'((?:[^'\\\r\n]|\\(?:\r\n|.))*+)'", re.DOTALL),
}
_BACKTICK = ord("`")
_CHUNK = re.compile(rb"(?:[^`\\$]|\\.|\$(?!\{))*+", re.DOTALL)  # of a template literal, up to a hole or its end
_PATH = re.compile(rb"[A-Za-z_$][\w$]*+(?:\??\.[A-Za-z_$][\w$]*+)*+")
_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_TRIM = re.compile(rb"\s*\.trim\(\)")
_SUFFIX = re.compile(rb"\s*(?:\??\.[A-Za-z_$][\w$]*+|[(\[])")
_BRACKET = re.compile(rb"[(){}\[\]\"'`]")
_BOUND = re.compile(rb"(?<![\w$.])([A-Za-z_$][\w$]*+)\s*+=[\s(]*+$")
_PROPERTY = re.compile(rb"[{,]\s*+([A-Za-z_$][\w$]*+)\s*+:[\s(]*+$")
_ASSIGNED = re.compile(rb"\s*+\+?=(?![=>])\s*+")
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|[\s\S]))")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_CONTINUED = ("\n", "\r\n", "\r", "\u2028", "\u2029")  # an escaped line end is no character at all


def worth_reading(data: bytes) -> bool:
    """Whether a file may hold a prompt. A bundle has thousands of files, and a closer look takes time."""
    return b"ummar" in data and (b"## " in data or b"You are" in data or _PROMISE.search(data) is not None)


def texts(data: bytes) -> Iterator[SourceText]:
    """The texts of a file that speak of summaries, in order, and those that are put together from such texts."""
    candidates: list[tuple[str, int, Pieces, int]] = []
    for begin, end in _windows(data):
        for match in _START.finditer(data, begin, end):
            start = match.end()
            expression = _expression(data, start)
            if expression and (speaks_of_summaries(expression[0]) or _holes(expression[0])):
                candidates.append((_bound_name(data, start), start, *expression))
    speaking = {name for name, _, pieces, _ in candidates if speaks_of_summaries(pieces)}
    for name, start, pieces, end in candidates:
        if speaks_of_summaries(pieces) or speaking & _holes(pieces):
            yield SourceText(name, start, _resolve_constants(data, pieces, (name,)), _notes(data, name, end))


def _holes(pieces: Pieces) -> set[str]:
    return {piece.source for piece in pieces if isinstance(piece, Hole)}


def _windows(data: bytes) -> list[tuple[int, int]]:
    """The stretches around each mention of a summary, merged where they overlap."""
    merged: list[tuple[int, int]] = []
    for match in _TOPIC.finditer(data):
        begin, end = max(0, match.start() - NEAR), match.end() + NEAR
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged


def _bound_name(data: bytes, start: int) -> str:
    before = data[max(0, start - 200) : start]
    match = _BOUND.search(before) or _PROPERTY.search(before)
    return match[1].decode("ascii") if match else ""


def _notes(data: bytes, name: str, end: int) -> tuple[str, ...]:
    """Whether code close after a text extends it. Farther away, a minified name means something else."""
    appended = rb"(?<![\w$.])" + re.escape(name.encode("ascii")) + rb"\s*+\+="
    match = re.compile(appended).search(data, end, end + NEAR) if name else None
    return (f"the code may append to `{name}` (byte {match.start()})",) if match else ()


def _expression(data: bytes, start: int) -> tuple[Pieces, int] | None:
    """Operands joined by `+`, and where they end."""
    operand = _operand(data, start)
    if operand is None:
        return None
    pieces, end = operand
    while plus := _PLUS.match(data, end):
        more = _operand(data, plus.end())
        if more is None:
            return None
        pieces, end = (*pieces, *more[0]), more[1]
    return pieces, end


def _operand(data: bytes, start: int) -> tuple[Pieces, int] | None:
    """One literal, name, call or parenthesis; what is not plain text becomes a hole."""
    first = data[start] if start < len(data) else -1
    operand: tuple[Pieces, int] | None = None
    if first in _STRINGS:
        string = _STRINGS[first].match(data, start)
        text = _literal_value(string[1]) if string else None
        operand = ((text,), string.end()) if string and text is not None else None
    elif first == _BACKTICK:
        operand = _template(data, start)
    elif first == ord("("):
        close = _closing(data, start + 1)
        if close is not None:
            operand = _plain(data, start + 1, close) or (_hole(data[start : close + 1]),), close + 1
    elif path := _PATH.match(data, start):
        operand = ((_hole(path[0]),), path.end())
    return _with_suffixes(data, start, *operand) if operand else None


def _with_suffixes(data: bytes, start: int, pieces: Pieces, end: int) -> tuple[Pieces, int] | None:
    """Apply `.trim()`; the result of any other call is known only to the running program."""
    if (trim := _TRIM.match(data, end)) and len(pieces) == 1 and isinstance(pieces[0], str):
        pieces, end = (pieces[0].strip(),), trim.end()
    plain = True
    while suffix := _SUFFIX.match(data, end):
        end, plain = suffix.end(), False
        if suffix[0].endswith((b"(", b"[")):
            close = _closing(data, end)
            if close is None:
                return None
            end = close + 1
    return (pieces if plain else (_hole(data[start:end]),)), end


def _template(data: bytes, start: int) -> tuple[Pieces, int] | None:
    pieces: list[str | Hole] = []
    position = start + 1
    while chunk := _CHUNK.match(data, position):
        # Line ends inside a template literal are one character, however the file writes them.
        text = _literal_value(chunk[0].replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        if text is None:
            return None
        pieces.append(text)
        if data.startswith(b"`", chunk.end()):
            return tuple(p for p in pieces if p), chunk.end() + 1
        if not data.startswith(b"${", chunk.end()):
            return None
        begin = chunk.end() + 2
        close = _closing(data, begin)
        if close is None:
            return None
        pieces += _plain(data, begin, close) or (_hole(data[begin:close].strip()),)
        position = close + 1
    return None


def _plain(data: bytes, begin: int, close: int) -> tuple[str, ...] | None:
    """What is between two brackets, if it is nothing but literal text."""
    begin += len(data[begin:close]) - len(data[begin:close].lstrip())
    expression = _expression(data, begin)
    if expression is None or data[expression[1] : close].strip():
        return None
    texts = tuple(piece for piece in expression[0] if isinstance(piece, str))
    return texts if len(texts) == len(expression[0]) else None


def _closing(data: bytes, start: int) -> int | None:
    """Where the bracket opened just before `start` closes."""
    depth, position = 0, start
    while match := _BRACKET.search(data, position, start + _HOLE_LIMIT):
        position = match.end()
        mark = data[match.start()]
        if mark in _STRINGS or mark == _BACKTICK:
            literal = _operand_end(data, match.start())
            if literal is None:
                return None
            position = literal
        elif mark in b"([{":
            depth += 1
        elif depth == 0:
            return match.start()
        else:
            depth -= 1
    return None


def _operand_end(data: bytes, start: int) -> int | None:
    if data[start] == _BACKTICK:
        template = _template(data, start)
        return template[1] if template else None
    string = _STRINGS[data[start]].match(data, start)
    return string.end() if string else None


def _hole(source: bytes) -> Hole:
    text = source.decode("utf-8", "replace")
    return Hole(text, f"${{{text}}}")


def _literal_value(raw: bytes) -> str | None:
    """A literal's value; None if the bytes are not UTF-8, and so not a literal of a bundle."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_unescape, text)
    if _SURROGATE.search(text):
        # Two escapes may make one character; half a character is written as U+FFFD, as an engine does.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        return chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else match[0]
    return "" if match[4] in _CONTINUED else _SHORT.get(match[4], match[4])


def _resolve_constants(data: bytes, pieces: Pieces, inside: tuple[str, ...]) -> Pieces:
    """Put the texts of constants in place of their names, where a name has one meaning in the whole file."""
    out: list[str | Hole] = []
    for piece in pieces:
        name = piece.source if isinstance(piece, Hole) else ""
        value = _value(data, name) if _NAME.fullmatch(name) and name not in inside else None
        out.extend([piece] if value is None else _resolve_constants(data, value, (*inside, name)))
    return tuple(out)


def _value(data: bytes, name: str) -> Pieces | None:
    """What the only assignment to a name gives it; None if there is no such text, or more than one assignment."""
    needle = name.encode("ascii")
    starts: list[int] = []
    position = -1
    for _ in range(_OCCURRENCES):
        position = data.find(needle, position + 1)
        if position < 0:
            break
        before = data[position - 1 : position]
        assigned = _ASSIGNED.match(data, position + len(needle))
        if assigned and not re.match(rb"[\w$.]", before):
            starts.append(assigned.end())
    else:
        return None
    expression = _expression(data, starts[0]) if len(starts) == 1 else None
    return expression[0] if expression and any(isinstance(p, str) for p in expression[0]) else None
