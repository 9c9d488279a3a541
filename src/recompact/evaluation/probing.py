"""Asking probes: each compaction point compacted by each arm, once and a second time, and the questions put to a model.

Everything that a model is asked is a unit of a run: journaled, resumable, and asked once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from recompact.adaptation.method import answer_unit
from recompact.attribution.divergence import visible_text
from recompact.compressors.protocol import CompactionFailed, Compressor
from recompact.engine.execution.scheduler import Unit
from recompact.engine.study import Study
from recompact.environments.protocol import Opening, Task
from recompact.evaluation.arms import NONE, Arm
from recompact.evaluation.probes import CompactionPoint, Probe
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.journal import UnitCalls
from recompact.values.candidate import read_record
from recompact.values.chat import Decoding, Request, sha256, system, user
from recompact.values.context import Context
from recompact.values.stats import FEWEST, bootstrap_ratios

KIND = "probe"
FULL, RECORDED = "full", "recorded"
"""The control, and what the session or the run itself had after the compaction."""

GENERATIONS = 2
_ANSWER = Decoding(max_output_tokens=300, temperature=0.0)


@dataclass(frozen=True)
class Share:
    """A share over points; the ends of its 95 % interval are None where there are too few points for one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Compacted:
    """What one arm made of one point: a text and its tokens for each generation; none where it wrote nothing."""

    texts: tuple[str, ...]
    tokens: tuple[int, ...]
    failed: str = ""


@dataclass(frozen=True)
class ProbeResult:
    """One probe under one condition. `right` is None where nobody could tell."""

    probe: Probe
    shown: bool
    shown_again: bool | None  # after the second generation; None where that was not looked at
    baseline: bool  # whether the latest history of the same size shows it
    reply: str | None = None
    right: bool | None = None
    judged: bool = False

    def to_json(self) -> dict[str, Any]:
        probe = {"kind": self.probe.kind, "question": self.probe.question, "answer": self.probe.answer}
        return {**probe, **{key: value for key, value in asdict(self).items() if key != "probe"}}


@dataclass(frozen=True)
class Condition:
    """One condition at one point."""

    point: str
    name: str
    tokens: int
    before: int  # tokens of history before the compaction
    asked: tuple[ProbeResult, ...]
    failed: str = ""

    def kept(self, kind: str = "fact") -> tuple[int, int]:
        """How many probes of a kind the context shows, and how many there are."""
        own = [each for each in self.asked if each.probe.kind == kind]
        return sum(each.shown for each in own), len(own)

    def to_json(self) -> dict[str, Any]:
        return {
            "point": self.point,
            "condition": self.name,
            "tokens": self.tokens,
            "before": self.before,
            "failed": self.failed,
            "asked": [each.to_json() for each in self.asked],
        }


@dataclass(frozen=True)
class Probing:
    """All conditions at all points, and how a judge did on planted cases."""

    conditions: tuple[Condition, ...]
    points: int
    unasked: int = 0  # points at which no later call used anything that was consumed, and no rule was stated
    planted: tuple[int, int] = (0, 0)  # right, of all
    asked_model: str = ""
    judge: str = ""
    simulated: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.name for each in self.conditions))

    def of(self, name: str) -> tuple[Condition, ...]:
        return tuple(each for each in self.conditions if each.name == name)

    def recall(self, name: str, kind: str = "fact") -> Share | None:
        """The share of facts that are shown, with its interval over points."""
        return self._share(name, lambda asked: asked.shown, kind)

    def second(self, name: str) -> Share | None:
        """The same after a second compaction, of facts that the turns between do not show again."""
        return self._share(name, lambda asked: asked.shown_again)

    def gain(self, name: str) -> Share | None:
        """Recall minus that of the latest history of as many tokens: a longer summary gains nothing by its length."""
        return self._share(name, lambda asked: asked.shown - asked.baseline)

    def answers(self, name: str, kind: str | None = None) -> Share | None:
        """The share of right answers, of the questions that the model answers with the whole context."""
        known = {(each.point, a.probe.question) for each in self.of(FULL) for a in each.asked if a.right}
        return self._share(name, lambda asked: asked.right, kind, known)

    def _share(
        self,
        name: str,
        counted: Callable[[ProbeResult], int | None],
        kind: str | None = "fact",
        known: Collection[tuple[str, str]] | None = None,
    ) -> Share | None:
        """A ratio of sums over the probes of a kind that `counted` has a number for, points drawn with replacement."""
        pairs = []
        for each in self.of(name):
            own = [asked for asked in each.asked if kind is None or asked.probe.kind == kind]
            own = [asked for asked in own if known is None or (each.point, asked.probe.question) in known]
            numbers = [int(number) for asked in own if (number := counted(asked)) is not None]
            pairs += [(sum(numbers), len(numbers))] if numbers else []
        if not pairs:
            return None
        above, below = [a for a, _ in pairs], [b for _, b in pairs]
        drawn = bootstrap_ratios([(above, below)])[0] if len(pairs) >= FEWEST else None
        return Share(sum(above) / sum(below), drawn.low if drawn else None, drawn.high if drawn else None)

    def to_json(self) -> dict[str, Any]:
        return {
            "points": self.points,
            "unasked": self.unasked,
            "asked_model": self.asked_model,
            "judge": self.judge,
            "planted": {"right": self.planted[0], "cases": self.planted[1]},
            "simulated": self.simulated,
            "left_out": dict(self.left_out),
            "summary": [
                {
                    "condition": name,
                    "recall": _plain(self.recall(name)),
                    "rules": _plain(self.recall(name, "rule")),
                    "second": _plain(self.second(name)),
                    "gain": _plain(self.gain(name)),
                    "answers": _plain(self.answers(name)),
                    "tokens": sum(each.tokens for each in self.of(name)) / max(1, len(self.of(name))),
                }
                for name in self.names
            ],
            "conditions": [each.to_json() for each in self.conditions],
        }


