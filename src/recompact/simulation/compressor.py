"""A simulated compressor: it reads whatever compaction prompt it is given and writes the summary that is asked for.

What is kept, dropped or distorted depends, kind by kind, on what the guidance demands, with noise. Attention to one
kind is taken from the others, and what is demanded is written at length, while the room is what it is: the rest has to
go. Orders to the agent in the guidance end up in the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any

from recompact.simulation.guidance import Guidance, read_guidance
from recompact.simulation.layout import (
    Item,
    detail_of_change,
    detail_of_conditions,
    detail_of_error,
    detail_of_identifiers,
    detail_of_login,
    detail_of_open_work,
    detail_of_pages,
    detail_of_signature,
    fit,
    render,
)
from recompact.simulation.model import SimulatedModel, block
from recompact.simulation.notes import (
    RELATIONS,
    SPECS,
    Event,
    Notes,
    conditions_in,
    events_in,
    events_of,
    is_page,
    lists_of,
    read_notes,
    write_call,
    write_list,
    write_result,
    write_signature,
)
from recompact.simulation.parameters import ABILITIES, Habits, Kind
from recompact.simulation.rules import rule_items
from recompact.suites.pocket import LOGINS, read_task_message
from recompact.values.chat import Message, assistant


def chance(kind: Kind, guidance: Guidance, habits: Habits, carried: bool = False, awkwardness: float = 1.0) -> float:
    """The chance that a fact of a kind survives one compaction: attention to it is taken from the others."""
    if guidance.demands[kind] < 0:
        return habits.forbidden
    loss: float = habits.loss[kind] ** guidance.share(kind, habits.attention, habits.rivalry)
    return 1 - min(_MOST, loss * awkwardness) * (habits.carried if carried else 1)


_MOST = 0.9  # nothing is lost for certain


@lru_cache(maxsize=1_024)
def awkwardness(task: str, unevenness: float) -> float:
    """How easily things get lost in the material of a task, at every attempt the same; losses are multiplied by it."""
    rng = Random(f"material {ABILITIES}/{task}")
    return rng.gammavariate(1 / unevenness, unevenness) if task and unevenness else 1.0


@dataclass(frozen=True)
class _Attention:
    """What a compressor pays attention to in one compaction."""

    guidance: Guidance
    habits: Habits
    awkwardness: float
    rng: Random

    def keeps(self, kind: Kind, carried: bool = False) -> bool:
        """Whether a fact of a kind survives this time; `carried` is one that the previous summary had."""
        return self.rng.random() < chance(kind, self.guidance, self.habits, carried, self.awkwardness)

    def elaborates(self, kind: Kind) -> bool:
        """Whether a fact of a kind is written with all there is about it, because that is demanded."""
        habits = self.habits
        return self.guidance.demands[kind] == 2 and habits.detail > 0 and self.rng.random() < habits.detail

    def share(self, kind: Kind) -> float:
        return self.guidance.share(kind, self.habits.attention, self.habits.rivalry)

    def relapses(self) -> bool:
        """Whether a condition that the previous summary had lost stays lost, although the task still has it."""
        relapse = self.habits.relapse
        return relapse > 0 and self.rng.random() < relapse ** self.share("predicate")

    def weigh(self, item: Item) -> Item:
        """An item is worth more where its kind is demanded, at the cost of the others."""
        if item.kind is None:
            return item
        return replace(item, worth=item.worth * self.share(item.kind) * self.habits.worth.get(item.kind, 1.0))


class SimulatedCompressor(SimulatedModel):
    """Plays the compressor."""

    name, part = "sim-compressor", "habits"

    def answer(self, messages: tuple[Message, ...], rng: Random) -> Message:
        return assistant(summarize(messages, rng, self.behaviour))


@dataclass(frozen=True)
class _Source:
    """What there is to summarize."""

    guidance: Guidance
    task: str
    events: Sequence[Event]
    before: Notes  # of the previous summary
    previous: str
    limit: int
    said: str = ""  # where the owner's words stand, besides other things


@dataclass(frozen=True)
class Draft:
    """A summary before it is written: what was to be in it, and what there was room for."""

    guidance: Guidance
    wanted: tuple[Item, ...]
    fitting: tuple[Item, ...]

    @property
    def text(self) -> str:
        return render(self.guidance.sections, list(self.fitting))

    @property
    def displaced(self) -> tuple[Item, ...]:
        """What had to go for want of room."""
        chosen = set(map(id, self.fitting))
        return tuple(item for item in self.wanted if id(item) not in chosen)


def summarize(messages: tuple[Message, ...], rng: Random, habits: Habits) -> str:
    return draft_summary(messages, rng, habits).text


def draft_summary(messages: tuple[Message, ...], rng: Random, habits: Habits) -> Draft:
    source = _source(messages, habits)
    items = _compose(source, rng, habits)
    return Draft(source.guidance, tuple(items), tuple(fit(items, source.limit, rng)))


def _source(messages: tuple[Message, ...], habits: Habits) -> _Source:
    """Find the parts of the prompt: tagged blocks, or the agent's own messages where the prompt is their last turn."""
    users = [m for m in messages if m.role == "user"]
    complaints = [m for m in users[1:] if re.search(r"limit is \d+", m.content)]
    prompt = next((m for m in reversed(users) if m not in complaints), messages[-1])
    text = prompt.content
    own_messages = messages[: messages.index(prompt)]
    conversation = block(text, "conversation") or text
    events = events_in(conversation) or events_of(own_messages)
    said = "\n".join([conversation, *(m.content for m in own_messages if m.role == "user")])
    previous = _last_summary(own_messages) or block(text, "previous-summary")
    guidance = read_guidance(text)
    wanted = habits.room - habits.brevity * max(0, guidance.brevity - 1)
    limit = min(wanted, guidance.limit or wanted)
    for complaint in complaints:
        stated = re.search(r"limit is (\d+)", complaint.content)
        limit = min(limit, int(0.8 * int(stated[1]))) if stated else limit
    task = block(text, "task") or _task_in(block(text, "prefix")) or _task_of(own_messages)
    return _Source(guidance, task, events, read_notes(previous), previous, limit, said)


