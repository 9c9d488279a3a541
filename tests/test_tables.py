"""One table in five formats; whatever stands in a cell is shown as text."""

from __future__ import annotations

import csv
import io
import json

from recompact.tables import Column, Number, Table, render, render_all
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
