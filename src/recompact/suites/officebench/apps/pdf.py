"""The PDF app: reading, and conversion to an image or a document."""

from __future__ import annotations

from recompact.environments.files import ActionError
from recompact.suites.officebench.apps.spec import App, Arguments, Desk, text
from recompact.suites.officebench.conversion import pages_to_document, pages_to_image
from recompact.suites.officebench.documents import pdf_pages

PDF = App("pdf", "PDF files")


@PDF.read("show the text of a PDF", "pdf_file_path")
def _read_file(desk: Desk, arguments: Arguments) -> str:
    path = text(arguments, "pdf_file_path")
    pages = _pages(desk, path)
    shown = "\n".join(f"Page {number}:\n{page}" for number, page in enumerate(pages, 1))
    return f"The text of {path}:\n{shown}"


@PDF.change("save the first page as an image (.jpg or .png)", "pdf_file_path", "image_file_path")
def _convert_to_image(desk: Desk, arguments: Arguments) -> str:
    source, target = text(arguments, "pdf_file_path"), text(arguments, "image_file_path")
    desk.files.write(target, pages_to_image(_pages(desk, source), target))
    return f"The first page of {source} is saved as the image {target}."


@PDF.change("save a PDF as a document", "pdf_file_path", "word_file_path")
def _convert_to_word(desk: Desk, arguments: Arguments) -> str:
    source, target = text(arguments, "pdf_file_path"), text(arguments, "word_file_path")
    desk.files.write(target, pages_to_document(_pages(desk, source)))
    return f"{source} is converted to {target}."


def _pages(desk: Desk, path: str) -> list[str]:
    data = desk.files.read(path)
    try:
        return pdf_pages(data)
    except ActionError:
        raise
    except Exception as error:  # a broken PDF makes the library raise almost anything
        raise ActionError(f"{path} cannot be read as PDF: {error}") from None
