"""How knowledge stands in text: calls in messages and transcripts, and what a summary says of them.

Both simulated models see text only, and this is their reading and writing. Writing gives ordinary lines that a person
can read; reading takes any text, also a real model's, and finds what can be found: tokens, signatures, results, things
done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from recompact.compressors.masking import is_mask
from recompact.suites.pocket import APPS, CATALOGUE, TOKEN, Spec
from recompact.suites.pocket.owner import decisions_in, limit_in
from recompact.suites.pocket.spec import PAGE_SIZE
from recompact.suites.pocket.suite import named_apis
from recompact.values.chat import Message

SPECS: Mapping[str, Spec] = {spec.full_name: spec for spec in CATALOGUE}
_PREFIX_OF = {app[:3]: app for app in APPS}

_CALL = re.compile(r"^-> call_api\((\{.*\})\)$")
_PASSWORD = re.compile(rf"\b({'|'.join(APPS)})\b\W{{1,3}}([a-z]?[0-9a-z]{{5,6}})\b")

RELATIONS = ("coworker", "friend", "roommate", "sibling", "parent")
_CONDITION = re.compile(rf"(?i)\b(?:{'|'.join(RELATIONS)})|\d{{4}}-\d\d-\d\d")


def conditions_in(task: str) -> tuple[str, ...]:
    """Whom and which days a request is restricted to, as any reader sees it."""
    return tuple(dict.fromkeys(match.lower() for match in _CONDITION.findall(task)))


@dataclass(frozen=True)
class Event:
    """One call of an API and what came back; `arguments` are without the token."""

    app: str
    api: str
    arguments: str  # canonical JSON, so that events can be compared and counted
    result: Any = field(compare=False)
    error: str = ""

    @property
    def name(self) -> str:
        return f"{self.app}.{self.api}"

    @property
    def given(self) -> dict[str, Any]:
        arguments: dict[str, Any] = json.loads(self.arguments)
        return arguments

    @property
    def changes(self) -> bool:
        return self.name in SPECS and SPECS[self.name].changes and not self.error


def argument_key(arguments: Mapping[str, Any]) -> str:
    """Arguments without the token, as one comparable text."""
    return json.dumps({k: v for k, v in arguments.items() if k != "token"}, sort_keys=True)


def events_of(messages: Iterable[Message]) -> list[Event]:
    """What an agent's own messages show of its calls."""
    asked: dict[str, str] = {}
    events: list[Event] = []
    for message in messages:
        for call in message.calls:
            asked[call.id] = call.arguments
        if message.role == "tool" and message.call_id in asked:
            event = _event(asked[message.call_id], message.content)
            if event is not None:
                events.append(event)
    return events


def events_in(transcript: str) -> list[Event]:
    """The same from a transcript as a compressor gets it."""
    events: list[Event] = []
    call = ""
    lines = iter(transcript.splitlines())
    for line in lines:
        if match := _CALL.match(line):
            call = match[1]
        elif call and line.startswith("[result of call_api]"):
            event = _event(call, next(lines, ""))
            if event is not None:
                events.append(event)
            call = ""
    return events


