"""The word processor: documents that grow by paragraphs."""

from __future__ import annotations

import ast
import io
from functools import cache

from recompact.environments.files import ActionError
from recompact.suites.officebench.apps.spec import App, Arguments, Desk, text, without_quotes
from recompact.suites.officebench.conversion import to_pdf
from recompact.suites.officebench.documents import document_text, open_document

WORD = App("word", "documents (.docx)")


@WORD.change("make an empty document", "file_path")
def _create_new_file(desk: Desk, arguments: Arguments) -> str:
    path = text(arguments, "file_path")
    if desk.files.exists(path):
        raise ActionError(f"the file {path} exists already")
    desk.files.write(path, new_document())
    return f"The new document {path} is empty."


@WORD.change("add one paragraph at the end of an existing document", "file_path", "contents")
def _write_to_file(desk: Desk, arguments: Arguments) -> str:
    path, contents = text(arguments, "file_path"), without_quotes(text(arguments, "contents"))
    if not desk.files.exists(path):
        raise ActionError(f"the file {path} does not exist; make it with create_new_file first")
    if _is_literal(contents):
        raise ActionError(f"contents must be a sentence or other text, not just {contents[:80]}")
    document = open_document(desk.files.read(path))
    try:
        document.add_paragraph(contents)
    except ValueError as error:  # a control character, which XML cannot hold
        raise ActionError(f"contents cannot be written: {error}") from None
    buffer = io.BytesIO()
    document.save(buffer)
    desk.files.write(path, buffer.getvalue())
    return f"One paragraph is added. {path} now reads:\n{document_text(document)}"


@WORD.read("show the text of a document", "file_path")
def _read_file(desk: Desk, arguments: Arguments) -> str:
    path = text(arguments, "file_path")
    return f"The text of {path}:\n{document_text(open_document(desk.files.read(path)))}"


@WORD.change("save a document as PDF", "word_file_path", "pdf_file_path")
def _convert_to_pdf(desk: Desk, arguments: Arguments) -> str:
    source, target = text(arguments, "word_file_path"), text(arguments, "pdf_file_path")
    desk.files.write(target, to_pdf(desk.files.read(source), ".docx", desk.office))
    return f"{source} is converted to {target}."


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
