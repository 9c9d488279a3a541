"""A simulated agent: it plans from the task's text and knows only what it sees in its context.

Everything is worked out anew from the messages at each step: a signature that is no longer there is looked up again, a
token that is gone means a new login, a forgotten page is fetched again, a forgotten payment is made twice. Some tasks
are beyond it and some make it unsteady, always the same ones. It may believe a summary, and does what one tells it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from recompact.simulation.knowledge import OPENING, Knowledge, knowledge_of, write_notes
from recompact.simulation.model import SimulatedModel
from recompact.simulation.notes import SPECS, argument_key
from recompact.simulation.parameters import ABILITIES, Traits
from recompact.simulation.recall import ENDS_HERE, TAKEN_DONE, Need, Recall, checks, find_reopened
from recompact.simulation.rules import GOES_ON, NO_RULE
from recompact.suites.pocket import BY_NAME, RECORD_ID, Family, Owner, Plan, parse
from recompact.suites.pocket.plans import OWNER
from recompact.suites.pocket.spec import PAGE_SIZE_MAX
from recompact.values.chat import Message, ToolCall, assistant

BY_SUMMARY = "I go by the summary: there is no further condition."
READ_AS = "I read the task in my own way ({name})."
OTHER_ORDER = "I gather first what I will need later."
SMALL_PAGES = "I ask for short pages."
WANDERING = "Let me check"
SMALL_PAGE = PAGE_SIZE_MAX - 1
_READ_AS = re.compile(r"I read the task in my own way \(([\w ]+)\)\.")
_MOST = 0.9  # no slip is certain

_ANSWER = re.compile(r"(?i)\b(?:use|answer(?: is)?:?|total of)\s+(?:the )?(?:total )?\$?(\d[\d,]*\.?\d*)\b.*\banswer\b")
_PLAIN_ANSWER = re.compile(r"(?i)\b(?:final |the )?answer(?: is|:| =)\s*\**\$?([\w.:@-]+\w)")
_DOUBT = re.compile(
    r"(?i)\b(not yet|unconfirmed|tentative|unverified|not confirmed|pending|to be determined|unknown|none)\b"
)
_COMPLETE = re.compile(r"(?i)\[x\].*\ball\b.*\b(?:done|made|sent|approved|completed|paid|requested|archived|added)\b")


@dataclass(frozen=True)
class Ability:
    """What an agent makes of one task, at every attempt the same."""

    wrong: str = ""  # the wrong way that it always takes, where the task is beyond it
    unsteadiness: float = 1.0  # by which its slips are multiplied
    neglect: float = 0.0  # how often it leaves its notes out of a step, where its history is cut off


@lru_cache(maxsize=1_024)
def ability(task: str, owner: Owner, family: str, traits: Traits) -> Ability:
    """Drawn from the words of the task, which are all that an agent has of it."""
    rng = Random(f"ability {ABILITIES}/{owner.email}/{task}")
    difficulty = BY_NAME[family].difficulty
    never = {"easy": traits.never_easy, "medium": traits.never_medium, "hard": traits.never_hard}[difficulty]
    neglect = {"easy": 0.0, "medium": traits.neglect_medium, "hard": traits.neglect_hard}[difficulty]
    # Doing things twice is no way of its own: whoever sees the first time on record does not do the second.
    beyond, way = rng.random() < never, rng.choice(sorted(BY_NAME[family].wrong.keys() - {"repeated"}))
    unevenness, spread = traits.unevenness, traits.neglect_spread
    unsteadiness = rng.gammavariate(1 / unevenness, unevenness) if unevenness else 1.0
    neglects = rng.betavariate(spread * neglect, spread * (1 - neglect)) if neglect and spread else neglect
    return Ability(way if beyond else "", unsteadiness, neglects)


class SimulatedAgent(SimulatedModel):
    """Plays the agent in pocket."""

    name, part = "sim-agent", "traits"

    def answer(self, messages: tuple[Message, ...], rng: Random) -> Message:
        return act(messages, rng, self.behaviour)


@dataclass(frozen=True)
class _Mind:
    """Everything that one step is decided from."""

    knowledge: Knowledge
    owner: Owner
    family: Family
    parameters: Mapping[str, str]
    ability: Ability
    traits: Traits
    rng: Random

    def slips(self, chance: float) -> bool:
        return self.rng.random() < min(_MOST, chance * self.ability.unsteadiness)

    def believes(self, chance: float) -> bool:
        """Whether it goes by what a summary says."""
        return self.rng.random() < chance if self.traits.even_belief else self.slips(chance)

    @property
    def fresh(self) -> bool:
        """Whether the summary is new to it."""
        return bool(self.knowledge.summary) and self.knowledge.turns <= 1


def act(messages: tuple[Message, ...], rng: Random, traits: Traits) -> Message:
    """The next message, from the messages so far."""
    knowledge, owner, task = knowledge_of(messages)
    understood = _understood(task) if owner is not None else None
    if understood is None or owner is None:
        return _finish("I do not understand this task.", "unknown", rng)
    family, parameters = understood
    mind = _Mind(knowledge, owner, family, parameters, ability(task, owner, family.name, traits), traits, rng)
    if mind.fresh and (answer := _believed_answer(mind)) is not None:
        return _finish("The summary has the answer.", answer, rng)
    if (bidden := find_reopened(knowledge, owner, rng, traits)) is not None:
        return _call(*bidden, rng)
    plan, thought = _plan(mind)
    if knowledge.turns and rng.random() < _restlessness(mind) and (again := _wander(knowledge, rng)) is not None:
        return _call(*again, rng)
    return _follow(plan, mind, thought)


_understood = lru_cache(maxsize=1_024)(parse)


def _plan(mind: _Mind) -> tuple[Plan, str]:
    """A route to the end that the agent has in mind, and what it says where it decides on either."""
    end, thought = _end(mind)
    knowledge, traits, rng = mind.knowledge, mind.traits, mind.rng
    if not knowledge.summary and not knowledge.turns:
        ways = ((traits.other_order, OTHER_ORDER), (traits.small_pages, SMALL_PAGES))
        thought = " ".join([OPENING, *(way for chance, way in ways if rng.random() < chance), thought]).strip()
    thoughts = " ".join([*knowledge.thoughts, thought])
    small = SMALL_PAGES in thoughts or any(f'"page_size": {SMALL_PAGE}' in key for _, key in knowledge.reads)
    return mind.family.route(end, OTHER_ORDER in thoughts, SMALL_PAGE if small else PAGE_SIZE_MAX), thought


def _end(mind: _Mind) -> tuple[Plan, str]:
    """The right end, or a wrong one that the agent fell for and keeps to as long as it sees its own words."""
    family, knowledge = mind.family, mind.knowledge
    thoughts = " ".join(knowledge.thoughts)
    if mind.ability.wrong:
        return family.wrong[mind.ability.wrong], ""
    if misread := _READ_AS.search(thoughts):
        return family.wrong[misread[1]], ""
    if BY_SUMMARY in thoughts:
        return family.wrong[family.tempting], ""
    if not knowledge.summary and not knowledge.turns and mind.slips(mind.traits.misread):
        name = mind.rng.choice(sorted(family.wrong))
        return family.wrong[name], READ_AS.format(name=name)
    if mind.fresh and _overlooks_condition(mind):
        return family.wrong[family.tempting], BY_SUMMARY
    return family.solve, ""


def _follow(plan: Plan, mind: _Mind, thought: str) -> Message:
    """Run the plan on what is known, and do what it needs next or finish. A slip becomes a thought that it keeps to."""
    knowledge, owner, rng, traits = mind.knowledge, mind.owner, mind.rng, mind.traits
    for _ in range(8):
        try:
            answer = plan(Recall(knowledge, owner, rng, traits), mind.parameters)
        except Need as need:
            slip = _slip(need, mind)
            if slip:
                knowledge.thoughts.append(slip)
                thought = f"{thought} {slip}".strip()
                continue
            if need.app == OWNER:
                return assistant(f"{thought} {need.thought}".strip())
            if knowledge.last is not None and knowledge.last.changes and mind.slips(traits.repeat):
                again = {"token": knowledge.tokens.get(knowledge.last.app, ""), **knowledge.last.given}
                return _call("Once more, to be sure.", knowledge.last.app, knowledge.last.api, again, rng)
            return _call(_add_notes(f"{thought} {need.thought}".strip(), mind), need.app, need.api, need.arguments, rng)
        except (LookupError, TypeError, ValueError):
            return _finish("I cannot find what I need.", "unknown", rng)
        if (bidden := checks(knowledge, rng, traits)) is not None:
            return _call(*bidden, rng)
        if answer is None:
            return _finish(f"{thought} Everything is done.".strip(), "done", rng)
        if re.fullmatch(r"\d+\.\d\d", answer) and mind.slips(traits.miscalculate):
            answer = f"{float(answer) + rng.choice((-10, -1, 1, 10, 0.1)):.2f}"
        return _finish(thought or "I have the answer.", answer, rng)
    return _finish("I give up.", "unknown", rng)


def _add_notes(thought: str, mind: _Mind) -> str:
    """The thought, with notes of what is known where the history is being cut off and the agent minds that."""
    if not mind.knowledge.cut_off or mind.rng.random() < mind.ability.neglect:
        return thought
    return f"{thought}\n{write_notes(mind.knowledge)}"


def _slip(need: Need, mind: _Mind) -> str:
    """A mistake of the agent's own, as the thought that it acts on from then on."""
    if need.app == OWNER:
        lost = not RECORD_ID.search(need.thought) and (mind.knowledge.summary or mind.knowledge.cut_off)
        return NO_RULE if lost and mind.rng.random() < GOES_ON else ""
    full = f"{need.app}.{need.api}"
    page = need.arguments.get("page", 1)
    if page > 1 and mind.slips(mind.traits.stop_short):
        return ENDS_HERE.format(name=full, page=page - 1)
    if full in SPECS and SPECS[full].changes and mind.slips(mind.traits.skip):
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


