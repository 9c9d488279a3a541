"""A run as logs of Inspect (`.eval`), for `inspect view` and its dataframes: one log for each phase or arm, one sample
for each episode.

Runs of a task are epochs of a sample, and so are the draws of a boundary's arm. Events name their messages by number in
a list that the sample holds once, as Inspect itself writes them.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recompact.engine.store.records import CONTINUE
from recompact.engine.store.runs import last_change
from recompact.engine.store.store import Store
from recompact.presentation.exchange.episodes import (
    NOTE,
    Clock,
    Compaction,
    Episode,
    ModelCall,
    Step,
    iso,
    unique_names,
    verdict_facts,
)
from recompact.values.chat import Message, ToolCall, ToolSpec, Usage
from recompact.values.context import Turn, summary_message
from recompact.version import __version__

LOG_VERSION = 2
_STOPS = {"stop": "stop", "length": "max_tokens", "refusal": "content_filter"}
_SUMMARY = summary_message("\0").content.partition("\0")[0]
_LIMITS = {"step limit": "message", "context overflow": "context"}


def write(store: Store, episodes: Iterable[Episode], directory: Path) -> None:
    logs: dict[str, _Log] = {}
    name = unique_names()
    try:
        for episode in episodes:
            title = " ".join(filter(None, (episode.phase, "" if episode.boundary else episode.arm)))
            if title not in logs:
                logs[title] = _Log(title, store, directory / f"{name(title)}.eval")
            logs[title].add(episode)
        for log in logs.values():
            log.finish()
    finally:
        for log in logs.values():
            log.archive.close()


@dataclass
class _Log:
    """One log while it is written: samples go to the archive one by one, only their summaries stay in memory."""

    title: str
    store: Store
    path: Path
    summaries: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)  # by model
    taken: set[tuple[str, int]] = field(default_factory=set)
    model: str = ""

    def __post_init__(self) -> None:
        self.archive = zipfile.ZipFile(self.path, "x", zipfile.ZIP_DEFLATED)
        self.clock = Clock(last_change(self.store.path))
        self.began = self.clock.now

    def add(self, episode: Episode) -> None:
        sample = sample_document(episode, self.clock)
        if (sample["id"], sample["epoch"]) in self.taken:
            sample["id"] = episode.unit
        self.taken.add((sample["id"], sample["epoch"]))
        self._put(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
        kept = ("id", "epoch", "input", "target", "scores", "uuid", "model_usage", "total_time", "metadata", "error")
        summary = {key: sample[key] for key in kept if key in sample}
        error = {"error": sample["error"]["message"]} if sample.get("error") else {}
        self.summaries.append({**summary, **error, "metadata": {}, "completed": True})
        for call in episode.calls:
            self.usage[call.model] = self.usage.get(call.model, Usage()) + call.usage
        self.model = self.model or episode.model

    def finish(self) -> None:
        start = {"version": LOG_VERSION, "eval": self._spec(), "plan": {"steps": []}}
        samples = len(self.summaries)
        usage = {model: _usage(usage) for model, usage in self.usage.items()}
        header = {
            "version": LOG_VERSION,
            "status": "success",
            "eval": start["eval"],
            "plan": start["plan"],
            "results": {"total_samples": samples, "completed_samples": samples, "scores": self._scores()},
            "stats": {"started_at": iso(self.began), "completed_at": iso(self.clock.now), "model_usage": usage},
        }
        self._put("_journal/start.json", start)
        self._put("summaries.json", self.summaries)
        self._put("header.json", header)

    def _spec(self) -> dict[str, Any]:
        metadata = self.store.metadata
        ids = list(dict.fromkeys(summary["id"] for summary in self.summaries))
        return {
            "eval_id": f"{self.store.path.stem}-{self.title}",
            "run_id": self.store.path.stem,
            "created": iso(self.began),
            "task": f"{metadata.suite} {self.title}".strip(),
            "task_id": metadata.config_hash or self.store.path.stem,
            "task_version": 0,
            "dataset": {"name": metadata.suite, "samples": len(ids), "sample_ids": ids},
            "model": self.model or "none",
            "config": {"epochs": max((summary["epoch"] for summary in self.summaries), default=1)},
            "packages": {"recompact": __version__},
            "metadata": {"recompact": {"simulated": list(metadata.simulated), "times": NOTE}},
        }

    def _scores(self) -> list[dict[str, Any]]:
        values = [summary["scores"]["success"]["value"] for summary in self.summaries]
        mean = sum(values) / len(values) if values else 0.0
        metrics = {"accuracy": {"name": "accuracy", "value": mean}}
        return [{"name": "success", "scorer": "success", "scored_samples": len(values), "metrics": metrics}]

    def _put(self, name: str, value: Any) -> None:
        data = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        self.archive.writestr(name, data)


def sample_document(episode: Episode, clock: Clock) -> dict[str, Any]:
    trajectory, score = episode.trajectory, episode.trajectory.score
    began = clock.now
    events = _Events(episode, clock)
    for part in episode.parts:
        if isinstance(part, Step):
            events.add_step(part)
        elif isinstance(part, Compaction):
            events.add_compaction(part)
        else:
            events.add_call(part, part.asked or ())
    turns = [*episode.start.messages, *(message for turn in trajectory.turns for message in turn.messages)]
    grade = {"value": float(score.success), "explanation": trajectory.ending, "metadata": dict(score.details)}
    usage: dict[str, Usage] = {}
    for call in episode.calls:
        usage[call.model] = usage.get(call.model, Usage()) + call.usage
    limit = {"type": _LIMITS[trajectory.ending], "limit": trajectory.steps} if trajectory.ending in _LIMITS else None
    return {
        "id": f"{episode.boundary} {episode.arm}" if episode.phase == CONTINUE else episode.task,
        "epoch": episode.run + 1,
        "uuid": episode.unit,
        "input": [message_document(message, place) for place, message in enumerate(episode.start.messages)],
        "target": "",
        "messages": [message_document(message, place) for place, message in enumerate(turns)],
        "scores": {"success": grade, "reward": {"value": score.value}},
        "metadata": {"recompact": episode.facts},
        "events": events.events,
        "events_data": {"messages": events.pool, "calls": []},
        "attachments": {},
        "model_usage": {model: _usage(each) for model, each in usage.items()},
        "role_usage": {role: _usage(each) for role, each in trajectory.usage.items()},
        "started_at": iso(began),
        "completed_at": iso(clock.now),
        "total_time": clock.now - began,
        **({"limit": limit} if limit else {}),
        **({"error": _error(trajectory.error)} if trajectory.ending == "environment error" else {}),
    }


def _error(text: str) -> dict[str, str]:
    return {"message": text, "traceback": "", "traceback_ansi": ""}


@dataclass
class _Events:
    """The events of one sample while it is written."""

    episode: Episode
    clock: Clock
    events: list[dict[str, Any]] = field(default_factory=list)
    pool: list[dict[str, Any]] = field(default_factory=list)
    places: dict[Message, int] = field(default_factory=dict)  # of messages in the pool

    def add_step(self, step: Step) -> None:
        self.add_call(step.answer(self.episode.model), step.context.messages, self.episode.tools)
        for place, each in enumerate(step.turn.message.calls):
            self._add_tool(step.turn, each, place)

    def _add_tool(self, turn: Turn, call: ToolCall, place: int) -> None:
        result = next((each.content for each in turn.results if each.call_id == call.id), "")
        begin, end = self.clock.spend(0.0)
        self._add("tool", begin, id=call.id or f"call-{place}", function=call.name, arguments=call.readable)
        self.events[-1] |= {"result": result, "type": "function", "completed": iso(end)}

    def add_compaction(self, compaction: Compaction) -> None:
        for call in compaction.calls:
            self.add_call(call, call.asked or ())
        post, facts = compaction.boundary.post, verdict_facts(compaction)
        self._add(
            "compaction",
            self.clock.spend(0.0)[0],
            type="summary" if post.summary else "trim",
            tokens_before=compaction.boundary.pre.size,
            tokens_after=post.size,
            source="recompact",
            metadata={"recompact": facts},
        )
        effect = compaction.verdict and compaction.verdict.reported_effect
        if compaction.verdict and effect:
            for name, value in (("hazard", effect.hazard), ("burden", effect.burden)):
                score = {
                    "value": value,
                    "explanation": compaction.verdict.kind,
                    "metadata": {"boundary": facts["index"]},
                }
                self._add("score", self.clock.spend(0.0)[0], score=score, intermediate=True, scorer=name)

    def add_call(self, call: ModelCall, asked: Iterable[Message], tools: Iterable[ToolSpec] = ()) -> None:
        begin, end = self.clock.spend(call.seconds)
        message = {**message_document(call.reply, len(self.pool)), "model": call.model, "source": "generate"}
        self._add(
            "model",
            begin,
            model=call.model or "unknown",
            role=None if call.role == "agent" else call.role,
            input=[],
            input_refs=self._refer(asked),
            tools=[_tool(tool) for tool in tools],
            tool_choice="auto",
            config={},
            output={
                "model": call.model,
                "choices": [{"message": message, "stop_reason": _stop_reason(call)}],
                "usage": _usage(call.usage),
                "time": call.seconds,
            },
            completed=iso(end),
            working_time=call.seconds,
        )

    def _add(self, kind: str, at: float, **more: Any) -> None:
        id = f"{self.episode.unit}/{len(self.events) + 1}"
        self.events.append({"event": kind, "uuid": id, "timestamp": iso(at), "working_start": 0.0, **more})

    def _refer(self, messages: Iterable[Message]) -> list[list[int]]:
        """Messages as ranges of the pool, each from its first to before its last place."""
        ranges: list[list[int]] = []
        for message in messages:
            place = self.places.setdefault(message, len(self.pool))
            if place == len(self.pool):
                self.pool.append(message_document(message, place))
            if ranges and ranges[-1][1] == place:
                ranges[-1][1] += 1
            else:
                ranges.append([place, place + 1])
        return ranges


def _stop_reason(call: ModelCall) -> str:
    return "tool_calls" if call.reply.calls and call.finish == "stop" else _STOPS[call.finish]


def message_document(message: Message, place: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": f"{message.digest[:12]}-{place}",
        "role": message.role,
        "content": message.content,
    }
    if message.calls:
        document["tool_calls"] = [
            {"id": call.id, "function": call.name, "arguments": call.readable, "type": "function"}
            for call in message.calls
        ]
    if message.role == "tool":
        document["tool_call_id"] = message.call_id
    if message.role == "user" and message.content.startswith(_SUMMARY):
        document["metadata"] = {"summary": True}
    return document


def _tool(tool: ToolSpec) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, **tool.parameters}
    return {"name": tool.name, "description": tool.description, "parameters": parameters}


def _usage(usage: Usage) -> dict[str, Any]:
    """Inspect counts cached input apart from the rest."""
    return {
        "input_tokens": usage.input - usage.cached,
        "output_tokens": usage.output,
        "total_tokens": usage.total,
        **({"input_tokens_cache_read": usage.cached} if usage.cache_reported else {}),
        **({"reasoning_tokens": usage.reasoning} if usage.reasoning else {}),
    }
