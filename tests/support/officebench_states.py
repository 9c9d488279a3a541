"""The three states in which expected.json judges every testbed, as the data's README describes them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docx
import openpyxl

MAIL = """\
From: sender@example.com
To: {user}@example.com
Subject: synthetic
Content-Type: text/plain; charset="utf-8"

{text}
"""


def finish_none(testbed: Path) -> None:
    (testbed / "data" / "answer.txt").write_text("None\n")


def synthesize(items: list[Mapping[str, Any]], testbed: Path, template: Path) -> None:
    """Fulfil every item in the crudest way."""
    for item in items:
        kind = item["function"].removeprefix("evaluate_")
        if kind == "contain":
            _contain(item["args"], testbed)
        elif kind in _WAYS:
            _WAYS[kind](item["args"], testbed, template)
    for item in items:
        if item["function"] == "evaluate_file_exist":
            place = testbed / item["args"]["file"]
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                place.touch()
        elif item["function"] == "evaluate_file_not_exist":
            (testbed / item["args"]["file"]).unlink(missing_ok=True)


def _contain(args: Mapping[str, Any], testbed: Path) -> None:
    kind, words = args["doc_type"], args["keywords"]
    if kind == "email":
        place = testbed / "emails" / args["username"] / "synthetic.eml"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(MAIL.format(user=args["username"], text="\n".join(words)), encoding="utf-8")
        return
    place = testbed / args["file"]
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind in ("txt", "ics"):
        with place.open("a", encoding="utf-8") as file:
            file.writelines(f"{word}\n" for word in words)
    elif kind in ("doc", "docx"):
        document = docx.Document(str(place)) if place.exists() else docx.Document()
        for word in words:
            document.add_paragraph(word)
        document.save(str(place))
    elif kind == "xlsx":
        _set_cells(place, [(row, 30, word) for row, word in enumerate(words, 1)])


def _set_cells(place: Path, cells: list[tuple[int, int, Any]]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    workbook = openpyxl.load_workbook(place) if place.exists() else openpyxl.Workbook()
    sheet: Any = workbook.active
    for row, column, value in cells:
        sheet.cell(row, column).value = value
    workbook.save(place)


def _cell_value(args: Mapping[str, Any], testbed: Path, template: Path) -> None:
    cells = [(int(m["row"]), int(m["col"]), str(m["value"])) for m in args["matches"]]
    _set_cells(testbed / args["file"], cells)


def _comparator(args: Mapping[str, Any], testbed: Path, template: Path) -> None:
    _set_cells(testbed / args["file"], [(int(m["row"]), int(m["col"]), 1) for m in args["matches"]])


def _exact(args: Mapping[str, Any], testbed: Path, template: Path) -> None:
    reference = template / "reference" / args["expected_file"].rpartition("/")[2]
    if reference.exists():
        shutil.copyfile(reference, testbed / args["result_file"])


def _diff(args: Mapping[str, Any], testbed: Path, template: Path) -> None:
    place = testbed / args["output_file"]
    workbook = openpyxl.load_workbook(place)
    sheet: Any = workbook.active
    for row in sheet.iter_rows():
        for cell in row:
            cell.value = None
    workbook.save(place)


_WAYS = {
    "excel_cell_value": _cell_value,
    "excel_cell_comparator": _comparator,
    "exact_match": _exact,
    "diff_contain_text": _diff,
}
