"""A simulated agent: it plans from the task's text and knows only what it sees in its context.

Everything is worked out anew from the messages at each step: a signature that is no longer there is looked up again, a
token that is gone means a new login, a forgotten page is fetched again, a forgotten payment is made twice. It slips now
and then, and it may believe a summary.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from recompact.chat import Message, Reply, Request, ToolCall, Usage, assistant
from recompact.embedded.pocket import LOGINS, Family, Owner, Plan, parse
from recompact.embedded.simulation.knowledge import Knowledge, knowledge_of
from recompact.embedded.simulation.notes import SPECS, argument_key
from recompact.embedded.simulation.usage import count, input_tokens


@dataclass(frozen=True)
class Traits:
    """How an agent errs: chances per step, or per occasion where it says so."""

    wander: float = 0.03  # looks something up that it knows already
    misread: float = 0.025  # of the task as a whole, on first reading it
    stop_short: float = 0.02  # takes a list to be complete, for each page that is missing
    repeat: float = 0.012  # does a mutation again that it has just done
    skip: float = 0.012  # takes a mutation to be done that is not
    miscalculate: float = 0.07  # at the end, where the answer is a number
    look_up_login: float = 0.6  # reads how a login works before it logs in
    believe_answer: float = 0.65  # of a summary that states an answer, on first reading it
    believe_goal: float = 0.3  # of a summary that leaves a condition of the task out
    believe_completion: float = 0.5  # of a summary that says that everything is done
    follow_reopened: float = 0.6  # does a next step that was done already


class _Need(Exception):
    """The plan needs the result of a call that is not in the context."""

    def __init__(self, app: str, api: str, arguments: Mapping[str, Any], thought: str) -> None:
        super().__init__(thought)
        self.app, self.api, self.arguments, self.thought = app, api, dict(arguments), thought


ENDS_HERE = "I take the list {name} for complete after page {page}."
TAKEN_DONE = "I take {call} for done."
BY_SUMMARY = "I go by the summary: there is no further condition."
READ_AS = "I read the task in my own way ({name})."
_READ_AS = re.compile(r"I read the task in my own way \(([\w ]+)\)\.")
_ENDS = re.compile(r"I take the list (\S+) for complete after page (\d+)\.")
_TAKEN = re.compile(r"I take (\S+\(.*\)) for done\.")

_ANSWER = re.compile(r"(?i)\b(?:use|answer(?: is)?:?|total of)\s+(?:the )?(?:total )?\$?(\d[\d,]*\.?\d*)\b.*\banswer\b")
_PLAIN_ANSWER = re.compile(r"(?i)\b(?:final |the )?answer(?: is|:| =)\s*\**\$?([\w.:@-]+\w)")
_DOUBT = re.compile(
    r"(?i)\b(not yet|unconfirmed|tentative|unverified|not confirmed|pending|to be determined|unknown|none)\b"
)
_COMPLETE = re.compile(r"(?i)\[x\].*\ball\b.*\b(?:done|made|sent|approved|completed|paid|requested|archived|added)\b")
_REOPENED = re.compile(r"(?i)^\s*\d+[.)]\s*(log in to|read the documentation of)\s+(\w+)(?:\.(\w+))?")


@dataclass
class Recall:
    """An `Api` for plans that answers from what is known and asks for what is not, one call at a time."""

    knowledge: Knowledge
    owner: Owner
    rng: Random
    traits: Traits
    used: Counter[tuple[str, str]] = field(default_factory=Counter)

    def call(self, app: str, name: str, /, **arguments: Any) -> Any:
        full = f"{app}.{name}"
        key = (full, argument_key(arguments))
        spec = SPECS[full]
        if spec.changes:
            self.used[key] += 1
            if self._is_done(full, key, arguments):
                return {}
        elif (result := self._visible_result(full, key, arguments)) is not None:
            return result
        if self.knowledge.errors[key] > 2:
            raise LookupError(f"{full} does not work")
        self._prepare(app, name, spec.needs_token)
        given = {"token": self.knowledge.tokens[app], **arguments} if spec.needs_token else arguments
        raise _Need(app, name, given, _thought(full, arguments))

    def _is_done(self, full: str, key: tuple[str, str], arguments: Mapping[str, Any]) -> bool:
        if self.knowledge.done[key] >= self.used[key]:
            return True
        if any(taken == f"{full}({key[1]})" for t in self.knowledge.thoughts for taken in _TAKEN.findall(t)):
            return True
        return self.knowledge.notes is not None and self.knowledge.notes.says_done(full, arguments)

    def _visible_result(self, full: str, key: tuple[str, str], arguments: Mapping[str, Any]) -> Any:
        """A result in the context; a list that the agent once took to be complete ends there."""
        result = self.knowledge.reads.get(key)
        page = arguments.get("page", 1)
        for thought in self.knowledge.thoughts:
            for name, last in _ENDS.findall(thought):
                if name == full and result is not None and page >= int(last):
                    return {**result, "pages": min(int(last), result["pages"])}
        return result

    def _prepare(self, app: str, name: str, needs_token: bool) -> None:
        """What has to be known before a call: how it is written, and a token."""
        if needs_token and app not in self.knowledge.tokens:
            self._log_in(app)
        self._look_up(app, name)

    def _log_in(self, app: str) -> None:
        if app not in self.knowledge.passwords:
            raise _Need(
                "account",
                "show_passwords",
                {},
                "To log in anywhere I need the passwords first, so I look at them before anything else.",
            )
        if f"{app}.login" not in self.knowledge.signatures and self.rng.random() < self.traits.look_up_login:
            self._look_up(app, "login")
        username = {"email": self.owner.email, "phone": self.owner.phone}[LOGINS[app]]
        given = {"username": username, "password": self.knowledge.passwords[app]}
        raise _Need(
            app,
            "login",
            given,
            f"I have no token for {app} in front of me, so I log in there; its other APIs want one.",
        )

    def _look_up(self, app: str, name: str) -> None:
        full = f"{app}.{name}"
        if app in ("account", "documentation") or full in self.knowledge.signatures:
            return
        if app not in self.knowledge.listed and full not in self.knowledge.names:
            raise _Need(
                "documentation",
                "show_apis",
                {"app": app},
                f"I do not know what {app} can do, so I look at the list of its APIs and pick what fits the task.",
            )
        raise _Need(
            "documentation",
            "show_api",
            {"app": app, "api": name},
            f"Before I call {full} I look up how it is called, so that I get its arguments right the first time.",
        )


class SimulatedAgent:
    """A `ChatModel` that plays the agent in pocket. Its randomness comes from the request's seed alone."""

    name = "sim-agent"

    def __init__(self, traits: Traits | None = None) -> None:
        self._traits = traits or Traits()

    async def reply(self, request: Request) -> Reply:
        rng = Random(f"agent/{request.decoding.seed}" if request.decoding.seed is not None else request.digest)
        message = act(request.messages, rng, self._traits)
        text = message.content + "".join(c.arguments for c in message.calls)
        usage = Usage(input_tokens(request), count(text) + 8 * len(message.calls), 0, 0, 1)
        return Reply(message, usage, model=self.name)


