"""From one kind of document to another: to PDF by LibreOffice where it is installed, otherwise as plain text.

LibreOffice gets its own directory for each conversion, in the sandbox if there is one: what it opens may come from an
agent. Of plain text, what the fonts have, up to a limit, can be read back; none of the layout is kept. The same text
gives the same bytes.
"""

from __future__ import annotations

import io
import logging
import re
import shutil
import tempfile
import textwrap
import zlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recompact.environments.files import ActionError
from recompact.environments.shell import CommandLimits, Shell
from recompact.suites.officebench.documents import (
    DOCUMENT,
    WORKBOOK,
    active_sheet,
    check_archive,
    check_area,
    document_text,
    open_document,
)
from recompact.suites.officebench.tree import TESTBED, files_of_testbed

if TYPE_CHECKING:
    from openpyxl.cell.cell import Cell


_IMAGES = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
_COMMAND = (
    "soffice -env:UserInstallation=file://$HOME/office --headless --norestore"
    " --convert-to pdf --outdir . source{suffix} && test -s source.pdf"
)
_OFFICE = CommandLimits(seconds=60.0, cpu=60, memory=8 * 1024**3, processes=200)  # it reserves far more than it uses
_log = logging.getLogger(__name__)


def office_of(shell: Shell) -> Shell | None:
    """Where LibreOffice may run: as the shell does or not at all, since it opens what an agent wrote."""
    if shell.refused or shutil.which("soffice") is None:
        return None
    return replace(shell, limits=_OFFICE)


def to_pdf(data: bytes, suffix: str, office: Shell | None) -> bytes:
    """A workbook (.xlsx) or a document (.docx) as PDF."""
    check_archive(data, WORKBOOK if suffix == ".xlsx" else DOCUMENT)
    converted = _by_office(data, suffix, office) if office is not None else None
    if converted is not None:
        return converted
    return plain_pdf(_workbook_lines(data) if suffix == ".xlsx" else document_text(open_document(data)))


def _by_office(data: bytes, suffix: str, office: Shell) -> bytes | None:
    """None if LibreOffice does not work as installed: that is not the agent's fault."""
    with tempfile.TemporaryDirectory(prefix="recompact-office-") as scratch:
        directory = Path(scratch, TESTBED)
        directory.mkdir()
        (directory / f"source{suffix}").write_bytes(data)
        result = office.run(_COMMAND.format(suffix=suffix), directory)
        if result.stopped:
            raise ActionError(f"the conversion was stopped: {result.stopped}")
        if result.code:
            _log.warning("LibreOffice failed, so a plain PDF is written: %s", result.output.strip()[-300:])
            return None
        return files_of_testbed(directory).read("source.pdf")


def pages_to_document(pages: list[str]) -> bytes:
    import docx

    document = docx.Document()
    for page in pages:
        for line in page.splitlines():
            document.add_paragraph("".join(c if c.isprintable() else " " for c in line))
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def pages_to_image(pages: list[str], name: str) -> bytes:
    kind = _IMAGES.get(Path(name).suffix.lower())
    if kind is None:
        raise ActionError(f"{name} must end in one of {', '.join(_IMAGES)}")
    return plain_image(pages[0] if pages else "", kind)


def _workbook_lines(data: bytes) -> str:
    """The values of the active sheet, as its number formats show them."""
    import openpyxl

    # Twice: programs that do not calculate drop a formula's last result, and then the formula is all there is.
    values = active_sheet(openpyxl.load_workbook(io.BytesIO(data), data_only=True))
    formulas = active_sheet(openpyxl.load_workbook(io.BytesIO(data)))
    check_area(formulas.max_row, formulas.max_column)
    lines = []
    for row, other in zip(values.iter_rows(), formulas.iter_rows(), strict=True):
        pairs = zip(row, other, strict=True)
        lines.append("\t".join(_show_cell(formula if cell.value is None else cell) for cell, formula in pairs).rstrip())
    return "\n".join(lines)


def _show_cell(cell: Cell | Any) -> str:
    value, kind = cell.value, str(cell.number_format)
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%m/%d/%y" if not value.time().replace(microsecond=0).isoformat().strip("0:") else "%c")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    form = kind.partition(";")[0]
    decimals = re.search(r"0\.(0+)", form)
    places = len(decimals[1]) if decimals else 0
    if "%" in form:
        return f"{value * 100:.{places}f}%"
    if "0" not in form:
        return str(value)
    comma = "," if "#,##0" in form else ""
    sign = "-" if value < 0 else ""
    return f"{sign}{'$' if '$' in form else ''}{abs(value):{comma}.{places}f}"


_WIDTH = 95  # characters of nine-point Courier that fit between the margins
_LINES = 60
_LINE_LIMIT = 30_000


def plain_pdf(text: str) -> bytes:
    """Characters outside Windows' Western alphabet become question marks: the built-in fonts have no others."""
    pages = _pages(text)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(pages):
        resources = "/MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {resources} /Contents {5 + 2 * number} 0 R >>".encode())
        shown = b"".join(b"(" + _escape(line) + b") Tj T*\n" for line in lines)
        stream = zlib.compress(b"BT /F1 9 Tf 11 TL 48 740 Td\n" + shown + b"ET")
        head = f"<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n".encode()
        objects.append(head + stream + b"\nendstream")
    return _pdf_file(objects)


def plain_image(text: str, kind: str) -> bytes:
    """The beginning of a text as a page; `kind` is a format as Pillow names it."""
    from PIL import Image, ImageDraw

    page = Image.new("RGB", (850, 1100), "white")
    draw = ImageDraw.Draw(page)
    for number, line in enumerate(_pages(text)[0]):
        draw.text((60, 60 + 16 * number), line.encode("latin-1", "replace").decode("latin-1"), fill="black")
    buffer = io.BytesIO()
    page.save(buffer, kind)
    return buffer.getvalue()


def _pages(text: str) -> list[list[str]]:
    lines: list[str] = []
    for line in text.expandtabs(4).splitlines()[:_LINE_LIMIT]:
        lines += textwrap.wrap(line, _WIDTH, drop_whitespace=False) or [""]
    return [lines[start : start + _LINES] for start in range(0, len(lines), _LINES)] or [[]]


def _escape(line: str) -> bytes:
    data = "".join(c if c.isprintable() else " " for c in line).encode("cp1252", "replace")
    return data.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _pdf_file(objects: Sequence[bytes]) -> bytes:
    out = io.BytesIO()
    out.write(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, data in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n".encode() + data + b"\nendobj\n")
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.writelines(f"{place:010d} 00000 n \n".encode() for place in places)
    out.write(f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode())
    return out.getvalue()
