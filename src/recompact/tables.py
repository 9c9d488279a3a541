"""One table, five ways to show it: terminal, Markdown, LaTeX, CSV, JSON.

Comes in: a `Table` of plain values. Goes out: text (or a Rich table). Numbers are rounded for people and whole for
programs; texts are shown as they are, whatever they contain.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Format = Literal["terminal", "markdown", "latex", "csv", "json"]
FORMATS: tuple[Format, ...] = ("terminal", "markdown", "latex", "csv", "json")
NOTHING = "-"


@dataclass(frozen=True)
class Number:
    """A number with how many digits of it people see, and its standard deviation or its interval where it has one."""

    value: float
    digits: int = 1
    spread: float | None = None
    interval: tuple[float, float] | None = None
    signed: bool = False
    positive: bool = False  # never shown as zero: a p-value is less than 0.001 instead
    best: bool = False  # of those that it competes with, which the table knows: papers set it in bold

    @property
    def strong(self) -> bool:
        """It is a difference whose interval excludes zero."""
        return self.signed and self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)

    @property
    def text(self) -> str:
        least = 10**-self.digits
        if self.positive and self.value < least / 2:
            return f"<{least:.{self.digits}f}"
        shown = _fixed(self.value, self.digits, self.signed)
        if self.spread is not None:
            shown += f" ± {_fixed(self.spread, self.digits)}"
        if self.interval is not None:
            low, high = (_fixed(end, self.digits, self.signed) for end in self.interval)
            shown += f" [{low}, {high}]{'*' * self.strong}"
        return shown


Cell = str | int | Number | None


@dataclass(frozen=True)
class Column:
    """A column's name for programs and its heading for people."""

    key: str
    title: str


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns, a title, and notes that belong below. `bold` says what the best are best of."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    bold: str = ""


def render(table: Table, form: Format) -> str:
    """The table as text; for a terminal without any colour, in lines as long as they need to be."""
    if form == "terminal":
        return _plain_terminal(table)
    if form == "json":
        import json

        return json.dumps(as_json(table), indent=2, ensure_ascii=False) + "\n"
    return {"markdown": markdown, "latex": latex, "csv": as_csv}[form](table)


def terminal(table: Table) -> RichTable:
    """For a Rich console."""
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, header_style="bold", pad_edge=False, title_justify="left")
    if table.title:
        shown.title = Text(clean(table.title), "bold not italic")
    for column, texts in zip(table.columns, text_columns(table), strict=True):
        justify: Literal["left", "right"] = "left" if texts else "right"
        shown.add_column(Text(clean(column.title)), justify=justify, no_wrap=True)
    for row in table.rows:
        shown.add_row(*(Text(cell_text(cell)) for cell in row))
    return shown


def markdown(table: Table) -> str:
    lines = [f"**{_markdown(table.title)}**", ""] if table.title else []
    lines.append(_pipes(_markdown(column.title) for column in table.columns))
    lines.append(_pipes("---" if texts else "---:" for texts in text_columns(table)))
    lines += [_pipes(_markdown_cell(cell) for cell in row) for row in table.rows]
    words = said(table)
    lines += ["", *(f"{_markdown(note)}  " for note in words)] if words else []
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A booktabs tabular inside a table, ready for a paper."""
    kinds = "".join("l" if texts else "r" for texts in text_columns(table))
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(' '.join([table.title, *said(table)]))}}}"]
    lines += [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule"]
    lines.append(" & ".join(_latex(column.title) for column in table.columns) + r" \\")
    lines.append(r"\midrule")
    lines += [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_csv(table: Table) -> str:
    """Whole numbers, one to a field: a spread and the ends of an interval get columns of their own."""
    fields = _fields(table)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(fields)
    for row in _flat_rows(table):
        writer.writerow([row.get(name, "") for name in fields])
    return out.getvalue()


def as_json(table: Table) -> dict[str, Any]:
    fields = _fields(table)
    return {
        "title": table.title,
        "columns": [{"key": column.key, "title": column.title} for column in table.columns],
        "rows": [{name: row.get(name) for name in fields} for row in _flat_rows(table)],
        "notes": list(table.notes),
    }


def _plain_terminal(table: Table) -> str:
    from rich.console import Console

    out = io.StringIO()
    shown = terminal(table)
    Console(file=out, width=max(80, wide(shown)), color_system=None, highlight=False).print(shown)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join([*lines, *map(clean, table.notes)]) + "\n"


def wide(shown: RichTable) -> int:
    """How many characters a Rich table needs so that nothing of it is cut."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=10_000, file=io.StringIO())
    return Measurement.get(console, console.options, shown).maximum