@lru_cache(maxsize=20_000)
def _event(call: str, content: str) -> Event | None:
    try:
        asked = json.loads(call)
        arguments = argument_key(asked.get("arguments") or {})
        app, api = str(asked["app"]), str(asked["api"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if is_mask(content):  # a change was made all the same; what a call read is gone
        event = Event(app, api, arguments, None)
        return event if event.changes else None
    try:
        result = json.loads(content)
    except ValueError:
        return Event(app, api, arguments, None, content or "no result")
    error = str(result["error"]) if isinstance(result, dict) and "error" in result else ""
    return Event(app, api, arguments, result, error)


# --- writing


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as a line shows it: payments.send_money(email="...", amount=12.5). Long texts are cut."""
    given = ", ".join(f"{k}={json.dumps(_cut(v), ensure_ascii=False)}" for k, v in arguments.items() if k != "token")
    return f"{name}({given})"


_TELLING = 60  # characters up to which a value tells one call from another


def _cut(value: Any) -> Any:
    return f"{value[:24]}..." if isinstance(value, str) and len(value) > _TELLING else value


def write_result(event: Event, whole: bool = False) -> str:
    """A result that is no list, so that it can be read back; of a long text, the lines that say something, or all."""
    result = event.result
    if isinstance(result, dict) and not whole:
        result = {k: distil(v) if isinstance(v, str) and len(v) > _LONG else v for k, v in result.items()}
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    return f"- {write_call(event.name, event.given)} returned {text}"


_LONG = 120
_SALIENT = re.compile(r"(?i)^- |\b(?:total|together|due|owe|invited|dues|agenda|deadline)\b")


def distil(text: str) -> str:
    """What a reader in a hurry keeps of a long text: the sentences with the figures and dates that it is about."""
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z])|\n", text)
    kept = [part for part in parts if _SALIENT.search(part) and re.search(r"\d", part)]
    return "\n".join(kept) if kept else text


def write_list(
    name: str, arguments: Mapping[str, Any], pages: list[dict[str, Any]], about: frozenset[str] = frozenset()
) -> str:
    """The first pages of a list as one table. What is the same in all rows stands in its head, once.

    Where the people that the work is about are known (`about`, by email), the rows of others may be left out.
    """
    rows = [row for page in pages for row in page["items"]]
    left_out = 0
    if about and len(rows) > 6 and ("email" in rows[0] or "sender" in rows[0]):
        chosen = [row for row in rows if row.get("email", row.get("sender")) in about]
        left_out, rows = len(rows) - len(chosen), chosen
    fields = [f for f in rows[0] if f not in _NOT_WORTH_IT] if rows else []
    same = {f: rows[0][f] for f in fields if len(rows) > 1 and all(row.get(f) == rows[0][f] for row in rows)}
    given = {k: v for k, v in arguments.items() if k != "page"}
    fields = [f for f in fields if f not in same]
    head = f"- {write_call(name, given)}: pages 1 to {len(pages)} of {pages[-1]['pages']}, {pages[-1]['total']} in all"
    if left_out:
        head += f", {left_out} of other people left out"
    if same:
        head += f", each with {json.dumps(same, ensure_ascii=False)}"
    if "name" in fields and "email" in fields and all(_name_of(row["email"]) == row["name"] for row in rows):
        fields = [f for f in fields if f != "name"]
        head += ", named as their email says"
    lines = ["  " + "|".join(_cell(row.get(f)) for f in fields) for row in rows]
    return "\n".join([f"{head}: {'|'.join(fields)}", *lines])


_NOT_WORTH_IT = ("preview",)  # what any reader would leave out of a table


def _name_of(email: str) -> str:
    return email.split("@")[0].replace(".", " ").title()


def is_page(result: Any) -> bool:
    return isinstance(result, dict) and {"items", "page", "pages", "total"} <= result.keys()


def lists_of(events: Iterable[Event]) -> tuple[dict[tuple[str, str], dict[int, Event]], list[Event]]:
    """Results by list, each with its pages by number, and the results that are no lists."""
    lists: dict[tuple[str, str], dict[int, Event]] = {}
    others = []
    for event in events:
        if is_page(event.result):
            given = {k: v for k, v in event.given.items() if k != "page"}
            lists.setdefault((event.name, argument_key(given)), {})[event.result["page"]] = event
        else:
            others.append(event)
    return lists, others


def _cell(value: Any) -> str:
    return value.replace("|", "/").replace("\n", " ") if isinstance(value, str) else json.dumps(value)


def write_signature(spec: Spec) -> str:
    """Names and defaults: enough to call it again."""
    parameters = [p.name if p.required else f"{p.name}={json.dumps(p.default)}" for p in spec.parameters]
    return f"{spec.full_name}({', '.join(parameters)})"


# --- reading


@dataclass(frozen=True)
class Notes:
    """What a text tells of tokens, passwords, signatures, API names, results and the owner's words; `lines` are for
    anything else."""

    tokens: Mapping[str, str]
    passwords: Mapping[str, str]
    signatures: frozenset[str]
    names: frozenset[str]
    results: Mapping[tuple[str, str], Any]  # (full name, arguments) -> result
    lines: tuple[str, ...]
    limit: int | None = None  # of the owner's rule, in cents
    decisions: Mapping[str, bool] = field(default_factory=dict)  # of the owner, by request

    @property
    def done(self) -> list[tuple[str, str]]:
        """Changes that are explicitly reported as made: (full name, arguments)."""
        calls = []
        for line in self.lines:
            match = re.search(r"\[x\] (\w+\.\w+)\((.*)\)$", line)
            arguments = read_arguments(match[2]) if match else None
            if match and arguments is not None and match[1] in SPECS and SPECS[match[1]].changes:
                calls.append((match[1], argument_key(arguments)))
        return calls

    def says_done(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether some line reports this very call as done: its name and all that tells it from others."""
        api = name.split(".")[1]
        values = [str(v) for k, v in arguments.items() if k != "token" and len(str(v)) <= _TELLING]
        for line in self.lines:
            if (name in line or api in line) and _is_done(line) and all(value in line for value in values):
                return True
        return False


def _is_done(line: str) -> bool:
    lowered = line.lower()
    return "[x]" in lowered or (
        "[ ]" not in lowered and re.search(r"\b(done|sent|approved|made|paid)\b", lowered) is not None
    )


@lru_cache(maxsize=4_096)
def read_notes(text: str) -> Notes:
    """Everything that can be found in a text; what cannot be read is not known."""
    tokens = {_PREFIX_OF[token[:3]]: token for token in TOKEN.findall(text) if token[:3] in _PREFIX_OF}
    passwords: dict[str, str] = {}
    for line in text.splitlines():
        if "password" in line.lower() and "(" not in line:
            passwords |= {app: word for app, word in _PASSWORD.findall(line) if word != "password"}
    named = list(named_apis(text))
    names, signatures = frozenset(name for name, _ in named), frozenset(name for name, whole in named if whole)
    results, lines = dict(_results(text)), tuple(text.splitlines())
    return Notes(tokens, passwords, signatures, names, results, lines, limit_in(text), decisions_in(text))


_HEAD = re.compile(
    r"^- (\w+\.\w+)\((.*)\): pages 1 to (\d+) of (\d+), (\d+) in all(, \d+ of other people left out)?"
    r"(?:, each with (\{.*?\}))?(, named as their email says)?: (.*)$"
)
_RETURNED = re.compile(r"^- (\w+\.\w+)\((.*)\) returned (\{.*\})$")


def _results(text: str) -> Iterable[tuple[tuple[str, str], Any]]:
    """Results written by `write_result` and `write_list`."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if match := _RETURNED.match(line):
            result, arguments = _loads(match[3]), read_arguments(match[2])
            if result is not None and arguments is not None:
                yield (match[1], argument_key(arguments)), result
        elif match := _HEAD.match(line):
            yield from _pages(match, lines[number + 1 :])


def _pages(head: re.Match[str], following: list[str]) -> Iterable[tuple[tuple[str, str], Any]]:
    """The pages that a table was made from."""
    name, given, upto, last, total, left_out, same, named, fields = head.groups()
    arguments = read_arguments(given)
    if arguments is None:
        return
    columns = fields.split("|") if fields else []  # none where every row is the same
    rows = _rows(following, columns, _loads(same) if same else {}, named is not None)
    size = arguments.get("page_size", PAGE_SIZE)
    for page in range(1, int(upto) + 1):
        # A table with rows left out no longer tells which page a row was on, which no plan asks.
        items = (rows if page == 1 else []) if left_out else rows[(page - 1) * size : page * size]
        key = arguments | {"page": page} if "page_size" in arguments else arguments
        yield (name, argument_key(key)), {"items": items, "page": page, "pages": int(last), "total": int(total)}


def _rows(lines: list[str], fields: list[str], same: Mapping[str, Any], named: bool) -> list[dict[str, Any]]:
    items = []
    for line in lines:
        cells = line[2:].split("|") if line[2:] else []
        if not line.startswith("  ") or len(cells) != len(fields):
            break
        row = {**same, **{f: _value(f, cell) for f, cell in zip(fields, cells, strict=True)}}
        if named:
            row["name"] = _name_of(row["email"])
        items.append(row)
    return items


_TEXT_FIELDS = {"id", "name", "email", "phone", "date", "note", "title", "subject", "start", "end", "place"}


def _value(name: str, cell: str) -> Any:
    if name in _TEXT_FIELDS:
        return cell
    value = _loads(cell)
    return cell if value is None and cell != "null" else value


def read_arguments(text: str) -> dict[str, Any] | None:
    """The arguments of a written call, or None where they cannot be read."""
    arguments: dict[str, Any] = {}
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        match = re.compile(r"\s*,?\s*(\w+)=").match(text, at)
        if match is None:
            return None
        try:
            arguments[match[1]], at = decoder.raw_decode(text, match.end())
        except ValueError:
            return None
    return arguments


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
