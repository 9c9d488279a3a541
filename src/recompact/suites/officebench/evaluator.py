"""The verdict on a finished episode: every item of a subtask's `evaluation` must hold.

The rules are those of OfficeBench's repaired evaluator, leniency included (docs/officebench.md). An item that cannot be
decided, for instance because a file cannot be read, counts as failed and is marked as an error; a mailbox with a
message that cannot be read has no text.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from recompact.environments.files import ActionError, Files
from recompact.suites.officebench.documents import (
    active_sheet,
    check_area,
    document_text,
    mail_text,
    open_document,
    open_workbook,
    pdf_pages,
    workbook_text,
)
from recompact.suites.officebench.tree import CALENDAR_LIMIT, MAIL_LIMIT, files_of_testbed

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

Verdict = bool | Literal["error"]
Arguments = Mapping[str, Any]

_REFERENCE = re.compile(r"(?:\.\./)+reference/(?P<path>.+)")
_UNTOUCHED = re.compile(r"(?:\.\./)+cache/[^/]+/testbed/(?P<path>.+)")


@dataclass(frozen=True)
class Case:
    """What is judged, and what it is compared with."""

    testbed: Files
    template: Path  # the task's directory in the tree, with the untouched testbed and the reference files

    def original(self, path: str) -> bytes:
        """A file that the agent never touched."""
        for pattern, directory in ((_REFERENCE, "reference"), (_UNTOUCHED, "testbed")):
            if match := pattern.fullmatch(path):
                return files_of_testbed(self.template / directory).read(match["path"])
        raise ValueError(f"{path} names neither a reference file nor one of the untouched testbed")


def evaluate(items: Sequence[Mapping[str, Any]], case: Case) -> list[Verdict]:
    """One verdict for each item, in order."""
    return [_verdict(item, case) for item in items]


def _verdict(item: Mapping[str, Any], case: Case) -> Verdict:
    try:
        return _FUNCTIONS[item["function"]](case, item["args"])
    except Exception:  # whatever a library raised on an agent's file: this item is not fulfilled
        return "error"


# -- the functions that occur in the data -----------------------------------------------------------------------------


def _contain(case: Case, arguments: Arguments) -> bool:
    text = _text(case, arguments)
    if text is None:
        return False
    text = text.lower()
    for keyword in arguments["keywords"]:
        if _is_number(keyword):
            text = text.replace(",", "")  # and stays so for the keywords that follow
        if str(keyword).lower() not in text:
            return False
    return True


def _file_exist(case: Case, arguments: Arguments) -> bool:
    return case.testbed.exists(arguments["file"])


def _excel_cell_value(case: Case, arguments: Arguments) -> bool:
    if not case.testbed.exists(arguments["file"]):
        return False
    text = workbook_text(case.testbed.read(arguments["file"]))
    return all(f"({match['row']}, {match['col']}): {match['value']}" in text for match in arguments["matches"])


def _excel_cell_comparator(case: Case, arguments: Arguments) -> bool:
    if not case.testbed.exists(arguments["file"]):
        return False
    text = workbook_text(case.testbed.read(arguments["file"]))
    for match in arguments["matches"]:
        cell = re.search(rf"\({match['row']}, {match['col']}\): ([^\t\n]*)", text)
        if cell is None or cell[1] not in allowed_values(match["comparator"]):
            return False
    return True


def _exact_match(case: Case, arguments: Arguments) -> bool:
    if not case.testbed.exists(arguments["result_file"]):
        return False
    expected = active_sheet(open_workbook(case.original(arguments["expected_file"])))
    result = active_sheet(open_workbook(case.testbed.read(arguments["result_file"])))
    return _values(expected) == _values(result)


def _diff_contain_text(case: Case, arguments: Arguments) -> bool:
    before = workbook_text(case.original(arguments["input_file"]))
    after = workbook_text(case.testbed.read(arguments["output_file"]))
    diff = "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    return before != after and all(keyword in diff for keyword in arguments["keywords"])


def _calendar_no_overlap(case: Case, arguments: Arguments) -> bool:
    import icalendar

    calendar = icalendar.Calendar.from_ical(case.testbed.read(f"calendar/{arguments['username']}.ics", CALENDAR_LIMIT))
    events: list[Any] = calendar.walk("VEVENT")
    spans = sorted((_instant(event["dtstart"].dt), _instant(event["dtend"].dt)) for event in events)
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


_FUNCTIONS: Mapping[str, Callable[[Case, Arguments], bool]] = {
    "evaluate_contain": _contain,
    "evaluate_not_contain": lambda case, arguments: not _contain(case, arguments),
    "evaluate_file_exist": _file_exist,
    "evaluate_file_not_exist": lambda case, arguments: not _file_exist(case, arguments),
    "evaluate_excel_cell_value": _excel_cell_value,
    "evaluate_excel_cell_comparator": _excel_cell_comparator,
    "evaluate_exact_match": _exact_match,
    "evaluate_diff_contain_text": _diff_contain_text,
    "evaluate_calendar_no_overlap": _calendar_no_overlap,
}


# -- what they read ---------------------------------------------------------------------------------------------------


def _text(case: Case, arguments: Arguments) -> str | None:
    """What is searched; None if the file is missing."""
    kind = arguments["doc_type"]
    if kind == "email":
        return _mailbox_text(case.testbed, arguments["username"])
    if not case.testbed.exists(arguments["file"]):
        return None
    data = case.testbed.read(arguments["file"])
    if kind in ("txt", "ics"):
        return data.decode()
    if kind == "xlsx":
        return workbook_text(data)
    if kind in ("doc", "docx"):
        return document_text(open_document(data))
    if kind == "pdf":
        return "".join(pdf_pages(data))
    raise ValueError(f"unknown doc_type {kind!r}")


def _mailbox_text(testbed: Files, user: str) -> str:
    """Every message of a user's mailbox. One that cannot be read makes the whole mailbox unreadable: no text."""
    mailbox = _mailbox(testbed, user)
    if mailbox is None:
        return ""
    names = testbed.names(mailbox, ".eml")
    try:
        return "".join(mail_text(name, testbed.read(f"{mailbox}/{name}", MAIL_LIMIT)) for name in names)
    except (ActionError, ValueError):
        return ""


