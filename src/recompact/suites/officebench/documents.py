"""The contents of a document as text, read the same way for the apps and for the evaluator.

The bytes may come from an agent. An archive that unpacks to more than any honest document holds, XML with a document
type, or a sheet whose ranges span more cells than it could list is refused before a library sees it.
"""

from __future__ import annotations

import email
import io
import re
import zipfile
from email import policy
from email.message import EmailMessage, MIMEPart
from typing import TYPE_CHECKING, Any, cast
from xml.parsers import expat

from recompact.environments.files import ActionError

if TYPE_CHECKING:
    from docx.document import Document
    from openpyxl.workbook import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

EMPTY_CELL = "[Empty Cell]"
WORKBOOK, DOCUMENT = "workbook", "document"
CELL_LIMIT = 100_000
_ARCHIVE_LIMIT = 64 * 1024 * 1024
_XML_LIMIT = 4 * 1024 * 1024
_MEMBER_LIMIT = 2_000
_PAGE_LIMIT = 500
_CHUNK = 65_536
_RANGE = re.compile(r"\$?([A-Za-z]{1,3})\$?(\d{1,7}):\$?([A-Za-z]{1,3})\$?(\d{1,7})")
_SPREADING = ("mergeCell", "hyperlink")  # elements that a reader turns into one object for each cell of their range


def open_workbook(data: bytes) -> Workbook:
    import openpyxl

    check_archive(data, WORKBOOK)
    return openpyxl.load_workbook(io.BytesIO(data))


def active_sheet(workbook: Workbook) -> Worksheet:
    sheet = workbook.active
    if sheet is None or not hasattr(sheet, "iter_rows"):
        raise ActionError("the workbook has no sheet with cells")
    return cast("Worksheet", sheet)


def listing(sheet: Worksheet) -> str:
    """A sheet as `(row, column): value`, tabs between cells and one line per row."""
    check_area(sheet.max_row, sheet.max_column)
    lines = []
    for row in sheet.iter_rows():
        cells = (f"({c.row}, {c.column}): {EMPTY_CELL if c.value in (None, '') else c.value}\t" for c in row)
        lines.append("".join(cells) + "\n")
    return "".join(lines)


def workbook_text(data: bytes) -> str:
    return listing(active_sheet(open_workbook(data)))


def check_area(rows: int, columns: int) -> None:
    if rows * columns > CELL_LIMIT:
        raise ActionError(
            f"a sheet of {rows:,} rows and {columns:,} columns is too large: {CELL_LIMIT:,} cells at most"
        )


def open_document(data: bytes) -> Document:
    import docx

    check_archive(data, DOCUMENT)
    return docx.Document(io.BytesIO(data))


def document_text(document: Document) -> str:
    """Paragraphs and tables in order, with bars between the cells of a row."""
    from docx.oxml.ns import qn
    from docx.text.paragraph import Paragraph

    def text(element: Any) -> str:
        return Paragraph(element, document._body).text

    lines = []
    for element in document.element.body.iterchildren():
        if element.tag == qn("w:p"):
            lines.append(text(element))
        elif element.tag == qn("w:tbl"):
            # Not the library's `row.cells`: it repeats a cell as often as its span says, which may be a billion.
            for row in element.iterchildren(qn("w:tr")):
                cells = row.iterchildren(qn("w:tc"))
                lines.append("|".join("\n".join(text(p) for p in cell.iterchildren(qn("w:p"))) for cell in cells))
    return "\n".join(lines)


def pdf_pages(data: bytes) -> list[str]:
    import pypdf

    pages = pypdf.PdfReader(io.BytesIO(data)).pages
    if len(pages) > _PAGE_LIMIT:
        raise ActionError(f"the PDF has {len(pages):,} pages; {_PAGE_LIMIT} at most can be read")
    return [page.extract_text() for page in pages]


def mail_text(name: str, data: bytes, preview: int | None = None) -> str:
    """An e-mail as far as it is shown. Raises ValueError if its text cannot be read, as when it names no character
    set."""
    message = email.message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    content = _content(message)
    content = content if preview is None else f"{content[:preview]}..."
    head = "".join(f"{key}: {message[key]}\n" for key in ("From", "To", "Subject"))
    return f"Email ID: {name}\n{head}Content: {content}\n{'-' * 40}\n"


def _content(message: MIMEPart) -> str:
    if message.is_multipart():
        texts = [p for p in message.iter_parts() if p.get_content_type() in ("text/plain", "text/html")]
        return "\n".join(_decode_part(part) for part in texts)
    return _decode_part(message)


def _decode_part(part: MIMEPart) -> str:
    charset = part.get_content_charset()
    payload = part.get_payload(decode=True)
    if charset is None or not isinstance(payload, bytes):
        raise ValueError("a part of the message names no character set")
    try:
        return payload.decode(charset, errors="replace")
    except LookupError:
        raise ValueError(f"a part of the message names an unknown character set, {charset}") from None


# -- what is refused before it is opened ------------------------------------------------------------------------------


def check_archive(data: bytes, what: str) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > _MEMBER_LIMIT or sum(member.file_size for member in members) > _ARCHIVE_LIMIT:
                raise ActionError(
                    f"the {what} unpacks to more than {_ARCHIVE_LIMIT:,} bytes or {_MEMBER_LIMIT:,} parts"
                )
            for member in members:
                _check_member(archive, member, what)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise ActionError(f"this is no {what}: {error}") from None


def _check_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, what: str) -> None:
    """Scan a part as XML. For anything else, such as an image, this stops at the first bytes."""
    guard = _XmlGuard(what)
    read = 0
    with archive.open(member) as stream:
        while chunk := stream.read(_CHUNK):
            read += len(chunk)
            if not guard.feed(chunk):
                return
            if read > _XML_LIMIT:
                raise ActionError(f"the {what} has a part of more than {_XML_LIMIT:,} bytes of XML")


class _XmlGuard:
    """Watches XML go by and refuses what would make a reader use far more memory than its size suggests."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._cells = 0
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._doctype
        if what == WORKBOOK:
            self._parser.StartElementHandler = self._element

    def feed(self, chunk: bytes) -> bool:
        """False once it turns out not to be XML."""
        try:
            self._parser.Parse(chunk, False)
        except expat.ExpatError:
            return False
        return True

    def _doctype(self, *_: object) -> None:
        raise ActionError(f"the {self._what} has XML with a document type, which office programs never write")

    def _element(self, name: str, attributes: dict[str, str]) -> None:
        if name.rpartition(":")[2] not in _SPREADING:
            return
        for first, top, last, bottom in _RANGE.findall(attributes.get("ref", "")):
            width, height = abs(_column(last) - _column(first)) + 1, abs(int(bottom) - int(top)) + 1
            self._cells += width * height
        if self._cells > CELL_LIMIT:
            raise ActionError(f"the {self._what} has merged cells or links over more than {CELL_LIMIT:,} cells")


def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number