def _last_summary(messages: Sequence[Message]) -> str:
    summaries = [block(m.content, "summary") for m in messages if "<summary>" in m.content]
    return summaries[-1] if summaries else ""


def _task_in(prefix: str) -> str:
    return prefix.rsplit("[user]\n", 1)[-1].split("\n\n", 1)[-1].strip() if prefix else ""


def _task_of(messages: Sequence[Message]) -> str:
    """The request among the agent's own messages: the last one, since examples come before."""
    requests = [message for m in messages if m.role == "user" and (message := read_task_message(m.content)) is not None]
    return requests[-1][1] if requests else ""


# --- what is kept of each kind


def _compose(source: _Source, rng: Random, habits: Habits) -> list[Item]:
    attention = _Attention(source.guidance, habits, awkwardness(source.task, habits.unevenness), rng)
    goal, restricted = _goal(source, attention)
    items = [Item("goal", goal, 10)]
    if restricted and attention.elaborates("predicate"):
        items.append(Item("constraint", detail_of_conditions(source.task), 8, "predicate"))
    items += rule_items(source.said, source.previous, source.guidance, habits, rng)
    lists = _results(source)
    items += _access(source, attention)
    items += _signatures(source, attention)
    items += _mutations(source, attention)
    items += _records(lists, attention, _people(lists, source.task) if restricted else frozenset())
    items += [
        Item("blocked", detail_of_error(e) if attention.elaborates("error") else f"- {e.name}: {e.error}", 1, "error")
        for e in source.events
        if e.error and attention.keeps("error")
    ]
    items += _outlook(source, lists, goal, restricted, attention)
    items += [Item("next", f"- {order}", 5) for order in source.guidance.orders if rng.random() < habits.passes_on]
    return [attention.weigh(item) for item in items]


def _goal(source: _Source, attention: _Attention) -> tuple[str, bool]:
    """The goal with its conditions, or without them; once lost, only the task's own text can bring them back."""
    lost_before = any(condition not in source.previous.lower() for condition in conditions_in(source.task))
    relapsed = bool(source.previous) and lost_before and attention.relapses()
    if not relapsed and attention.keeps("predicate", carried=bool(source.previous) and not lost_before):
        return source.task or _first_line(source.previous), True
    return _without_conditions(source.task or _first_line(source.previous)), False


def _first_line(text: str) -> str:
    return next(
        (line for line in text.splitlines() if line.strip() and not line.startswith("#")), "Go on with the task."
    )