def _mailbox(testbed: Files, user: str) -> str | None:
    names = [name for name in testbed.names("emails") if testbed.is_directory(f"emails/{name}")]
    fitting = [name for name in (user, user.lower()) if name in names]
    fitting += [name for name in names if user.lower() in name]
    return f"emails/{fitting[0]}" if fitting else None


def _values(sheet: Worksheet) -> dict[tuple[int, int], Any]:
    check_area(sheet.max_row, sheet.max_column)
    return {(c.row, c.column): c.value for row in sheet.iter_rows() for c in row if c.value is not None}


def _is_number(keyword: Any) -> bool:
    try:
        float(keyword)
    except (TypeError, ValueError):
        return False
    return True


def _instant(value: date) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def allowed_values(comparator: str) -> Sequence[str]:
    """The values that a comparator accepts, read from its text. It is never executed; one form occurs in the data.

    >>> allowed_values("lambda x: x in ['1', '2']")
    ['1', '2']
    """
    tree = ast.parse(comparator.strip(), mode="eval").body
    if isinstance(tree, ast.Lambda) and isinstance(tree.body, ast.Compare):
        body = tree.body
        named = isinstance(body.left, ast.Name) and [a.arg for a in tree.args.args] == [body.left.id]
        if named and len(body.ops) == 1 and isinstance(body.ops[0], ast.In):
            values = ast.literal_eval(body.comparators[0])
            if isinstance(values, list | tuple) and all(isinstance(value, str) for value in values):
                return list(values)
    raise ValueError(f"comparator {comparator!r} is not of the form: lambda x: x in [...]")
