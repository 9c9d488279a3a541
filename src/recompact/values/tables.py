"""A table of plain values, and its renderings for the terminal, Markdown, LaTeX, CSV and JSON.

Numbers are rounded for people and exact for programs; text is made visible, and escaped where it could be markup.
"""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from recompact.values.texts import csv_text, latex_text, markdown_text, visible_json, visible_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from recompact.values.stats import Estimate

Format = Literal["terminal", "markdown", "latex", "csv", "json"]
FORMATS: tuple[Format, ...] = ("terminal", "markdown", "latex", "csv", "json")
NOTHING = "-"
COLOURS = {"success": "green", "failure": "red"}  # of cells that hold just this word


@dataclass(frozen=True)
class Number:
    """A number, how many digits of it people see, and its standard deviation or its interval if it has one."""

    value: float
    digits: int = 1
    spread: float | None = None
    interval: tuple[float, float] | None = None
    signed: bool = False
    unmarked: bool = False  # a difference from so few tasks that it gets no star, whatever its interval
    positive: bool = False  # never shown as zero: a p-value is less than 0.001 instead
    best: bool = False  # among those it competes with, which the table knows: papers set it in bold

    @property
    def strong(self) -> bool:
        """Whether it is a difference whose interval excludes zero, from enough tasks."""
        if not self.signed or self.unmarked or self.interval is None:
            return False
        return self.interval[0] > 0 or self.interval[1] < 0

    @property
    def text(self) -> str:
        least = 10**-self.digits
        if self.positive and self.value < least / 2:
            return f"<{least:.{self.digits}f}"
        text = _format_fixed(self.value, self.digits, self.signed)
        if self.spread is not None:
            text += f" ± {_format_fixed(self.spread, self.digits)}"
        if self.interval is not None:
            low, high = (_format_fixed(end, self.digits, self.signed) for end in self.interval)
            text += f" [{low}, {high}]{'*' * self.strong}"
        return text


def estimate_cell(estimate: Estimate | None, digits: int, *, scale: float = 1.0, signed: bool = False) -> Number | None:
    """An estimate with its interval as a number of a table; None where there is none."""
    if estimate is None:
        return None
    ends = (scale * estimate.low, scale * estimate.high)
    return Number(scale * estimate.value, digits, interval=ends, signed=signed)


Cell = str | int | Number | None
Row = tuple[Cell, ...]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Column:
    """A column's name for programs and its heading for people."""

    key: str
    title: str
    fold: bool = False  # may be broken over several lines on a narrow terminal