def _plain(share: Share | None) -> list[float | None] | None:
    return [share.value, share.low, share.high] if share else None


async def probe(
    study: Study, points: Sequence[CompactionPoint], arms: Sequence[Arm], *, ask: bool = False, judge: bool = False
) -> Probing:
    """Compact every point by every arm, and ask. Work that the run has is reused."""
    complete = [arm.completed(study) for arm in arms]
    countable = ("fact", "rule")
    asking = [point for point in points if any(ask or each.kind in countable for each in point.probes)]
    compactions = {unit_name(point, arm.key): (point, arm) for point in asking for arm in complete if arm.kind != NONE}
    await study.complete("compact", KIND, [compaction_unit(study, name, *both) for name, both in compactions.items()])
    shown: dict[tuple[str, str], Compacted] = {}
    for point in asking:
        shown[point.name, FULL] = Compacted((visible_text(point.pre),), (point.pre.size,))
        if point.recorded is not None:
            shown[point.name, RECORDED] = Compacted((visible_text(point.recorded),), (point.recorded.size,))
    for name, (point, arm) in compactions.items():
        shown[point.name, arm.name] = read_record(Compacted, study.store.result(name))
    replies = await _ask(study, asking, shown) if ask else {}
    by_name = {point.name: point for point in asking}
    conditions = [_condition(by_name[place], name, compacted, replies) for (place, name), compacted in shown.items()]
    order = {name: n for n, name in enumerate([FULL, RECORDED, *(arm.name for arm in complete)])}
    conditions.sort(key=lambda each: order[each.name])
    probing = Probing(tuple(conditions), len(points), len(points) - len(asking))
    model = study.config.agent.model if ask else ""
    probing = replace(probing, asked_model=model)
    return await _judge(study, probing) if judge and ask else probing


def unit_name(point: CompactionPoint, *more: object) -> str:
    return "/".join(["replay", KIND, point.name.removeprefix("collect/"), *map(str, more)])


def compaction_unit(
    study: Study, name: str, point: CompactionPoint, arm: Arm, generations: int = GENERATIONS
) -> Unit[Any]:
    """One point, compacted by one arm, and its result compacted again after the turns that followed."""

    async def play(calls: UnitCalls) -> dict[str, Any]:
        under = arm.study(study)
        task = "\n".join(message.content for message in point.pre.prefix if message.role == "user")
        compressor = under.compressor(calls, Task(point.name, task), Opening(point.pre.prefix, ()))
        assert compressor is not None
        texts, tokens, failed = [], [], ""
        try:
            budget = point.budget or under.config.compressor.budget
            async for context in _generations(compressor, point, budget, generations):
                texts.append(visible_text(context))
                tokens.append(context.size)
        except (CompactionFailed, ContextOverflow, Refused) as failure:
            failed = str(failure)
        return asdict(Compacted(tuple(texts), tuple(tokens), failed))

    return answer_unit(study.store, name, KIND, play)


async def _generations(
    compressor: Compressor, point: CompactionPoint, budget: int, most: int
) -> AsyncIterator[Context]:
    context = (await compressor.compress(point.pre, budget)).context
    yield context
    if point.following and most > 1:
        for turn in point.following:
            context = context.extended(turn)
        yield (await compressor.compress(context, budget)).context


def _condition(
    point: CompactionPoint, name: str, compacted: Compacted, replies: Mapping[tuple[str, str, int], str]
) -> Condition:
    again = compacted.texts[1] if len(compacted.texts) > 1 else None
    between = "\n".join(turn.text for turn in point.following)
    size = compacted.tokens[0] if compacted.tokens else 0
    text, latest = (compacted.texts[0] if compacted.texts else ""), point.latest(size) if size else ""
    asked = []
    for number, each in enumerate(point.probes):
        reply = replies.get((point.name, name, number))
        met_again = again is None or each.shown_in(between)
        right = None if reply is None else each.answered_by(reply) or (False if each.kind == "fact" else None)
        shown_again = None if again is None or met_again else each.shown_in(again)
        asked.append(ProbeResult(each, each.shown_in(text), shown_again, each.shown_in(latest), reply, right))
    return Condition(point.name, name, size, point.pre.size, tuple(asked), compacted.failed)


