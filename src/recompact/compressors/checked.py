"""Checked: looks in what replaced the history for what must survive, and puts back once what is missing.

A check decides what must survive: a rule, questions to the model, or a function of the user's own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from recompact.compressors.anchors import with_appendix
from recompact.compressors.protocol import Compaction, CompactionFailed, Compressor, CompressorInputs
from recompact.errors import InputError
from recompact.models.failures import ContextOverflow, Refused
from recompact.registry import Limit, Registry, has_parameter
from recompact.values.chat import Request, Usage, user
from recompact.values.context import Context, replaced_turns
from recompact.values.receipt import receipt, shown_text
from recompact.values.tokens import TokenCounter

Check = Callable[[Context, Context], Sequence[str] | Awaitable[Sequence[str]]]
"""What of the first context must be in the second and is not, the most important first: texts that a repair appends."""

CHECKS = Registry(
    "check",
    "recompact.checks",
    {"literals": "recompact.compressors.checked:literals", "probes": "recompact.compressors.checked:Probes"},
)
HEADING = "## Facts that must not get lost"


class LacksFacts(CompactionFailed):
    """A check misses more than a repair can put back, and the old context is to be kept for one more turn."""


def literals(pre: Context, post: Context) -> tuple[str, ...]:
    """Rules of the user, and exact values that the agent had used in its calls, which it no longer sees."""
    slip = receipt(pre, post)
    return (*slip.rules, *slip.lost[: slip.lost_used])


class Checked:
    """Asks a `check` what is missing after a compaction and appends as much of it as fits into `tokens`, once. If that
    is not all, `otherwise` decides: the compaction stands (`accept`), or it fails, and the old context stays for one
    more turn (`keep`)."""

    def __init__(
        self,
        inputs: CompressorInputs,
        inner: Compressor,
        *,
        check: Any = "literals",
        tokens: Annotated[int, Limit(ge=20)] = 256,
        otherwise: Literal["accept", "keep"] = "accept",
        config_directory: Path = Path(),
    ) -> None:
        self._inputs, self._inner, self._tokens, self._otherwise = inputs, inner, tokens, otherwise
        self._check = load_check(check, inputs, config_directory)

    async def compress(self, context: Context, budget: int) -> Compaction:
        limit = min(self._tokens, budget // 4)
        compaction = await self._inner.compress(context, budget - limit)
        missing, usage = await self._missing(context, compaction.context)
        compaction = replace(compaction, usage=compaction.usage + usage)
        post, number = repair(compaction.context, missing, self._tokens, budget, self._inputs.count)
        if len(missing) > number and self._otherwise == "keep":
            lost = "; ".join(missing[number : number + 3])
            raise LacksFacts(f"the summary lacks what must survive: {lost}", compaction.usage, compaction.notes)
        return replace(compaction, context=post, repaired=(*compaction.repaired, *missing[:number]))

    async def _missing(self, pre: Context, post: Context) -> tuple[list[str], Usage]:
        """What the check misses, each on one line, and what asking cost."""
        answer = self._check(pre, post)
        texts = await answer if inspect.isawaitable(answer) else answer
        shown = shown_text(post)
        earlier = [fact for fact in _earlier_repairs(pre) if fact not in shown]
        lines = [" ".join(str(text).split()) for text in (*texts, *earlier)]
        usage = self._check.usage if isinstance(self._check, Probes) else Usage()
        return [line for line in dict.fromkeys(lines) if line], usage


def load_check(check: Any, inputs: CompressorInputs, directory: Path = Path()) -> Check:
    """A check by its name (`literals`, `probes`, `file.py:name`, `package.module:name`), or a function as it is."""
    plugin = CHECKS.find(check, directory) if isinstance(check, str) else check
    if isinstance(plugin, type) and has_parameter(plugin, "inputs"):
        plugin = plugin(inputs)
    if not callable(plugin):
        raise InputError(f"check {check!r} is not a function of two contexts")
    found: Check = plugin
    return found


def repair(post: Context, missing: Sequence[str], tokens: int, budget: int, count: TokenCounter) -> tuple[Context, int]:
    """The context with missing facts appended to its summary, within so many tokens and a quarter of the budget, and
    how many of them fit."""
    return with_appendix(post, missing, min(tokens, budget // 4), count, HEADING, "- ")


def _earlier_repairs(pre: Context) -> list[str]:
    """What repairs before this one have put back: without it, a fact would live for one compaction only."""
    _, mark, listed = (pre.summary.text if pre.summary else "").rpartition(HEADING)
    return [line.removeprefix("- ") for line in listed.strip().splitlines()] if mark else []


# --- questions to the model

QUESTIONS = 5
_ASK = (
    "Below is the part of an agent's work that is about to be replaced by a summary. Write the {number} facts of it"
    " that whoever continues the work is most likely to need: exact values, decisions, rules, what is done and open."
    " One line each, as a short question, a bar, and its answer in as few words as possible:\nquestion | answer\n\n"
    "<work>\n{work}\n</work>"
)
_ANSWER = (
    "Answer the question from this record alone, in as few words as possible. If the record does not say, answer"
    " UNKNOWN.\n\n<record>\n{record}\n</record>\n\nQuestion: {question}"
)
_WORD = re.compile(r"\w+")


class Probes:
    """Questions about the dropped part, written by the compressor's model, and answered by it one at a time from what
    is left. A question whose answer is not the expected one is a missing fact."""

    def __init__(self, inputs: CompressorInputs) -> None:
        self.inputs = inputs
        self.usage = Usage()  # of the last check

    async def __call__(self, pre: Context, post: Context) -> tuple[str, ...]:
        self.usage = Usage()
        dropped_part = replace(pre, turns=tuple(pre.turns[n] for n in replaced_turns(pre, post)))
        work = "\n\n".join(filter(None, (pre.summary.text if pre.summary else "", dropped_part.history)))
        try:
            written = await self._ask(_ASK.format(number=QUESTIONS, work=work))
            pairs = [line.split("|", 1) for line in written.splitlines() if line.count("|") >= 1][:QUESTIONS]
            missing = []
            for question, expected in pairs:
                answer = await self._ask(_ANSWER.format(record=shown_text(post), question=question.strip()))
                if not agrees(answer, expected):
                    missing.append(f"{question.strip(' -*')} {expected.strip()}")
        except (ContextOverflow, Refused):  # no check is better than no summary
            return ()
        return tuple(missing)

    async def _ask(self, text: str) -> str:
        reply = await self.inputs.model.reply(Request((user(text),), (), self.inputs.decoding))
        self.usage += reply.usage
        return reply.message.content


def agrees(answer: str, expected: str) -> bool:
    """Whether an answer has every word of the expected one.

    >>> agrees("It is port 8,080.", "8,080"), agrees("UNKNOWN", "8,080")
    (True, False)
    """
    return set(_WORD.findall(expected.casefold())) <= set(_WORD.findall(answer.casefold()))