def columns(*keys: str, **titles: str) -> tuple[Column, ...]:
    """Columns whose headings are their keys, except for those with a title of their own.

    >>> columns("arm", "steps", steps="mean steps")[1]
    Column(key='steps', title='mean steps', fold=False)
    """
    return tuple(Column(key, titles.get(key, key)) for key in keys)


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns, a title, and notes that belong below. `bold` says what the best are best of."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    bold: str = ""

    def select(self, kept: Sequence[int]) -> Table:
        """The table with only these columns, by number."""
        rows = tuple(tuple(row[n] for n in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[n] for n in kept), rows=rows)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, with the meaning of bold where something is bold."""
        bold = any(isinstance(cell, Number) and cell.best for row in self.rows for cell in row)
        return (*self.notes, self.bold) if bold and self.bold else self.notes


def tabulate(
    title: str,
    items: Iterable[Item],
    cells: Mapping[str, tuple[str, Callable[[Item], Cell]]],
    notes: Sequence[str] = (),
) -> Table:
    """A row for each item. `cells` has the columns by their keys: the heading of each, and its cell for an item.

    >>> tabulate("", [3, 4], {"n": ("number", lambda n: n), "twice": ("doubled", lambda n: 2 * n)}).rows
    ((3, 6), (4, 8))
    """
    heads = tuple(Column(key, heading) for key, (heading, _) in cells.items())
    rows = tuple(tuple(cell(item) for _, cell in cells.values()) for item in items)
    return Table(title, heads, rows, tuple(notes))


def render(table: Table, form: Format) -> str:
    """The table as text; for a terminal without colour, in lines as long as they need to be."""
    if form == "terminal":
        return _plain_terminal(table)
    if form == "json":
        return _json_text(as_json(table))
    return {"markdown": markdown, "latex": latex, "csv": as_csv}[form](table)


def render_all(tables: Sequence[Table], form: Format) -> str:
    """Several tables one after the other; for JSON a list of them."""
    if form == "json":
        return _json_text([as_json(table) for table in tables])
    return "\n".join(render(table, form) for table in tables)


def fit_table(table: Table, width: int) -> list[RichTable]:
    """For a Rich console of this width: in one piece if it fits, else with intervals on a second line, else in several
    pieces one below the other, each of which begins with the columns of text at the left."""
    for stacked in (False, True):
        if _least_width(rich := terminal(table, stacked=stacked), table) <= width:
            return [rich]
    texts = text_columns(table)
    labels = texts.index(False) if False in texts else 1
    pieces: list[list[int]] = [[]]
    for number in range(labels, len(table.columns)):
        tried = table.select([*range(labels), *pieces[-1], number])
        if pieces[-1] and _least_width(terminal(tried, stacked=True), tried) > width:
            pieces.append([])
        pieces[-1].append(number)
    tables = [table.select([*range(labels), *piece]) for piece in pieces]
    return [terminal(replace(t, title="" if n else t.title), stacked=True) for n, t in enumerate(tables)]


_FOLDED = 12  # characters that a column keeps when it is broken


def _least_width(rich: RichTable, table: Table) -> int:
    """How many characters a Rich table needs if its folding columns are broken as far as is bearable."""
    from rich.measure import Measurement

    console = _wide_console()
    width = needed_width(rich)
    for column, shown in zip(table.columns, rich.columns, strict=True):
        if column.fold:
            own = max(Measurement.get(console, console.options, cell).maximum for cell in (shown.header, *shown.cells))
            width -= max(0, own - _FOLDED)
    return width


def terminal(table: Table, *, stacked: bool = False) -> RichTable:
    """For a Rich console; `stacked` cells have their interval on a second line, under headings of several lines."""
    from rich.table import Table as RichTable
    from rich.text import Text

    rich = RichTable(box=None, header_style="bold", pad_edge=False, title_justify="left")
    if table.title:
        rich.title = Text(visible_line(table.title), "bold not italic")
    cells = [[_stack_cell(cell) if stacked else cell_text(cell) for cell in row] for row in table.rows]
    for n, (column, texts) in enumerate(zip(table.columns, text_columns(table), strict=True)):
        justify: Literal["left", "right"] = "left" if texts else "right"
        heading = visible_line(column.title)
        if stacked:
            heading = _wrap_heading(
                heading, max((len(line) for row in cells for line in row[n].split("\n")), default=1)
            )
        rich.add_column(Text(heading), justify=justify, no_wrap=not column.fold, overflow="fold")
    for row, shown in zip(table.rows, cells, strict=True):
        rich.add_row(*(Text(text, COLOURS.get(str(cell), "")) for text, cell in zip(shown, row, strict=True)))
    return rich


def _stack_cell(cell: Cell) -> str:
    """A cell with its interval or its spread on a second line, and a label such as prompting/history on two."""
    text = cell_text(cell)
    if isinstance(cell, Number):
        return text.replace(" [", "\n[", 1).replace(" ± ", "\n± ", 1)
    return text.replace("/", "/\n", 1) if isinstance(cell, str) and len(text) > _FOLDED else text


def _wrap_heading(heading: str, width: int) -> str:
    """A heading over as many lines as it needs; words stay whole."""
    return textwrap.fill(heading, max(1, width), break_long_words=False, break_on_hyphens=False)


def markdown(table: Table) -> str:
    lines = [f"**{markdown_text(table.title)}**", ""] if table.title else []
    lines.append(_pipes(markdown_text(column.title) for column in table.columns))
    lines.append(_pipes("---" if texts else "---:" for texts in text_columns(table)))
    lines += [_pipes(_markdown_cell(cell) for cell in row) for row in table.rows]
    notes = table.all_notes
    lines += ["", *(f"{markdown_text(note)}  " for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A booktabs tabular inside a table, ready for a paper."""
    kinds = "".join("l" if texts else "r" for texts in text_columns(table))
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{latex_text(' '.join([table.title, *table.all_notes]))}}}"]
    lines += [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule"]
    lines.append(" & ".join(latex_text(column.title) for column in table.columns) + r" \\")
    lines.append(r"\midrule")
    lines += [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_csv(table: Table) -> str:
    """Exact numbers, one per field: a spread and the ends of an interval get columns of their own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fields = _fields(table)
    writer.writerow(map(csv_text, fields))
    for row in _flat_rows(table):
        cells = (row.get(name, "") for name in fields)
        writer.writerow([csv_text(cell) if isinstance(cell, str) else cell for cell in cells])
    return out.getvalue()


def as_json(table: Table) -> dict[str, Any]:
    fields = _fields(table)
    return {
        "title": table.title,
        "columns": [{"key": column.key, "title": column.title} for column in table.columns],
        "rows": [{name: row.get(name) for name in fields} for row in _flat_rows(table)],
        "notes": list(table.notes),
    }


def _json_text(value: Any) -> str:
    return visible_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


def _plain_terminal(table: Table) -> str:
    from rich.console import Console

    out = io.StringIO()
    rich = terminal(table)
    Console(file=out, width=max(80, needed_width(rich)), color_system=None, highlight=False).print(rich)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join([*lines, *map(visible_line, table.notes)]) + "\n"


def needed_width(rich: RichTable) -> int:
    """How many characters a Rich table needs so that nothing is cut."""
    from rich.measure import Measurement

    console = _wide_console()
    return Measurement.get(console, console.options, rich).maximum


def _wide_console() -> Console:
    from rich.console import Console

    return Console(width=10_000, file=io.StringIO())


def text_columns(table: Table) -> list[bool]:
    """For each column whether it holds text, and so is aligned to the left."""
    return [any(isinstance(row[n], str) for row in table.rows) for n in range(len(table.columns))]


def _fields(table: Table) -> list[str]:
    """The names of all fields; those of a spread or an interval follow their column's."""
    fields: dict[str, None] = {}
    for n, column in enumerate(table.columns):
        names = [name for row in table.rows for name, _ in _flat(column.key, row[n])]
        fields |= dict.fromkeys([column.key, *(f"{column.key}{end}" for end in _ENDS if f"{column.key}{end}" in names)])
    return list(fields)


_ENDS = ("_sd", "_low", "_high")


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
    values = (cell.value, cell.spread, *(cell.interval or (None, None)))
    named = zip(("", *_ENDS), values, strict=True)
    return [(f"{key}{end}", value) for end, value in named if value is not None]


def cell_text(cell: Cell) -> str:
    """A cell as people read it."""
    if cell is None:
        return NOTHING
    if isinstance(cell, Number):
        return cell.text
    return f"{cell:,}" if isinstance(cell, int) else visible_line(cell)


def _format_fixed(value: float, digits: int, signed: bool = False) -> str:
    text = f"{value:{'+' if signed else ''},.{digits}f}"
    # A rounded zero has no sign.
    return text.lstrip("+-") if not text.strip("+-0.") else text


def format_signed(value: float, digits: int) -> str:
    """A number with its sign, and with a real minus.

    >>> format_signed(-1.25, 1), format_signed(0.5, 2), format_signed(-0.001, 2)
    ('−1.2', '+0.50', '0.00')
    """
    return _format_fixed(value, digits, signed=True).replace("-", "−")


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    text = markdown_text(cell_text(cell))
    return f"**{text}**" if isinstance(cell, Number) and cell.best else text


def _latex_cell(cell: Cell) -> str:
    if not isinstance(cell, Number):
        return latex_text(cell_text(cell))

    def fixed(value: float, signed: bool = False) -> str:
        return _format_fixed(value, cell.digits, signed).replace(",", "{,}")

    body = cell.text if cell.positive else fixed(cell.value, cell.signed)
    if cell.interval is not None:
        low, high = (fixed(end, cell.signed) for end in cell.interval)
        body += rf"\ [{low},\,{high}]"
    formula = rf"$\mathbf{{{body}}}$" if cell.strong or cell.best else f"${body}$"
    return formula if cell.spread is None else rf"{formula}{{\scriptsize\,$\pm${fixed(cell.spread)}}}"