def act(messages: tuple[Message, ...], rng: Random, traits: Traits) -> Message:
    """The next message, from the messages so far."""
    knowledge, owner, task = knowledge_of(messages)
    understood = parse(task) if owner is not None else None
    if understood is None or owner is None:
        return _finish("I do not understand this task.", "unknown", rng)
    family, parameters = understood
    fresh = bool(knowledge.summary) and knowledge.turns <= 1
    if fresh and (answer := _believed_answer(knowledge, rng, traits)) is not None:
        return _finish("The summary has the answer.", answer, rng)
    if fresh and (reopened := _reopened(knowledge, owner, rng, traits)) is not None:
        return reopened
    plan, thought = _plan(knowledge, family, parameters, fresh, rng, traits)
    if knowledge.turns and rng.random() < traits.wander and (again := _wander(knowledge, rng)) is not None:
        return again
    return _follow(plan, parameters, knowledge, owner, rng, traits, thought)


def _plan(
    knowledge: Knowledge, family: Family, parameters: Mapping[str, str], fresh: bool, rng: Random, traits: Traits
) -> tuple[Plan, str]:
    """The right plan, or a wrong one that the agent fell for and keeps to as long as it sees its own words."""
    thoughts = " ".join(knowledge.thoughts)
    if misread := _READ_AS.search(thoughts):
        return family.wrong[misread[1]], ""
    if BY_SUMMARY in thoughts:
        return family.wrong[family.tempting], ""
    if not knowledge.summary and not knowledge.turns and rng.random() < traits.misread:
        name = rng.choice(sorted(family.wrong))
        return family.wrong[name], READ_AS.format(name=name)
    if fresh and _widened(knowledge, family, parameters, rng, traits):
        return family.wrong[family.tempting], BY_SUMMARY
    return family.solve, ""


def _follow(
    plan: Plan,
    parameters: Mapping[str, str],
    knowledge: Knowledge,
    owner: Owner,
    rng: Random,
    traits: Traits,
    thought: str,
) -> Message:
    """Run the plan on what is known, and do what it needs next or finish. A slip becomes a thought that it keeps to."""
    for _ in range(8):
        try:
            answer = plan(Recall(knowledge, owner, rng, traits), parameters)
        except _Need as need:
            slip = _slip(need, knowledge, rng, traits)
            if slip:
                knowledge.thoughts.append(slip)
                thought = f"{thought} {slip}".strip()
                continue
            if knowledge.last is not None and knowledge.last.changes and rng.random() < traits.repeat:
                again = {"token": knowledge.tokens.get(knowledge.last.app, ""), **knowledge.last.given}
                return _call("Once more, to be sure.", knowledge.last.app, knowledge.last.api, again, rng)
            return _call(f"{thought} {need.thought}".strip(), need.app, need.api, need.arguments, rng)
        except (LookupError, TypeError, ValueError):
            return _finish("I cannot find what I need.", "unknown", rng)
        if answer is None:
            return _finish(f"{thought} Everything is done.".strip(), "done", rng)
        if rng.random() < traits.miscalculate and re.fullmatch(r"\d+\.\d\d", answer):
            answer = f"{float(answer) + rng.choice((-10, -1, 1, 10, 0.1)):.2f}"
        return _finish(thought or "I have the answer.", answer, rng)
    return _finish("I give up.", "unknown", rng)