# Questions to models


READER = (
    "You are given all that an agent still knows about the work it is in the middle of. Answer one question from it"
    " alone; do not guess."
)
JUDGE = (
    "You compare a given answer with the right one. Two answers agree if somebody who acts on the given one does what"
    " the right one says: nothing that matters may be missing, changed or added. Answer with yes or no."
)


async def _ask(
    study: Study, points: Sequence[CompactionPoint], shown: Mapping[tuple[str, str], Compacted]
) -> dict[tuple[str, str, int], str]:
    """Every question with every context, one at a time."""
    units: dict[tuple[str, str, int], str] = {}
    requests: dict[str, tuple[str, str]] = {}
    for point in points:
        for (place, condition), compacted in shown.items():
            if place != point.name or not compacted.texts:
                continue
            for number, each in enumerate(point.probes):
                # By what is asked about what: a context that is written anew is another question.
                key = sha256(f"{compacted.texts[0]}\n{each.question}")[:16]
                name = unit_name(point, "ask", key)
                units[place, condition, number] = name
                requests[name] = (READER, f"<known>\n{compacted.texts[0]}\n</known>\n\n{each.question}")
    model = study.config.agent.model
    await study.complete("ask", KIND, [_question(study, n, model, "agent", *both) for n, both in requests.items()])
    return {where: str(study.store.result(name)["reply"]) for where, name in units.items()}


def _question(study: Study, name: str, model: str, role: str, instructions: str, text: str) -> Unit[Any]:
    async def play(calls: UnitCalls) -> dict[str, str]:
        request = Request((system(instructions), user(text)), decoding=_ANSWER)
        try:
            return {"reply": (await calls.bound(study.models[model], role).reply(request)).message.content}
        except (ContextOverflow, Refused) as failure:
            return {"reply": f"unknown ({failure.kind})"}

    return answer_unit(study.store, name, KIND, play)


async def _judge(study: Study, probing: Probing) -> Probing:
    """Let the judge decide what is not right to the letter, and try it on cases whose answer is known."""
    open_cases = [
        (each, asked)
        for each in probing.conditions
        for asked in each.asked
        if asked.reply is not None and not asked.right
    ]
    open_cases = [(each, asked) for each, asked in open_cases if asked.probe.kind != "fact"]
    cases = {_case(asked.probe, str(asked.reply)) for _, asked in open_cases}
    planted = dict(planted_cases([asked.probe for each in probing.of(FULL) for asked in each.asked]))
    model = study.config.optimizer_model
    names = {text: f"replay/{KIND}/judge/{sha256(text)[:24]}" for text in sorted(cases | planted.keys())}
    units = [_question(study, name, model, "optimizer", JUDGE, text) for text, name in names.items()]
    await study.complete("judge", KIND, units)
    agrees = {text: _agrees(str(study.store.result(name)["reply"])) for text, name in names.items()}

    def decided(asked: ProbeResult) -> ProbeResult:
        if asked.reply is None or asked.right or asked.probe.kind == "fact":
            return asked
        return replace(asked, right=agrees[_case(asked.probe, asked.reply)], judged=True)

    conditions = tuple(replace(each, asked=tuple(map(decided, each.asked))) for each in probing.conditions)
    right = sum(agrees[text] == truth for text, truth in planted.items())
    return replace(probing, conditions=conditions, planted=(right, len(planted)), judge=model)


def _case(probe: Probe, reply: str) -> str:
    return f"Question: {probe.question}\n\nThe right answer: {probe.answer}\n\nThe given answer: {reply}"


def _agrees(reply: str) -> bool:
    return reply.strip().strip("*`\"'.").casefold().startswith("yes")


PLANTED = 10
"""Probes from which planted cases are made."""


def planted_cases(probes: Sequence[Probe]) -> Iterator[tuple[str, bool]]:
    """Cases whose verdict is known: the right answer as it is and in other dress, and wrong ones."""
    chosen = [probe for probe in probes if probe.kind != "fact"][:PLANTED]
    for number, probe in enumerate(chosen):
        yield _case(probe, probe.answer), True
        yield _case(probe, f"It is this: {probe.answer} That is all I know."), True
        yield _case(probe, "unknown"), False
        others = (each.answer for each in (*chosen[number + 1 :], *chosen[:number]) if each.kind == probe.kind)
        if other := next((each for each in others if each not in probe.answer and probe.answer not in each), None):
            yield _case(probe, other), False
