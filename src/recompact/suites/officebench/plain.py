"""Pages of plain text as a PDF, where there is no LibreOffice, and as an image.

Text that the fonts have, up to a limit, can be read back; none of the layout is kept. The same text gives the same
bytes.
"""

from __future__ import annotations

import io
import textwrap
import zlib
from collections.abc import Sequence

_WIDTH = 95  # characters of nine-point Courier that fit between the margins
_LINES = 60
_LINE_LIMIT = 30_000


def pdf(text: str) -> bytes:
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
    return _file(objects)


def image(text: str, kind: str) -> bytes:
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


def _file(objects: Sequence[bytes]) -> bytes:
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
