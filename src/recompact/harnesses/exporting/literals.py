"""Any text as a literal of Python, JavaScript, JSON or TOML that stands for exactly this text.

What a reader cannot see (control characters, marks that reorder text) is written as an escape.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r'[\\"]|[^\x20-\x7e]')
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MOST_LINES = 2000  # more lines are one literal: nobody reads them, and parsers are slow at joining so many


def python_text(text: str, indent: str = "") -> str:
    """A Python expression: one literal for each line, in parentheses."""
    lines = _lines(text)
    if len(lines) == 1 or len(lines) > _MOST_LINES:
        return _quote(text, pairs=False)
    body = "".join(f"{indent}    {_quote(line, pairs=False)}\n" for line in lines)
    return f"(\n{body}{indent})"


def javascript_text(text: str) -> str:
    """A JavaScript expression: the lines, joined."""
    lines = text.split("\n")
    if len(lines) == 1 or len(lines) > _MOST_LINES:
        return _quote(text, pairs=True)
    body = "".join(f"  {_quote(line, pairs=True)},\n" for line in lines)
    return f'[\n{body}].join("\\n")'


def json_text(text: str) -> str:
    return _quote(text, pairs=True)


def toml_text(text: str) -> str:
    """A basic TOML string, over several lines if the text has several."""
    if "\n" not in text:
        return _quote(text, pairs=False)
    return '"""\n' + "\n".join(_escape(line, pairs=False) for line in text.split("\n")) + '"""'


def format_text(text: str) -> str:
    """A literal piece of a template for `str.format`.

    >>> format_text('{"a": 1}')
    '{{"a": 1}}'
    """
    return text.replace("{", "{{").replace("}", "}}")


def jinja_text(text: str) -> str:
    """A literal piece of a Jinja template.

    >>> jinja_text("keep {{ this }}")
    'keep {{ "{{" }} this }}'
    """
    return re.sub(r"\{[{%#]", lambda match: f'{{{{ "{match[0]}" }}}}', text)


def _lines(text: str) -> list[str]:
    pieces = text.split("\n")
    lines = [f"{piece}\n" for piece in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] or not lines else lines


def _quote(text: str, *, pairs: bool) -> str:
    return f'"{_escape(text, pairs=pairs)}"'


def _escape(text: str, *, pairs: bool) -> str:
    """With `pairs`, what is beyond 16 bits is escaped as two surrogates, as JSON requires; else by its number."""

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in _SHORT:
            return _SHORT[character]
        if character.isprintable():
            return character
        code = ord(character)
        if code <= 0xFFFF:
            return f"\\u{code:04x}"
        if not pairs:
            return f"\\U{code:08x}"
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"

    return _SPECIAL.sub(escape, text)
