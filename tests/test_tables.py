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

from recompact.tables import Column, Number, Table, as_csv, columns, fitted, render, render_all
from recompact.texts import visible

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
    pieces = fitted(table, width)
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
