"""The apps for documents: a spreadsheet, the active sheet of a workbook cell by cell; a word processor, whose documents
grow by paragraphs; and PDF, read and converted."""

from __future__ import annotations

import ast
import io
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recompact.environments.files import ActionError, Files
from recompact.suites.officebench.apps.spec import App, Desk, without_quotes
from recompact.suites.officebench.conversion import pages_to_document, pages_to_image, to_pdf
from recompact.suites.officebench.documents import (
    active_sheet,
    check_area,
    document_text,
    listing,
    open_document,
    open_workbook,
    pdf_pages,
)

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook

EXCEL = App("excel", "workbooks (.xlsx)")
WORD = App("word", "documents (.docx)")
PDF = App("pdf", "PDF files")

_EXACT = 1e15  # whole numbers up to here are written and read back digit for digit


@EXCEL.read("read_file", "show every cell as (row, column): value")
def _read_workbook(desk: Desk, file_path: str) -> str:
    return f"The active sheet of {file_path}:\n{listing(active_sheet(open_workbook(desk.files.read(file_path))))}"


@EXCEL.change("set_cell", "write into one cell of an existing file; rows and columns count from 1")
def _set_cell(desk: Desk, file_path: str, row_idx: int, column_idx: int, text: Any) -> str:
    return _change_cell(desk, file_path, row_idx, column_idx, cell_value(text))


@EXCEL.change("delete_cell", "empty one cell")
def _delete_cell(desk: Desk, file_path: str, row_idx: int, column_idx: int) -> str:
    # Empty text, not nothing: the cell stays part of the sheet's area, as it does in OfficeBench.
    return _change_cell(desk, file_path, row_idx, column_idx, "")


def _change_cell(desk: Desk, path: str, row: int, column: int, value: Any) -> str:
    workbook = open_workbook(_existing(desk.files, path))
    sheet = active_sheet(workbook)
    check_area(max(row, sheet.max_row), max(column, sheet.max_column))
    try:
        sheet.cell(row, column).value = value
    except (ValueError, AttributeError, TypeError) as error:  # a merged cell, a character that no cell may hold
        raise ActionError(f"cell ({row}, {column}) cannot be set: {error}") from None
    desk.files.write(path, _workbook_bytes(desk, workbook))
    return f"Cell ({row}, {column}) is changed. {path} now reads:\n{listing(sheet)}"


@EXCEL.change("create_new_file", "make an empty workbook")
def _new_workbook(desk: Desk, file_path: str) -> str:
    import openpyxl

    _write_new(desk.files, file_path, _workbook_bytes(desk, openpyxl.Workbook()))
    return f"The new workbook {file_path} is empty."


@EXCEL.change("convert_to_pdf", "save a workbook as PDF")
def _workbook_to_pdf(desk: Desk, excel_file_path: str, pdf_file_path: str) -> str:
    return _convert_to_pdf(desk, excel_file_path, pdf_file_path, ".xlsx")


@WORD.change("create_new_file", "make an empty document")
def _new_document(desk: Desk, file_path: str) -> str:
    _write_new(desk.files, file_path, new_document())
    return f"The new document {file_path} is empty."


@WORD.change("write_to_file", "add one paragraph at the end of an existing document")
def _write_to_file(desk: Desk, file_path: str, contents: str) -> str:
    contents = without_quotes(contents)
    data = _existing(desk.files, file_path)
    if _is_literal(contents):
        raise ActionError(f"contents must be a sentence or other text, not just {contents[:80]}")
    document = open_document(data)
    try:
        document.add_paragraph(contents)
    except ValueError as error:  # a control character, which XML cannot hold
        raise ActionError(f"contents cannot be written: {error}") from None
    buffer = io.BytesIO()
    document.save(buffer)
    desk.files.write(file_path, buffer.getvalue())
    return f"One paragraph is added. {file_path} now reads:\n{document_text(document)}"


@WORD.read("read_file", "show the text of a document")
def _read_document(desk: Desk, file_path: str) -> str:
    return f"The text of {file_path}:\n{document_text(open_document(desk.files.read(file_path)))}"


@WORD.change("convert_to_pdf", "save a document as PDF")
def _document_to_pdf(desk: Desk, word_file_path: str, pdf_file_path: str) -> str:
    return _convert_to_pdf(desk, word_file_path, pdf_file_path, ".docx")


@PDF.read("read_file", "show the text of a PDF")
def _read_pdf(desk: Desk, pdf_file_path: str) -> str:
    pages = _pages(desk, pdf_file_path)
    shown = "\n".join(f"Page {number}:\n{page}" for number, page in enumerate(pages, 1))
    return f"The text of {pdf_file_path}:\n{shown}"


@PDF.change("convert_to_image", "save the first page as an image (.jpg or .png)")
def _pdf_to_image(desk: Desk, pdf_file_path: str, image_file_path: str) -> str:
    desk.files.write(image_file_path, pages_to_image(_pages(desk, pdf_file_path), image_file_path))
    return f"The first page of {pdf_file_path} is saved as the image {image_file_path}."


@PDF.change("convert_to_word", "save a PDF as a document")
def _pdf_to_document(desk: Desk, pdf_file_path: str, word_file_path: str) -> str:
    desk.files.write(word_file_path, pages_to_document(_pages(desk, pdf_file_path)))
    return f"{pdf_file_path} is converted to {word_file_path}."


def _existing(files: Files, path: str) -> bytes:
    if not files.exists(path):
        raise ActionError(f"the file {path} does not exist; make it with create_new_file first")
    return files.read(path)


def _write_new(files: Files, path: str, data: bytes) -> None:
    if files.exists(path):
        raise ActionError(f"the file {path} exists already")
    files.write(path, data)


def _convert_to_pdf(desk: Desk, source: str, target: str, suffix: str) -> str:
    desk.files.write(target, to_pdf(desk.files.read(source), suffix, desk.office))
    return f"{source} is converted to {target}."


def _pages(desk: Desk, path: str) -> list[str]:
    data = desk.files.read(path)
    try:
        return pdf_pages(data)
    except ActionError:
        raise
    except Exception as error:  # a broken PDF makes the library raise almost anything
        raise ActionError(f"{path} cannot be read as PDF: {error}") from None


def _workbook_bytes(desk: Desk, workbook: Workbook) -> bytes:
    """With the task's time in it and no other: the same actions must give the same file, its size included."""
    from openpyxl.writer.excel import ExcelWriter

    buffer = io.BytesIO()
    workbook.properties.created = workbook.properties.modified = desk.now
    ExcelWriter(workbook, _TimelessArchive(buffer, "w", zipfile.ZIP_DEFLATED)).save()
    return buffer.getvalue()


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


@cache
def new_document() -> bytes:
    import docx

    buffer = io.BytesIO()
    docx.Document().save(buffer)
    return buffer.getvalue()


def _is_literal(contents: str) -> bool:
    """Whether it is a Python literal other than text, which OfficeBench cannot write into a document."""
    try:
        ast.literal_eval(contents)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
