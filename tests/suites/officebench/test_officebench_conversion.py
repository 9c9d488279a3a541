"""Conversions: plain ones keep all text, and LibreOffice is used as it is found (here a stand-in for it)."""

from __future__ import annotations

import io
from pathlib import Path

import docx
import pypdf
import pytest
from examples import examples
from hypothesis import given, strategies as st
from needs import needs
from officebench_support import playing
from PIL import Image

from recompact.suites.officebench.conversion import plain_image, plain_pdf
from recompact.suites.officebench.documents import pdf_pages

WESTERN = st.characters(codec="cp1252", exclude_categories=("C", "Z"))


@given(st.lists(st.text(WESTERN, min_size=1, max_size=60), min_size=1, max_size=150))
@examples(40)
def test_a_plain_pdf_holds_its_text(words: list[str]) -> None:
    read = "".join(pdf_pages(plain_pdf("\n".join(words))))
    assert "".join(read.split()) == "".join(words)


def test_a_plain_pdf_is_the_same_every_time_and_can_be_read_by_others() -> None:
    text = "One (line) with \\ marks\n\n" + "word " * 4000
    assert plain_pdf(text) == plain_pdf(text)
    reader = pypdf.PdfReader(io.BytesIO(plain_pdf(text)), strict=True)
    assert len(reader.pages) > 1
    assert plain_pdf("")


def test_letters_from_elsewhere_become_question_marks() -> None:
    assert "??" in pdf_pages(plain_pdf("日本"))[0]


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_an_image_is_one(kind: str) -> None:
    assert Image.open(io.BytesIO(plain_image("Some text\n日本", kind))).format == kind


@needs("officebench")
def test_a_workbook_is_printed_as_its_number_formats_say() -> None:
    with playing("3-4/0", libreoffice=False) as player:
        source, target = "data/financial_report_2.xlsx", "data/financial/report.pdf"
        player.ok("excel.convert_to_pdf", excel_file_path=source, pdf_file_path=target)
        text = player.ok("pdf.read_file", pdf_file_path=target)
        assert all(shown in text for shown in ("$190,000.00", "$130,833.33", "-$190,000.00", "12.66%", "Quadrex"))


@needs("officebench")
def test_a_pdf_becomes_a_document_again() -> None:
    with playing("1-3/0", libreoffice=False) as player:
        player.ok("pdf.convert_to_word", pdf_file_path="data/file2.pdf", word_file_path="data/again.docx")
        assert "PDF test file 2" in player.ok("word.read_file", file_path="data/again.docx")
        assert docx.Document(str(player.testbed / "data" / "again.docx")).paragraphs
        player.refused("pdf.convert_to_image", pdf_file_path="data/file2.pdf", image_file_path="data/page.svg")


@needs("officebench")
@pytest.mark.parametrize(("body", "works"), [("cp printed.pdf source.pdf", True), ("exit 1", False), ("true", False)])
def test_libreoffice_is_used_where_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, body: str, works: bool
) -> None:
    from recompact.environments import shell as sandbox

    (tmp_path / "printed.pdf").write_bytes(plain_pdf("by the office"))
    program = tmp_path / "soffice"
    program.write_text(f"#!/bin/sh\n{body.replace('printed.pdf', str(tmp_path / 'printed.pdf'))}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: (None, "none"))
    with playing("1-3/0", unsafe_shell=True) as player:
        player.ok("word.convert_to_pdf", word_file_path="data/file1.docx", pdf_file_path="data/out.pdf")
        text = player.ok("pdf.read_file", pdf_file_path="data/out.pdf")
    assert ("by the office" in text) is works
    assert ("LibreOffice failed" in caplog.text) is not works
    with playing("1-3/0") as player:  # without the user's word it does not run outside a sandbox
        player.ok("word.convert_to_pdf", word_file_path="data/file1.docx", pdf_file_path="data/out.pdf")
        assert "by the office" not in player.ok("pdf.read_file", pdf_file_path="data/out.pdf")
