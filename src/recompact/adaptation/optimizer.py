"""Asking the optimizer for a JSON answer that passes a check, and asking again where it does not.

A bad answer never ends a run: it is shown to the optimizer with the reason, and after the last redraw it is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from recompact.engine.study import Study
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.journal import UnitCalls
from recompact.models.protocol import ChatModel
from recompact.values.chat import Decoding, Message, Request, assistant, canonical, system, user

SYSTEM = (
    "You improve the prompt with which a compressor model summarizes the history of a working agent. You read evidence"
    " closely, claim nothing that it does not show, and answer with one JSON object and nothing else."
)

PLAIN = (
    "You improve the prompt with which a compressor model summarizes the history of a working agent. You read evidence"
    " closely and claim nothing that it does not show."
)


def prompt(name: str) -> str:
    """A prompt for the optimizer, with gaps for `str.format`."""
    text = files("recompact.adaptation").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
    return text.removesuffix("\n")


TEXT = {"type": "string"}
"""The JSON schema of a text."""


def list_schema(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def object_schema(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The JSON schema of an object with exactly these keys."""
    closed = {"required": list(properties), "additionalProperties": False}
    return {**more, "type": "object", "properties": properties, **closed}


@dataclass(frozen=True)
class Optimizer:
    """A model in the optimizer's role, with its decoding and how often it may be asked again."""

    model: ChatModel
    decoding: Decoding = Decoding(max_output_tokens=16384)
    redraws: int = 3


def optimizer_of(study: Study, calls: UnitCalls) -> Optimizer:
    """The study's optimizer, as one unit of work sees it."""
    c = study.config.optimizer
    decoding = Decoding(c.max_output_tokens, c.temperature, c.top_p, c.reasoning_effort)
    return Optimizer(
        calls.bound(study.models[study.config.optimizer_model], "optimizer"), decoding, study.config.adapt.redraws
    )


class Weak(ValueError):
    """An answer that has something wrong with it, but can be used if no better one comes."""

    def __init__(self, reason: str, value: Any) -> None:
        super().__init__(reason)
        self.value = value


@dataclass(frozen=True)
class Answer:
    """The value that passed the check or nearly did, or None; `objections` say what was wrong with attempts."""

    value: Any
    objections: tuple[str, ...] = ()


SAME = "it gave the same answer again"
COMPLAINT = "That answer cannot be used: {reason}\nAnswer again with {form} mends this."
WARNINGS = (
    "Someone answered this before and was refused, because: {reasons}. Avoid that, and answer in your own way.",
    "Take care with the form of the answer. Earlier attempts failed for these reasons: {reasons}. Begin afresh.",
    "Before you answer, check it against what went wrong so far: {reasons}. Choose other words and other examples.",
)


async def ask(
    optimizer: Optimizer,
    prompt: str,
    schema: Mapping[str, Any] | None,
    check: Callable[[Any], Any],
    before: tuple[Message, ...] = (),
    read: Callable[[str], Any] | None = None,
) -> Answer:
    """Ask until `check` accepts the answer: it returns the value, or raises ValueError with what is wrong.

    The first redraw shows the answer with the objection. Later ones begin afresh, so that a model does not keep
    copying itself. When the same answer comes back, asking ends. Where `read` is given, an answer is not JSON.
    """
    decoding = replace(optimizer.decoding, response_schema=schema)
    messages = beginning = (system(SYSTEM if read is None else PLAIN), *before, user(prompt))
    texts: list[str] = []
    objections: list[str] = []
    best: Any = None
    for attempt in range(1 + optimizer.redraws):
        try:
            reply = await optimizer.model.reply(Request(messages, (), decoding))
        except ContextOverflow as failure:
            return Answer(best, (*objections, f"{failure} (a smaller [adapt] evidence_tokens shows it less)"))
        except Refused as failure:
            return Answer(best, (*objections, str(failure)))
        text = reply.message.content
        if text in texts:
            return Answer(best, (*objections, SAME))
        texts.append(text)
        try:
            if reply.finish == "refusal":
                raise ValueError("the optimizer refused to answer")
            return Answer(check((read or read_json)(text)), tuple(objections))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            best = error.value if isinstance(error, Weak) else best
            objections.append(_reason(error))
        if attempt == 0:
            complaint = COMPLAINT.format(reason=objections[-1], form="one JSON object that" if read is None else "what")
            messages = (*beginning, assistant(text or "(nothing)"), user(complaint))
        else:
            warning = WARNINGS[(attempt - 1) % len(WARNINGS)].format(reasons="; ".join(dict.fromkeys(objections)))
            messages = (*beginning[:-1], user(f"{prompt}\n\n{warning}"))
    return Answer(best, tuple(objections))


def _reason(error: Exception) -> str:
    """What was wrong, in words that an optimizer can act on."""
    if isinstance(error, KeyError):
        return f"the answer lacks {error}"
    if isinstance(error, TypeError | AttributeError):
        return f"the answer has not the form that was asked for ({error})"
    return str(error)


def read_json(text: str) -> Any:
    """The JSON object of an answer, bare or in a fence.

    >>> read_json('Here it is:\\n```json\\n{"a": 1}\\n```')
    {'a': 1}
    """
    fenced = re.search(r"```(?:json)?\s*\n(.*?)\n```", text, re.DOTALL)
    body = fenced[1] if fenced else text
    start = body.find("{")
    if start < 0:
        raise ValueError("it contains no JSON object")
    try:
        value, _ = json.JSONDecoder().raw_decode(body, start)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON ({error})") from None
    except RecursionError:
        raise ValueError("it is not valid JSON (nested too deeply)") from None
    try:
        canonical(value).encode()
    except UnicodeEncodeError:
        raise ValueError("it contains half a character (a lone surrogate), which no file can hold") from None
    return value