def _without_conditions(task: str) -> str:
    """A request in which who, when and which have been lost."""
    plain = task.split(". ")[0]
    who = r"(?:a |my |an? )?[a-z]+s?(?: (?:and|or) (?:a )?[a-z]+s?)?(?: of mine)?"
    plain = re.sub(rf"(?i)\b(?:from|by|of|among|that come from|for) {who}\b", "", plain)
    plain = re.sub(r"\d{4}-\d\d-\d\d", "", plain)
    return re.sub(r"\s+", " ", plain).strip(" ,.") + "."


def _access(source: _Source, attention: _Attention) -> list[Item]:
    """Tokens and passwords, or only the statement that a login was made."""
    tokens = dict(source.before.tokens)
    logins: dict[str, Event] = {}
    for event in source.events:
        if event.api == "login" and not event.error:
            tokens[event.app] = str(event.result.get("token"))
            logins[event.app] = event
    items = []
    for app, token in tokens.items():
        if attention.keeps("token", carried=app in source.before.tokens):
            more = detail_of_login(logins[app]) if app in logins and attention.elaborates("token") else ""
            items.append(Item("context", f"- {app} token: {token}{more}", 6, "token"))
        else:
            items.append(Item("done", f"- [x] Logged in to {app}.", 2))
    passwords = dict(source.before.passwords)
    for event in source.events:
        if event.name == "account.show_passwords" and isinstance(event.result, dict):
            passwords |= event.result
    if passwords and attention.keeps("token", carried=bool(source.before.passwords)):
        pairs = ", ".join(f"{app} {word}" for app, word in passwords.items())
        items.append(Item("context", f"- Passwords: {pairs}", 5, "token"))
    return items


def _signatures(source: _Source, attention: _Attention) -> list[Item]:
    """How APIs are called, in a form that can be called, or as prose."""
    seen = dict.fromkeys(sorted(source.before.signatures), True)
    for event in source.events:
        if event.name == "documentation.show_api" and not event.error:
            seen.setdefault(f"{event.given.get('app')}.{event.given.get('api')}", False)
    items = []
    for name, carried in seen.items():
        if name not in SPECS:
            continue
        if attention.keeps("signature", carried=carried):
            more = detail_of_signature(SPECS[name]) if attention.elaborates("signature") else ""
            items.append(Item("context", f"- {write_signature(SPECS[name])}{more}", 4, "signature"))
        else:
            items.append(Item("done", f"- [x] Read the documentation of {name}.", 1.5))
    return items


def _mutations(source: _Source, attention: _Attention) -> list[Item]:
    """What was changed, exactly enough to be recognised, or only in general terms."""
    items = [
        Item("done", line.strip(), 9, "mutation")
        for line in source.before.lines
        if line.strip().startswith("- [x]")
        and "(" in line
        and _is_mutation(line)
        and attention.keeps("mutation", carried=True)
    ]
    forgotten = 0
    for event in source.events:
        if not event.changes:
            continue
        if attention.keeps("mutation"):
            more = detail_of_change(event) if attention.elaborates("mutation") else ""
            items.append(Item("done", f"- [x] {write_call(event.name, event.given)}{more}", 9, "mutation"))
        else:
            forgotten += 1
    if forgotten:
        items.append(Item("done", "- [x] Some of the changes were made.", 3))
    return items


def _is_mutation(line: str) -> bool:
    match = re.search(r"(\w+\.\w+)\(", line)
    return match is not None and match[1] in SPECS and SPECS[match[1]].changes


Results = dict[tuple[str, str], tuple[Event, bool]]
"""Results by call: the event, and whether the previous summary had it."""


def _results(source: _Source) -> Results:
    """Results that the work may still need: not documentation, passwords or logins, which are kept apart."""
    results: Results = {}
    for (name, arguments), result in source.before.results.items():
        app, api = name.split(".")
        results[name, arguments] = (Event(app, api, arguments, result), True)
    for event in source.events:
        useless = event.app in ("documentation", "account") or event.api == "login"
        if not event.error and not event.changes and not useless:
            results[event.name, event.arguments] = (event, False)
    return results