def said(table: Table) -> tuple[str, ...]:
    """The notes, with what bold means where something is bold."""
    bold = any(isinstance(cell, Number) and cell.best for row in table.rows for cell in row)
    return (*table.notes, table.bold) if bold and table.bold else table.notes


def text_columns(table: Table) -> list[bool]:
    """For each column whether it holds texts (and so stands to the left)."""
    return [any(isinstance(row[n], str) for row in table.rows) for n in range(len(table.columns))]


def _fields(table: Table) -> list[str]:
    """The names of all fields; those of a spread or an interval follow their column's."""
    found: list[str] = []
    for n, column in enumerate(table.columns):
        cells = [row[n] for row in table.rows]
        found.append(column.key)
        if any(isinstance(cell, Number) and cell.spread is not None for cell in cells):
            found.append(f"{column.key}_sd")
        if any(isinstance(cell, Number) and cell.interval is not None for cell in cells):
            found += [f"{column.key}_low", f"{column.key}_high"]
    return found


def _flat_rows(table: Table) -> list[dict[str, str | int | float | None]]:
    return [
        {
            name: value
            for column, cell in zip(table.columns, row, strict=True)
            for name, value in _flat(column.key, cell)
        }
        for row in table.rows
    ]


def _flat(key: str, cell: Cell) -> list[tuple[str, str | int | float | None]]:
    if not isinstance(cell, Number):
        return [(key, cell)]
    found: list[tuple[str, str | int | float | None]] = [(key, cell.value)]
    if cell.spread is not None:
        found.append((f"{key}_sd", cell.spread))
    if cell.interval is not None:
        found += [(f"{key}_low", cell.interval[0]), (f"{key}_high", cell.interval[1])]
    return found


def cell_text(cell: Cell) -> str:
    """A cell as people read it."""
    if cell is None:
        return NOTHING
    if isinstance(cell, Number):
        return cell.text
    return f"{cell:,}" if isinstance(cell, int) else clean(cell)


def _fixed(value: float, digits: int, signed: bool = False) -> str:
    shown = f"{value:{'+' if signed else ''},.{digits}f}"
    # A rounded zero has no sign.
    return shown.lstrip("+-") if not shown.strip("+-0.") else shown


def signed(value: float, digits: int) -> str:
    """A number with its sign, and with a real minus.

    >>> signed(-1.25, 1), signed(0.5, 2), signed(-0.001, 2)
    ('−1.2', '+0.50', '0.00')
    """
    return _fixed(value, digits, signed=True).replace("-", "−")


def clean(text: str) -> str:
    """One line, without the characters by which a text could take over a terminal."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+", " ", text)


def _pipes(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(text: str) -> str:
    """Nothing in a text is markup."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", clean(text))


def _markdown_cell(cell: Cell) -> str:
    shown = _markdown(cell_text(cell))
    return f"**{shown}**" if isinstance(cell, Number) and cell.best else shown


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "−": r"$-$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


def _latex(text: str) -> str:
    """Nothing in a text is a command; a power such as Pass^3 is set as one."""
    escaped = "".join(_LATEX.get(character, character) for character in clean(text))
    return re.sub(r"\^(\w+)|\^", lambda m: f"$^{{{m[1]}}}$" if m[1] else r"\textasciicircum{}", escaped)


def _latex_cell(cell: Cell) -> str:
    if not isinstance(cell, Number):
        return _latex(cell_text(cell))

    def fixed(value: float, signed: bool = False) -> str:
        return _fixed(value, cell.digits, signed).replace(",", "{,}")

    body = cell.text if cell.positive else fixed(cell.value, cell.signed)
    if cell.interval is not None:
        low, high = (fixed(end, cell.signed) for end in cell.interval)
        body += rf"\ [{low},\,{high}]"
    shown = rf"$\mathbf{{{body}}}$" if cell.strong or cell.best else f"${body}$"
    return shown if cell.spread is None else rf"{shown}{{\scriptsize\,$\pm${fixed(cell.spread)}}}"


def joined(tables: Sequence[Table], form: Format) -> str:
    """Several tables one after the other; for JSON a list of them."""
    if form == "json":
        import json

        return json.dumps([as_json(table) for table in tables], indent=2, ensure_ascii=False) + "\n"
    return "\n".join(render(table, form) for table in tables)