def _believed_answer(mind: _Mind) -> str | None:
    """What the summary claims, where it is believed."""
    for claim in claims(mind.knowledge.summary):
        if mind.believes(mind.traits.believe_completion if claim == "done" else mind.traits.believe_answer):
            return claim
    return None


def _overlooks_condition(mind: _Mind) -> bool:
    """Whether the agent falls for a summary that has lost a condition of the task."""
    if not mind.family.tempting:
        return False
    text = mind.knowledge.summary.lower()
    missing = [value for value in conditions(mind.parameters) if value.lower() not in text]
    return bool(missing) and mind.believes(mind.traits.believe_goal)


def conditions(parameters: Mapping[str, str]) -> list[str]:
    """The parameters of a task that restrict it."""
    restricting = ("relation", "other_relation", "since", "until", "date", "name")
    return [value for key, value in parameters.items() if key in restricting]


def _restlessness(mind: _Mind) -> float:
    """The chance to look something up that is known: higher right after doing so."""
    thoughts = mind.knowledge.thoughts
    wandering = bool(thoughts) and thoughts[-1].startswith(WANDERING)
    return max(mind.traits.wander, mind.traits.wander_on) if wandering else mind.traits.wander


def _wander(knowledge: Knowledge, rng: Random) -> tuple[str, str, str, dict[str, Any]] | None:
    """A call that looks up something that is known already."""
    names = sorted(knowledge.signatures & SPECS.keys())
    if not names:
        return None
    app, api = rng.choice(names).split(".")
    return f"{WANDERING} {app}.{api} again.", "documentation", "show_api", {"app": app, "api": api}


def _call(thought: str, app: str, api: str, arguments: Mapping[str, Any], rng: Random) -> Message:
    given = json.dumps({"app": app, "api": api, "arguments": dict(arguments)}, ensure_ascii=False)
    return assistant(thought, ToolCall(_id(rng), "call_api", given))


def _finish(thought: str, answer: str, rng: Random) -> Message:
    return assistant(thought, ToolCall(_id(rng), "finish", json.dumps({"answer": answer})))


def _id(rng: Random) -> str:
    return f"call_{rng.getrandbits(32):08x}"