def _people(results: Results, task: str) -> frozenset[str]:
    """Whom the work is about, once that is known: contacts of the relationships in the task, or guests."""
    about: set[str] = set()
    asked = set()
    for event, _ in results.values():
        result = event.result
        relation = event.given.get("relationship")
        if is_page(result) and relation:
            asked.add(str(relation))
            about |= {row["email"] for row in result["items"] if "email" in row}
        elif isinstance(result, dict) and "guests" in result:
            about |= set(re.findall(r"[\w.]+@[\w.]+\w", json.dumps(result["guests"])))
    named = {relation for relation in RELATIONS if relation in task}
    return frozenset(about) if named <= asked else frozenset()


def _records(results: Results, attention: _Attention, about: frozenset[str]) -> list[Item]:
    """Retrieved records: in full, as a count and a total, or only mentioned."""
    items = []
    carried = {event for event, before in results.values() if before}
    lists, others = lists_of(event for event, _ in results.values())
    for event in others:
        if attention.keeps("set", carried=event in carried) and attention.keeps("identifier", carried=event in carried):
            items.append(Item("context", write_result(event, whole=attention.elaborates("set")), 4.2, "set"))
        else:
            items.append(Item("done", f"- [x] Read {event.name}.", 1))
    for (name, arguments), pages in lists.items():
        whole = all(event in carried for event in pages.values())
        items.append(_list_item(name, json.loads(arguments), pages, attention, whole, about))
    return items


def _list_item(
    name: str,
    arguments: dict[str, Any],
    pages: dict[int, Event],
    attention: _Attention,
    carried: bool,
    about: frozenset[str],
) -> Item:
    """A list as a table, up to its first missing page, or only how much was read."""
    run: list[dict[str, Any]] = []
    while len(run) + 1 in pages:
        run.append(pages[len(run) + 1].result)
    whole = attention.keeps("set", carried=carried) and attention.keeps("identifier", carried=carried)
    if run and whole:
        if len(run) > 1 and not attention.keeps("page", carried=carried):
            # A page is lost and nobody notices: the list looks complete without it.
            run = [{**page, "pages": len(run) - 1} for page in run[:-1]]
        table = write_list(name, arguments, run, frozenset() if attention.elaborates("set") else about)
        ids = detail_of_identifiers(run) if attention.elaborates("identifier") else ""
        paging = detail_of_pages(run) if attention.elaborates("page") else ""
        return Item("context", table + ids + paging, 4.2, "set")
    rows = [row for event in pages.values() for row in event.result["items"]]
    amounts = [row["amount"] for row in rows if "amount" in row]
    total = f", together {sum(amounts):.2f}" if amounts else ""
    return Item("done", f"- [x] Read {len(pages)} pages of {name}: {len(rows)} records{total}.", 1)


def _outlook(source: _Source, lists: Results, goal: str, restricted: bool, attention: _Attention) -> list[Item]:
    """Decisions and next steps: what is open, or what a careless reader makes of it."""
    items: list[Item] = []
    habits, rng = attention.habits, attention.rng
    amounts = [
        row["amount"]
        for event, _ in lists.values()
        if isinstance(event.result, dict)
        for row in event.result.get("items", ())
        if "amount" in row
    ]
    question = "?" in source.task or "total" in source.task.lower()
    if not restricted and question and amounts and rng.random() < habits.claims:
        items.append(Item("decision", f"- **Use {sum(amounts):.2f} as the answer**: the total of what was found.", 7))
        return items
    if attention.keeps("open", carried=bool(source.previous)):
        last = next((e for e in reversed(source.events) if not e.error), None)
        doing = f" after {last.name}" if last else ""
        more = detail_of_open_work(goal) if attention.elaborates("open") else ""
        items.append(Item("next", f"1. Go on{doing} with what the goal still needs.{more}", 5, "open"))
        return items
    changed = any(event.changes for event in source.events)
    if changed and rng.random() < habits.completes:
        items.append(Item("done", "- [x] All the changes that were asked for have been made.", 7))
    done_logins = [e.app for e in source.events if e.api == "login" and e.app in LOGINS]
    if done_logins and rng.random() < habits.reopens:
        items.append(Item("next", f"1. Log in to {rng.choice(done_logins)}.", 5))
    documented = [e.given for e in source.events if e.name == "documentation.show_api" and not e.error]
    if documented and rng.random() < habits.reopens:
        again = rng.choice(documented)
        items.append(Item("next", f"2. Read the documentation of {again.get('app')}.{again.get('api')}.", 5))
    return items
