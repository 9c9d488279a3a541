"""One table in five formats; whatever stands in a cell is shown as text."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from recompact.values.tables import (
    Column,
    Number,
    Table,
    as_csv,
    cell_text,
    columns,
    fit_table,
    needed_width,
    render,
    render_all,
    terminal,
)
from recompact.values.texts import visible

NASTY = 'a|b <script>alert(1)</script> [bold]x[/bold] \x1b[31m_50%_ & $x^2$ \\ "q", z'

TABLE = Table(
    "arms",
    (Column("arm", "arm"), Column("acc", "Acc"), Column("delta", "Δ Pass^3"), Column("n", "tasks")),
    (
        (NASTY, Number(80.8333, 1, spread=7.6376), Number(8.94, 1, interval=(3.0, 15.5), signed=True), 1680),
        ("plain", Number(-0.04, 1), None, 5),
    ),
    ("a note with | and <b>",),
)


def test_terminal_is_plain_text_of_any_width() -> None:
    shown = render(TABLE, "terminal")
    assert "80.8 ± 7.6" in shown
    assert "+8.9 [+3.0, +15.5]*" in shown
    assert "[bold]x[/bold]" in shown
    assert "<script>alert(1)</script>" in shown
    assert "\x1b" not in shown
    assert "1,680" in shown
    assert "…" not in shown
    assert " 0.0 " in shown  # not -0.0
    assert shown.splitlines()[-1] == "a note with | and <b>"


def test_markdown_escapes_markup() -> None:
    shown = render(TABLE, "markdown")
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert rows[1] == "| --- | ---: | ---: | ---: |"
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)
    assert "<script>" not in shown.replace("\\<", "")
    assert "a note with \\| and \\<b\\>" in shown


def test_latex_escapes_commands() -> None:
    shown = render(TABLE, "latex")
    assert r"$80.8${\scriptsize\,$\pm$7.6}" in shown
    assert r"$\mathbf{+8.9\ [+3.0,\,+15.5]}$" in shown
    assert r"$\Delta$ Pass$^{3}$" in shown
    assert r"\_50\%\_ \& \$x$^{2}$\$ \textbackslash{}" in shown
    assert r"\begin{tabular}{lrrr}" in shown
    body = shown[shown.index(r"\midrule") : shown.index(r"\bottomrule")]
    assert body.replace(r"\&", "").count("&") == 2 * 3


def test_csv_and_json_carry_whole_numbers() -> None:
    (first, second) = csv.DictReader(io.StringIO(render(TABLE, "csv")))
    assert first["arm"] == visible(NASTY)
    assert (first["acc"], first["acc_sd"], first["delta_low"], first["n"]) == ("80.8333", "7.6376", "3.0", "1680")
    assert (second["acc_sd"], second["delta"]) == ("", "")
    data = json.loads(render(TABLE, "json"))
    assert data["rows"][0]["delta_high"] == 15.5
    assert data["rows"][1]["delta"] is None
    assert data["columns"][2] == {"key": "delta", "title": "Δ Pass^3"}
    assert len(json.loads(render_all([TABLE, TABLE], "json"))) == 2
    assert render_all([TABLE, TABLE], "markdown").count("**arms**") == 2


def test_a_p_value_is_never_zero() -> None:
    assert Number(1e-9, 3, positive=True).text == "<0.001"
    assert Number(0.0084, 3, positive=True).text == "0.008"
    table = Table("", (Column("p", "p"),), ((Number(1e-9, 3, positive=True),),))
    assert "$<0.001$" in render(table, "latex")
    assert "1e-09" in render(table, "csv")


NAMES = st.text("abcdefgh/-", min_size=1, max_size=20)


@given(
    st.lists(NAMES, min_size=1, max_size=12),
    st.integers(1, 4),
    st.sampled_from([80, 120]),
    st.booleans(),
)
def test_a_table_fits_its_terminal_with_every_figure(titles: list[str], rows: int, width: int, fold: bool) -> None:
    heads = (Column("arm", "arm", fold=fold), *(Column(f"c{n}", f"Δ {title}") for n, title in enumerate(titles)))
    cells = [tuple(Number(10 * n + r, 2, interval=(-5.0, 1234.5)) for n in range(len(titles))) for r in range(rows)]
    table = Table("Differences", heads, tuple((f"prompting/history-{r}", *row) for r, row in enumerate(cells)))
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    pieces = fit_table(table, width)
    console.print(*pieces, sep="\n")
    assert max(map(len, out.getvalue().splitlines())) <= width
    assert all(_fixed_text(cell) in out.getvalue() for row in cells for cell in row)
    assert out.getvalue().count("[-5.00, 1,234.50]") == len(titles) * rows
    if len(pieces) > 1 and not fold:
        assert out.getvalue().count("history-0") == len(pieces)


def _fixed_text(cell: Number) -> str:
    return replace(cell, interval=None).text


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", " =1", "=HYPERLINK(1)"])
def test_a_csv_cell_is_no_formula(text: str) -> None:
    table = Table("", columns("task", "n"), ((text, Number(-1.5)), ("-3.5", 1), ("a-b", 2)))
    rows = list(csv.reader(io.StringIO(as_csv(table))))
    assert rows[1][0].startswith("'")
    assert [row[0] for row in rows[2:]] == ["-3.5", "a-b"]
    assert rows[1][1] == "-1.5"


def test_markup_in_a_text_is_only_text() -> None:
    table = Table("t", columns("task"), (("\\input{x} $y$ <img src=x> [a](b) ![i](u) &lt; `c` a|b",),))
    shown = render(table, "markdown").splitlines()[-1]
    bare = re.sub(r"\\.", "", shown)  # without what is escaped
    assert bare.count("|") == 2
    assert not set("<`[]!&*_") & set(bare)
    assert r"\textbackslash{}input\{x\} \$y\$" in render(table, "latex")


WIDE = Table(
    "Differences",
    (Column("arm", "arm"), *(Column(f"c{n}", f"column {n}") for n in range(6))),
    (("prompting/history", *(Number(n, 2, interval=(-5.0, 1234.5)) for n in range(6))),),
)


def shown(table: Table, width: int) -> list[str]:
    """The pieces of a table as they look on a terminal so wide."""
    texts = []
    for piece in fit_table(table, width):
        out = io.StringIO()
        Console(file=out, width=width, color_system=None).print(piece)
        texts.append(out.getvalue())
    return texts


def test_of_several_pieces_the_first_has_the_title_and_each_has_the_labels() -> None:
    pieces = shown(WIDE, 60)
    assert len(pieces) > 1
    assert ["Differences" in piece for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert all("prompting/" in piece and "history" in piece for piece in pieces)
    assert [n for piece in pieces for n in range(6) if f" {n}.00" in piece] == list(range(6))


@pytest.mark.parametrize(("by", "lines"), [(0, 2), (-1, 4)])
def test_a_table_that_just_fits_is_in_one_piece_and_one_line_for_each_row(by: int, lines: int) -> None:
    """One character less, and intervals go to a second line, as does a long label with a slash."""
    table = replace(WIDE, title="")
    width = needed_width(terminal(table))
    (piece,) = shown(table, width + by)
    assert len(piece.splitlines()) == lines - (lines == 4)
    assert ("prompting/history" in piece) == (by == 0)


def test_a_table_of_texts_alone_is_parted_after_its_first_column() -> None:
    heads = tuple(Column(f"c{n}", f"c{n}") for n in range(8))
    pieces = shown(Table("", heads, (tuple(f"text{n}" for n in range(8)),)), 20)
    assert len(pieces) > 1
    assert all("text0" in piece for piece in pieces)
    assert [n for piece in pieces for n in range(1, 8) if f"text{n}" in piece] == list(range(1, 8))


def test_a_table_of_numbers_alone_has_no_labels_to_repeat() -> None:
    heads = tuple(Column(f"c{n}", f"c{n}") for n in range(8))
    pieces = shown(Table("", heads, (tuple(1000 + n for n in range(8)),)), 20)
    assert [n for piece in pieces for n in range(8) if f"1,00{n}" in piece] == list(range(8))


def test_one_column_that_is_too_wide_is_a_piece_all_the_same() -> None:
    table = Table("", columns("arm", "n", "m"), (("a", Number(1e12, 3), Number(1e12, 3)),))
    assert len(fit_table(table, 10)) == 2


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Number(1.0, 1, spread=0.5), "1.0 ± 0.5"),
        (Number(1.0, 1, interval=(0.5, 2.0)), "1.0 [0.5, 2.0]"),
        (Number(1.0, 1, interval=(0.5, 2.0), signed=True), "+1.0 [+0.5, +2.0]*"),
        (Number(-1.0, 1, interval=(-2.0, -0.5), signed=True), "-1.0 [-2.0, -0.5]*"),
        (Number(1.0, 1, interval=(0.0, 2.0), signed=True), "+1.0 [0.0, +2.0]"),
        (Number(-1.0, 1, interval=(-2.0, 0.0), signed=True), "-1.0 [-2.0, 0.0]"),
        (Number(-1.0, 1, interval=(-2.0, 0.5), signed=True), "-1.0 [-2.0, +0.5]"),
        (Number(12345.678, 2), "12,345.68"),
        (Number(0.0005, 3, positive=True), "0.001"),
        (Number(0.00049, 3, positive=True), "<0.001"),
        (Number(0.00049, 3), "0.000"),
        (Number(2.0), "2.0"),
        (1234, "1,234"),
        ("a\tb", "a b"),
        (None, "-"),
    ],
)
def test_a_cell_as_people_read_it(cell: Number | int | str | None, text: str) -> None:
    assert cell_text(cell) == text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Number(1234.5, 1), "$1{,}234.5$"),
        (Number(1.0, 1, best=True), r"$\mathbf{1.0}$"),
        (Number(1.0, 1, spread=0.5, best=True), r"$\mathbf{1.0}${\scriptsize\,$\pm$0.5}"),
        (Number(-1.0, 1, interval=(-2000.0, 0.5), signed=True), r"$-1.0\ [-2{,}000.0,\,+0.5]$"),
        (Number(0.04, 3, positive=True), "$0.040$"),
        (None, "-"),
        ("50 %", r"50 \%"),
    ],
)
def test_a_cell_in_latex(cell: Number | str | None, text: str) -> None:
    assert f"\n{text} \\\\\n" in render(Table("", columns("c"), ((cell,),)), "latex")


def test_the_best_are_bold_and_a_note_says_of_what_where_there_are_any() -> None:
    rows = ((Number(1.0, best=True), "a"), (Number(2.0), "b"))
    table = Table("t", columns("n", "name"), rows, ("first note",), "bold: the best")
    assert table.all_notes == ("first note", "bold: the best")
    assert replace(table, bold="").all_notes == ("first note",)
    assert replace(table, rows=rows[1:]).all_notes == ("first note",)
    lines = render(table, "markdown").splitlines()
    assert lines[0] == "**t**"
    assert lines[4:6] == ["| **1.0** | a |", "| 2.0 | b |"]
    assert lines[6:] == ["", "first note  ", "bold: the best  "]
    assert r"\caption{t first note bold: the best}" in render(table, "latex")
    bare = render(replace(table, title="", notes=(), bold=""), "markdown")
    assert bare.startswith("| n | name |\n| ---: | --- |\n")
    assert bare.endswith("| b |\n")


def test_colours_are_of_cells_that_hold_just_the_word() -> None:
    rich = terminal(Table("", columns("outcome"), (("success",), ("failure",), ("a success",))))
    assert [str(cell.style) for cell in rich.columns[0].cells] == ["green", "red", ""]  # type: ignore[union-attr]
    assert rich.title is None
    assert str(terminal(Table("t", columns("a"), ())).title) == "t"


def test_text_stands_left_and_numbers_right_and_only_folding_columns_wrap() -> None:
    rich = terminal(Table("", (Column("a", "a", fold=True), Column("b", "b")), (("x", 1), (None, 2))))
    assert [column.justify for column in rich.columns] == ["left", "right"]
    assert [column.no_wrap for column in rich.columns] == [False, True]


def test_several_tables_follow_each_other() -> None:
    one, two = Table("one", columns("a"), ((1,),)), Table("two", columns("a"), ((2,),))
    assert render_all([one, two], "csv") == "a\n1\n\na\n2\n"
    assert [each["title"] for each in json.loads(render_all([one, two], "json"))] == ["one", "two"]


def test_json_keeps_letters_and_its_notes() -> None:
    text = render(Table("Δ", columns("a"), ((Number(1.0, spread=0.5),),), ("note",)), "json")
    assert "Δ" in text
    assert json.loads(text)["notes"] == ["note"]
    assert json.loads(text)["rows"] == [{"a": 1.0, "a_sd": 0.5}]


@pytest.mark.parametrize(("own", "less"), [(3, 0), (11, 0), (12, 0), (13, 1), (20, 8)])
def test_a_column_that_may_be_broken_needs_no_more_than_twelve_characters(own: int, less: int) -> None:
    heads = (Column("a", "a", fold=True), Column("n", "n"))
    table = Table("", heads, (("x" * own, Number(1.0, interval=(0.0, 2.0))),))
    needed = needed_width(terminal(table)) - less
    for width, text in ((needed, "1.0 [0.0, 2.0]"), (needed - 1, "1.0\n[0.0, 2.0]")):
        (piece,) = fit_table(table, width)
        assert [str(cell) for cell in piece.columns[1].cells] == [text]


def test_headings_of_stacked_columns_are_as_wide_as_their_cells() -> None:
    heads = (Column("a", "a long heading of words"), Column("b", "unbreakable-heading"))
    rich = terminal(Table("", heads, ((Number(1.0, interval=(0.0, 2.0)), "a/b"),)), stacked=True)
    assert [str(column.header) for column in rich.columns] == ["a long\nheading of\nwords", "unbreakable-heading"]
    assert [str(cell) for column in rich.columns for cell in column.cells] == ["1.0\n[0.0, 2.0]", "a/b"]
    empty = terminal(Table("", heads, ()), stacked=True)
    assert str(empty.columns[0].header) == "a\nlong\nheading\nof\nwords"


@pytest.mark.parametrize(("label", "shown"), [("twelve/chars", "twelve/chars"), ("a/thirteen/ch", "a/\nthirteen/ch")])
def test_a_label_longer_than_twelve_characters_is_broken_at_its_first_slash(label: str, shown: str) -> None:
    rich = terminal(Table("", columns("a"), ((label,),)), stacked=True)
    assert [str(cell) for cell in rich.columns[0].cells] == [shown]