def _slip(need: _Need, knowledge: Knowledge, rng: Random, traits: Traits) -> str:
    """A mistake of the agent's own, as the thought that it acts on from then on."""
    full = f"{need.app}.{need.api}"
    page = need.arguments.get("page", 1)
    if page > 1 and rng.random() < traits.stop_short:
        return ENDS_HERE.format(name=full, page=page - 1)
    if full in SPECS and SPECS[full].changes and rng.random() < traits.skip:
        return TAKEN_DONE.format(call=f"{full}({argument_key(need.arguments)})")
    return ""


def claims(summary: str) -> list[str]:
    """Answers that a summary states as certain, and `done` where it says that everything is."""
    answers = []
    for line in summary.splitlines():
        if _DOUBT.search(line):
            continue
        if answer := _ANSWER.search(line) or _PLAIN_ANSWER.search(line):
            answers.append(answer[1].replace(",", ""))
        elif _COMPLETE.search(line):
            answers.append("done")
    return answers


def _believed_answer(knowledge: Knowledge, rng: Random, traits: Traits) -> str | None:
    """What the summary claims, where it is believed."""
    for claim in claims(knowledge.summary):
        if rng.random() < (traits.believe_completion if claim == "done" else traits.believe_answer):
            return claim
    return None


def _widened(knowledge: Knowledge, family: Family, parameters: Mapping[str, str], rng: Random, traits: Traits) -> bool:
    """Whether the agent falls for a summary that has lost a condition of the task."""
    if not family.tempting:
        return False
    text = knowledge.summary.lower()
    missing = [value for value in conditions(parameters) if value.lower() not in text]
    return bool(missing) and rng.random() < traits.believe_goal


def conditions(parameters: Mapping[str, str]) -> list[str]:
    """The parameters of a task that restrict it."""
    restricting = ("relation", "other_relation", "since", "until", "date", "name")
    return [value for key, value in parameters.items() if key in restricting]


def _reopened(knowledge: Knowledge, owner: Owner, rng: Random, traits: Traits) -> Message | None:
    """A next step that the summary lists although it was done; following it costs a step."""
    for line in knowledge.summary.splitlines():
        match = _REOPENED.match(line)
        if match is None or rng.random() >= traits.follow_reopened:
            continue
        app, api = match[2], match[3]
        if app in LOGINS and match[1].lower() == "log in to" and app in knowledge.passwords and app in knowledge.tokens:
            username = {"email": owner.email, "phone": owner.phone}[LOGINS[app]]
            given = {"username": username, "password": knowledge.passwords[app]}
            return _call(f"The next step is to log in to {app}.", app, "login", given, rng)
        if api and f"{app}.{api}" in SPECS and f"{app}.{api}" in knowledge.signatures:
            given = {"app": app, "api": api}
            return _call(f"The next step is to look up {app}.{api}.", "documentation", "show_api", given, rng)
    return None


def _wander(knowledge: Knowledge, rng: Random) -> Message | None:
    """A call that looks up something that is known already."""
    names = sorted(knowledge.signatures & SPECS.keys())
    if not names:
        return None
    app, api = rng.choice(names).split(".")
    return _call(f"Let me check {app}.{api} again.", "documentation", "show_api", {"app": app, "api": api}, rng)


def _thought(full: str, arguments: Mapping[str, Any]) -> str:
    """What an agent says before a call: what it is about to do and why now."""
    app, api = full.split(".")
    page = arguments.get("page", 1)
    if SPECS[full].changes:
        return (
            f"I have what I need for the next change in {app}. I call {api} now, exactly once,"
            " and then see what is left."
        )
    if page > 1:
        return f"The list goes on, so I read page {page} of it before I draw any conclusion from what I have seen."
    return f"Next I need what {api} of {app} tells me, and then I will see what that means for the task."


def _call(thought: str, app: str, api: str, arguments: Mapping[str, Any], rng: Random) -> Message:
    given = json.dumps({"app": app, "api": api, "arguments": dict(arguments)}, ensure_ascii=False)
    return assistant(thought, ToolCall(_id(rng), "call_api", given))


def _finish(thought: str, answer: str, rng: Random) -> Message:
    return assistant(thought, ToolCall(_id(rng), "finish", json.dumps({"answer": answer})))


def _id(rng: Random) -> str:
    return f"call_{rng.getrandbits(32):08x}"
