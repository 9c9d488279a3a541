"""The spreadsheet app: the active sheet of a workbook, cell by cell."""

from __future__ import annotations

import ast
import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recompact.environments.files import ActionError
from recompact.suites.officebench.apps.spec import App, Arguments, Desk, index, text
from recompact.suites.officebench.conversion import to_pdf
from recompact.suites.officebench.documents import active_sheet, check_area, listing, open_workbook

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook

_EXACT = 1e15  # whole numbers up to here are written and read back digit for digit

EXCEL = App("excel", "workbooks (.xlsx)")


@EXCEL.read("show every cell as (row, column): value", "file_path")
def _read_file(desk: Desk, arguments: Arguments) -> str:
    path = text(arguments, "file_path")
    return f"The active sheet of {path}:\n{listing(active_sheet(open_workbook(desk.files.read(path))))}"


@EXCEL.change(
    "write into one cell of an existing file; rows and columns count from 1",
    "file_path",
    "row_idx",
    "column_idx",
    "text",
)
def _set_cell(desk: Desk, arguments: Arguments) -> str:
    return _change(desk, arguments, cell_value(arguments["text"]))


@EXCEL.change("empty one cell", "file_path", "row_idx", "column_idx")
def _delete_cell(desk: Desk, arguments: Arguments) -> str:
    # Empty text, not nothing: the cell stays part of the sheet's area, as it does in OfficeBench.
    return _change(desk, arguments, "")


def _change(desk: Desk, arguments: Arguments, value: Any) -> str:
    path, row, column = text(arguments, "file_path"), index(arguments, "row_idx"), index(arguments, "column_idx")
    if not desk.files.exists(path):
        raise ActionError(f"the file {path} does not exist; make it with create_new_file first")
    workbook = open_workbook(desk.files.read(path))
    sheet = active_sheet(workbook)
    check_area(max(row, sheet.max_row), max(column, sheet.max_column))
    try:
        sheet.cell(row, column).value = value
    except (ValueError, AttributeError, TypeError) as error:  # a merged cell, a character that no cell may hold
        raise ActionError(f"cell ({row}, {column}) cannot be set: {error}") from None
    _save(desk, path, workbook)
    return f"Cell ({row}, {column}) is changed. {path} now reads:\n{listing(sheet)}"


@EXCEL.change("make an empty workbook", "file_path")
def _create_new_file(desk: Desk, arguments: Arguments) -> str:
    import openpyxl

    path = text(arguments, "file_path")
    if desk.files.exists(path):
        raise ActionError(f"the file {path} exists already")
    _save(desk, path, openpyxl.Workbook())
    return f"The new workbook {path} is empty."


@EXCEL.change("save a workbook as PDF", "excel_file_path", "pdf_file_path")
def _convert_to_pdf(desk: Desk, arguments: Arguments) -> str:
    source, target = text(arguments, "excel_file_path"), text(arguments, "pdf_file_path")
    desk.files.write(target, to_pdf(desk.files.read(source), ".xlsx", desk.office))
    return f"{source} is converted to {target}."


def _save(desk: Desk, path: str, workbook: Workbook) -> None:
    """Write it with the task's time in it and no other: the same actions must give the same file, its size included."""
    from openpyxl.writer.excel import ExcelWriter

    buffer = io.BytesIO()
    workbook.properties.created = workbook.properties.modified = desk.now
    ExcelWriter(workbook, _TimelessArchive(buffer, "w", zipfile.ZIP_DEFLATED)).save()
    desk.files.write(path, buffer.getvalue())


class _TimelessArchive(zipfile.ZipFile):
    """Everything in it is dated 1 January 1980."""

    def writestr(self, zinfo_or_arcname: Any, data: Any, *_: Any, **__: Any) -> None:
        member = zipfile.ZipInfo(zinfo_or_arcname)
        member.compress_type = self.compression
        super().writestr(member, data)

    def write(self, filename: Any, arcname: Any = None, *_: Any, **__: Any) -> None:
        self.writestr(arcname, Path(filename).read_bytes())


def cell_value(given: Any) -> Any:
    """What a cell gets for an argument: OfficeBench reads text that is a Python literal as its value.

    >>> [cell_value(text) for text in ("78", "80.05", "True", "8:00", "007", "$50")]
    [78, 80.05, True, '8:00', '007', '$50']
    """
    value = given
    if isinstance(given, str):
        try:
            value = ast.literal_eval(given)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return given
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    raise ActionError(f"a cell holds one text or number, not {str(given)[:80]}; write numbers without separators")
