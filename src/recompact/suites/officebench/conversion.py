"""From one kind of document to another: to PDF by LibreOffice where it is installed, otherwise as plain text.

LibreOffice gets its own directory for each conversion, in the sandbox if there is one: what it opens may come from an
agent.
"""

from __future__ import annotations

import io
import logging
import re
import shutil
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recompact.environments.files import ActionError
from recompact.environments.shell import CommandLimits, Shell
from recompact.suites.officebench import plain
from recompact.suites.officebench.documents import (
    DOCUMENT,
    WORKBOOK,
    active_sheet,
    check_archive,
    check_area,
    document_text,
    open_document,
)
from recompact.suites.officebench.testbed import TESTBED, files_of_testbed

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
    return plain.pdf(_workbook_lines(data) if suffix == ".xlsx" else document_text(open_document(data)))


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
    return plain.image(pages[0] if pages else "", kind)


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
