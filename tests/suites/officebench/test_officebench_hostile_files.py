"""Paths, links and documents of an agent that means harm: refused in every app, and nothing outside is touched."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pytest
from examples import examples
from hypothesis import HealthCheck, given, strategies as st
from needs import needs
from officebench_support import Player, playing, tree

from recompact.suites.officebench.apps import APPS
from recompact.suites.officebench.evaluator import Case, evaluate
from recompact.suites.officebench.tree import files_of_testbed
from recompact.values.trajectory import Action

pytestmark = needs("officebench")

FILE_ARGUMENTS = ("file_path", "excel_file_path", "pdf_file_path", "word_file_path", "image_file_path")
NAME_ARGUMENTS = ("user", "username", "sender", "recipient", "email_id", "subject")
FITTING: dict[str, Any] = {
    "file_path": "data/own.xlsx",
    "excel_file_path": "data/own.xlsx",
    "word_file_path": "data/own.docx",
    "pdf_file_path": "data/own.pdf",
    "image_file_path": "data/own.jpg",
    "row_idx": 1,
    "column_idx": 1,
    "text": "text",
    "contents": "some text",
    "user": "Alice",
    "username": "Alice",
    "summary": "summary",
    "time_start": "2020-05-01 10:00:00",
    "time_end": "2020-05-01 11:00:00",
    "sender": "Alice",
    "recipient": "Bob",
    "subject": "subject",
    "content": "content",
    "email_id": "subject",
}


def calls_with(kinds: tuple[str, ...]) -> list[tuple[str, str]]:
    """Every action of every app with each of its arguments of the kind."""
    return [
        (f"{app.name}.{action.name}", parameter)
        for app in APPS.values()
        for action in app.actions
        for parameter in action.parameters
        if parameter in kinds
    ]


@cache
def secrets() -> dict[str, bytes]:
    workbook, document = openpyxl.Workbook(), docx.Document()
    sheet: Any = workbook.active
    sheet["A1"] = "secret"
    document.add_paragraph("secret")
    files = {"secret.xlsx": io.BytesIO(), "secret.docx": io.BytesIO()}
    workbook.save(files["secret.xlsx"])
    document.save(files["secret.docx"])
    return {name: file.getvalue() for name, file in files.items()}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the testbed with one file of every kind: none may be read, changed or joined by another."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret.txt").write_text("secret")
    for name, data in secrets().items():
        (directory / name).write_bytes(data)
    return directory


@cache
def own_files() -> dict[str, bytes]:
    with playing("1-4/0") as player:
        player.ok("excel.create_new_file", file_path="data/own.xlsx")
        player.ok("word.create_new_file", file_path="data/own.docx")
        player.ok("word.convert_to_pdf", word_file_path="data/own.docx", pdf_file_path="data/own.pdf")
        return {path.name: path.read_bytes() for path in (player.testbed / "data").glob("own.*")}


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Player]:
    episodes = tmp_path / "episodes"
    episodes.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(episodes))
    with playing("1-4/0") as player:
        for name, data in own_files().items():
            (player.testbed / "data" / name).write_bytes(data)
        yield player


def contents(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def arguments_for(action: str, **changed: Any) -> dict[str, Any]:
    app, _, name = action.partition(".")
    found = APPS[app].action(name)
    assert found is not None
    given = {parameter: FITTING[parameter] for parameter in found.parameters}
    if app == "word" and "file_path" in given:
        given["file_path"] = "data/own.docx"
    return given | changed


@pytest.mark.parametrize(("action", "parameter"), calls_with(FILE_ARGUMENTS))
def test_no_path_leads_out(player: Player, outside: Path, action: str, parameter: str) -> None:
    before = contents(outside)
    suffix = Path(arguments_for(action)[parameter]).suffix
    up = "../" * 20
    links = {
        f"file{suffix}": outside / f"secret{suffix}",
        f"new{suffix}": outside / f"new{suffix}",
        "directory": outside,
        "relative": Path(f"{up}{outside}"),
        f"loop{suffix}": Path(f"loop{suffix}"),
        "dots": Path("../.."),
    }
    for name, target in links.items():
        (player.testbed / "data" / name).symlink_to(target)
    os.mkfifo(player.testbed / "data" / f"pipe{suffix}")
    for path in (
        f"{outside}/secret{suffix}",
        f"{outside}/new{suffix}",
        f"../outside{suffix}",
        f"data/../../new{suffix}",
        f"{up}{outside}/new{suffix}",
        f"/testbed/../new{suffix}",
        f"//{outside}/new{suffix}",
        f"/testbedding/new{suffix}",
        f"data/file{suffix}",
        f"data/new{suffix}",
        f"data/directory/secret{suffix}",
        f"data/directory/new{suffix}",
        f"data/relative/new{suffix}",
        f"data/dots/new{suffix}",
        f"data/loop{suffix}",
        f"data/pipe{suffix}",
        "data",
        "",
        f"data/\0{suffix}",
        f"data/{'long' * 100}{suffix}",
        f"data/own.xlsx/below{suffix}",
    ):
        player.refused(action, **arguments_for(action, **{parameter: path}))
    assert contents(outside) == before
    assert os.listdir(player.environment.directory.parent) == [player.environment.directory.name]
    assert sorted(os.listdir(player.environment.directory)) == ["testbed", "tmp"]
    assert sorted(os.listdir(player.testbed)) == ["calendar", "data", "emails"]


@pytest.mark.parametrize(("action", "parameter"), calls_with(NAME_ARGUMENTS))
def test_no_name_leads_out(player: Player, outside: Path, action: str, parameter: str) -> None:
    before = contents(outside)
    for name in ("../../outside", f"{outside}/x", "..", ".", "", "a/b", "a\0b", "a\nb", "x" * 5000, f"..\\{outside}"):
        player.refused(action, **arguments_for(action, **{parameter: name}))
    (player.testbed / "emails" / "Eve").symlink_to(outside)
    (player.testbed / "calendar" / "Eve.ics").symlink_to(outside / "secret.txt")
    (player.testbed / "emails" / "Alice").mkdir(exist_ok=True)
    (player.testbed / "emails" / "Alice" / "Eve.eml").symlink_to(outside / "secret.txt")
    assert "secret" not in player.do(action, **arguments_for(action, **{parameter: "Eve"})).text
    assert contents(outside) == before
    assert sorted(os.listdir(player.environment.directory)) == ["testbed", "tmp"]


def test_an_answer_is_not_written_through_a_link(player: Player, outside: Path) -> None:
    before = contents(outside)
    (player.testbed / "data" / "answer.txt").symlink_to(outside / "secret.txt")
    assert "outside /testbed" in player.refused("system.finish_task", answer="gotcha")
    assert contents(outside) == before


def test_links_inside_the_testbed_are_followed(player: Player) -> None:
    (player.testbed / "data" / "again.xlsx").symlink_to("/testbed/data/own.xlsx")
    (player.testbed / "mine").symlink_to("data")
    player.ok("excel.set_cell", file_path="mine/again.xlsx", row_idx=1, column_idx=1, text="here")
    assert "(1, 1): here" in player.ok("excel.read_file", file_path="/testbed/data/own.xlsx")


def test_the_evaluator_reads_nothing_outside(player: Player, outside: Path) -> None:
    (player.testbed / "data" / "answer.txt").symlink_to(outside / "secret.txt")
    (player.testbed / "emails" / "Bob").symlink_to(outside)
    (outside / "mail.eml").write_text(
        "From: a\nTo: b\nSubject: secret\nContent-Type: text/plain; charset=utf-8\n\nsecret\n"
    )
    case = Case(files_of_testbed(player.testbed), tree().template("1-4"))
    items: list[dict[str, Any]] = [
        {
            "function": "evaluate_contain",
            "args": {"doc_type": "txt", "file": "data/answer.txt", "keywords": ["secret"]},
        },
        {"function": "evaluate_contain", "args": {"doc_type": "email", "username": "Bob", "keywords": ["secret"]}},
        {"function": "evaluate_file_exist", "args": {"file": "data/answer.txt"}},
        {"function": "evaluate_file_exist", "args": {"file": str(outside / "secret.txt")}},
    ]
    assert evaluate(items, case) == [False, False, False, False]


# -- documents that are larger than they look --------------------------------------------------------------------------


def repacked(data: bytes, changes: dict[str, Callable[[bytes], bytes]], extra: dict[str, bytes] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, changes[name](content) if name in changes else content)
        for name, content in (extra or {}).items():
            new.writestr(name, content)
    return buffer.getvalue()


def inserted(before: bytes, text: bytes) -> Callable[[bytes], bytes]:
    def insert(content: bytes) -> bytes:
        assert before in content
        return content.replace(before, text + before)

    return insert


def in_sheet(text: bytes) -> Callable[[bytes], bytes]:
    """A workbook with more in its sheet, where merged cells and links stand."""
    return lambda data: repacked(data, {SHEET: inserted(b"<pageMargins", text)})


def far_cell(content: bytes) -> bytes:
    row = b'<sheetData><row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    return content.replace(b"<sheetData></sheetData>", row).replace(b"<sheetData/>", row)


SHEET, DOCUMENT = "xl/worksheets/sheet1.xml", "word/document.xml"
LAUGHS = (
    b"""<!DOCTYPE l [<!ENTITY a "ha">"""
    + b"".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">'.encode() for n in range(9))
    + b"]>"
)
MERGED = b"".join(b'<mergeCell ref="A%d:ZZ%d"/>' % (row, row + 50) for row in range(1, 5000, 51))

WORKBOOKS: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda data: repacked(data, {}, {"xl/media/zeros.bin": bytes(70_000_000)}),
    "long XML": lambda data: repacked(data, {SHEET: inserted(b"<sheetData", b"<!--" + b" " * 4_300_000 + b"-->")}),
    "a far cell": lambda data: repacked(data, {SHEET: far_cell}),
    "merged cells": in_sheet(b'<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>'),
    "many merged cells": in_sheet(b"<mergeCells>" + MERGED + b"</mergeCells>"),
    "links": in_sheet(b'<hyperlinks><hyperlink ref="A1:XFD1048576" location="x"/></hyperlinks>'),
    "laughs": lambda data: repacked(data, {SHEET: lambda content: LAUGHS + b"<l>&j;</l>"}),
    "not a zip": lambda data: b"PK" + bytes(1000),
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
}

DOCUMENTS: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda data: repacked(data, {}, {"word/media/zeros.png": bytes(70_000_000)}),
    "long XML": lambda data: repacked(data, {DOCUMENT: inserted(b"</w:body>", b"<w:p/>" * 800_000)}),
    "laughs": lambda data: repacked(data, {DOCUMENT: lambda content: LAUGHS + b"<l>&j;</l>"}),
    "not a zip": lambda data: b"PK" + bytes(1000),
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("kind", WORKBOOKS)
def test_a_workbook_that_is_a_bomb_is_refused(player: Player, kind: str) -> None:
    place = player.testbed / "data" / "own.xlsx"
    place.write_bytes(WORKBOOKS[kind](place.read_bytes()))
    for action in ("read_file", "set_cell", "delete_cell", "convert_to_pdf"):
        player.refused(f"excel.{action}", **arguments_for(f"excel.{action}"))
    item = {"function": "evaluate_contain", "args": {"doc_type": "xlsx", "file": "data/own.xlsx", "keywords": ["x"]}}
    assert evaluate([item], Case(files_of_testbed(player.testbed), tree().template("1-4"))) == ["error"]


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_that_is_a_bomb_is_refused(player: Player, kind: str) -> None:
    place = player.testbed / "data" / "own.docx"
    place.write_bytes(DOCUMENTS[kind](place.read_bytes()))
    for action in ("read_file", "write_to_file", "convert_to_pdf"):
        player.refused(f"word.{action}", **arguments_for(f"word.{action}"))


def test_a_table_cell_that_spans_a_billion_columns_is_read_once(player: Player) -> None:
    place = player.testbed / "data" / "own.docx"
    table = (
        b'<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="1000000000"/></w:tcPr>'
        b"<w:p><w:r><w:t>wide</w:t></w:r></w:p></w:tc>"
        b"<w:tc><w:p><w:r><w:t>next</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    )
    place.write_bytes(repacked(place.read_bytes(), {DOCUMENT: inserted(b"<w:sectPr", table)}))
    assert "wide|next" in player.ok("word.read_file", file_path="data/own.docx")


def test_a_pdf_that_is_a_bomb_is_refused(player: Player) -> None:
    stream = zlib.compress(bytes(80_000_000))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/MediaBox[0 0 9 9]>>",
        b"<</Length %d/Filter/FlateDecode>>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    body = b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % pair for pair in enumerate(objects, 1))
    (player.testbed / "data" / "own.pdf").write_bytes(body + b"trailer<</Root 1 0 R/Size 5>>\n%%EOF")
    for action in ("read_file", "convert_to_image", "convert_to_word"):
        player.refused(f"pdf.{action}", **arguments_for(f"pdf.{action}"))


EXPRESSIONS = """9**9**9|9**999999|__import__('os').getcwd()|1/0|[1]*10**9|'a'*10**9|(lambda: 1)()|(-8)**0.5|1e400
10**99*10**99|max()|-[1]|abs([1])|1 if 1 else 2|[1, 2]|1;2""".replace("\n", "|")


@pytest.mark.parametrize("text", [*EXPRESSIONS.split("|"), "(" * 5000 + ")" * 5000, "1" * 1999, "-" * 1999 + "1"])
def test_the_calculator_only_calculates(player: Player, text: str) -> None:
    player.refused("calculator.calculate", expression=text)


def test_a_sheet_does_not_grow_without_limit(player: Player) -> None:
    for row, column in ((1048576, 16384), (10**12, 1), (1, 10**12), (100_001, 1)):
        text = player.refused("excel.set_cell", file_path="data/own.xlsx", row_idx=row, column_idx=column, text="x")
        assert "too large" in text


def test_a_long_document_is_shown_in_part(player: Player) -> None:
    place = player.testbed / "data" / "own.docx"
    text = b"<w:p><w:r><w:t>" + b"long " * 100_000 + b"</w:t></w:r></w:p>"
    place.write_bytes(repacked(place.read_bytes(), {DOCUMENT: inserted(b"<w:sectPr", text)}))
    shown = player.ok("word.read_file", file_path="data/own.docx")
    assert len(shown) < 52_000
    assert "more characters]" in shown


def test_mail_nested_without_end_is_an_error_at_most(player: Player) -> None:
    text = "From: a\n" + "".join(f'Content-Type: multipart/mixed; boundary="{n}"\n\n--{n}\n' for n in range(1000))
    (player.testbed / "emails" / "Bob").mkdir()
    (player.testbed / "emails" / "Bob" / "deep.eml").write_text(text)
    (player.testbed / "calendar" / "Bob.ics").write_text("BEGIN:VCALENDAR\n" * 5_000)
    player.do("email.list_emails", username="Bob")
    player.do("calendar.list_events", username="Bob")


def test_mails_and_calendars_have_a_largest_size(player: Player) -> None:
    (player.testbed / "emails" / "Bob").mkdir()
    (player.testbed / "emails" / "Bob" / "long.eml").write_bytes(b"To: " + b"a@b," * 50_000)
    (player.testbed / "calendar" / "Bob.ics").write_bytes(b"BEGIN:VCALENDAR\n" * 100_000)
    assert "larger than 131,072 bytes" in player.refused("email.list_emails", username="Bob")
    assert "larger than 1,048,576 bytes" in player.refused("calendar.list_events", username="Bob")
    sent = arguments_for("email.send_email", content="x" * 200_000)
    assert "would be larger than 131,072 bytes" in player.refused("email.send_email", **sent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KNOWN_ACTIONS = [f"{app.name}.{action.name}" for app in APPS.values() for action in app.actions if app.name != "shell"]


@given(data=st.data())
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_an_agent_writes_is_an_observation(player: Player, data: st.DataObject) -> None:
    """Never an exception, and never a file beside the three directories."""
    name = data.draw(st.sampled_from([*KNOWN_ACTIONS, "system.switch_app"]) | st.text())
    app, _, action = name.partition(".")
    found = APPS[app].action(action) if app in APPS else None
    parameters = found.parameters if found is not None else ("target_app",)
    values = {p: data.draw(JSON | st.just(FITTING.get(p, "excel"))) for p in parameters}
    shapes: list[dict[str, Any]] = [
        {"action": name, "arguments": values},
        {"action": name, **values},
        {"app": app, "action": action, "arguments": values},
        {"app": data.draw(JSON), "action": data.draw(JSON), "arguments": data.draw(JSON)},
    ]
    observation = player.environment.step(Action("act", data.draw(st.sampled_from(shapes))))
    assert isinstance(observation.text, str)
    observation.text.encode()
    assert "recompact-officebench-" not in observation.text
    assert sorted(os.listdir(player.environment.directory)) == ["testbed", "tmp"]
    player.environment.step(Action("", text=data.draw(st.text())))
