"""A run as ATIF trajectories (1.7), the format of Harbor: one document for each episode.

A compaction is a system step that says what replaced the context; what it kept follows as copied steps, and the
compressor's calls are embedded trajectories. H and B of its verdict stand under `extra.recompact`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from recompact.engine.store.store import Store
from recompact.presentation.exchange.episodes import Compaction, Episode, ModelCall, Step, unique_names, verdict_facts
from recompact.values.chat import Message, ToolCall, Usage
from recompact.values.context import Context, Turn, summary_message
from recompact.version import __version__

VERSION = "ATIF-v1.7"
_SOURCES = {"system": "system", "user": "user", "assistant": "agent", "tool": "user"}


def write(store: Store, episodes: Iterable[Episode], directory: Path) -> None:
    name = unique_names()
    for episode in episodes:
        document = trajectory_document(episode, store.path.stem)
        text = json.dumps(document, ensure_ascii=False, indent=1)
        (directory / f"{name(episode.unit)}.json").write_text(text + "\n", encoding="utf-8", errors="replace")


def trajectory_document(episode: Episode, session: str) -> dict[str, Any]:
    steps = _Steps(episode)
    steps.add_context(episode.start)
    for part in episode.parts:
        if isinstance(part, Step):
            steps.add_step(part)
        elif isinstance(part, Compaction):
            steps.add_compaction(part)
        else:
            steps.add_call(part)
    usage = sum(episode.trajectory.usage.values(), Usage())
    tools = [{"type": "function", "function": tool.to_json()} for tool in episode.tools]
    return {
        "schema_version": VERSION,
        "session_id": session,
        "trajectory_id": episode.unit,
        "agent": _agent("recompact", episode.model, **({"tool_definitions": tools} if tools else {})),
        "steps": steps.steps,
        "final_metrics": {
            "total_prompt_tokens": usage.input,
            "total_completion_tokens": usage.output,
            "total_cached_tokens": usage.cached,
            "total_steps": len(steps.steps),
            "extra": {"score": episode.trajectory.score.value, "success": episode.trajectory.score.success},
        },
        "extra": {"recompact": episode.facts},
        **({"subagent_trajectories": steps.embedded} if steps.embedded else {}),
    }


def _agent(name: str, model: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "version": __version__, **({"model_name": model} if model else {}), **more}


@dataclass
class _Steps:
    """The steps of one document while it is written; turns are numbered from 0, those of the start included."""

    episode: Episode
    steps: list[dict[str, Any]] = field(default_factory=list)
    embedded: list[dict[str, Any]] = field(default_factory=list)
    taken: int = 0  # turns so far

    def add_context(self, context: Context) -> None:
        """What the first step sees. A continuation copied all of it from the trajectory that it continues."""
        copied = bool(context.summary or context.turns)
        for message in context.prefix:
            self._add_message(message, copied)
        if context.summary is not None:
            self._add_message(summary_message(context.summary.text), copied)
        self.taken = len(context.turns)
        self._add_kept(context)

    def _add_kept(self, context: Context) -> None:
        """Pins and the latest turns, which have been steps before."""
        for pin in context.pinned:
            self._add_message(pin.message, copied=True)
        for number, turn in enumerate(context.turns, self.taken - len(context.turns)):
            self._add_turn(turn, number, copied=True)

    def add_step(self, step: Step) -> None:
        self._add_turn(step.turn, self.taken, call=step.call)
        self.taken += 1

    def add_compaction(self, compaction: Compaction) -> None:
        post = compaction.boundary.post
        summary = post.summary.text if post.summary else None
        refs = [self._keep_call(call, f"compaction-{compaction.boundary.index}") for call in compaction.calls]
        result = {"content": summary, **({"subagent_trajectory_ref": refs} if refs else {})}
        kind = ("compaction", "replace") if summary is not None else ("pruning", "truncate")
        sizes = {"tokens_before": compaction.boundary.pre.size, "tokens_after": post.size}
        self._add(
            "system",
            "Context compaction performed",
            observation={"results": [result]} if summary is not None or refs else None,
            extra={
                "context_management": {"type": kind[0], "boundary": kind[1], **sizes},
                "recompact": verdict_facts(compaction),
            },
        )
        self._add_kept(post)

    def add_call(self, call: ModelCall) -> None:
        """A call that belongs to no step: what it was for, and its own trajectory."""
        ref = self._keep_call(call, f"call-{len(self.embedded) + 1}")
        results = [{"content": call.reply.content, "subagent_trajectory_ref": [ref]}]
        managed = {"context_management": {"type": "injection", "boundary": "append"}}
        self._add("system", f"The {call.role} was asked.", observation={"results": results}, extra=managed)

    def _add(self, source: str, message: str, **more: Any) -> None:
        present = {key: value for key, value in more.items() if value not in (None, [], {}, False)}
        self.steps.append({"step_id": len(self.steps) + 1, "source": source, "message": message, **present})

    def _add_message(self, message: Message, copied: bool) -> None:
        self._add(_SOURCES[message.role], message.content, is_copied_context=copied)

    def _add_turn(self, turn: Turn, number: int, *, copied: bool = False, call: ModelCall | None = None) -> None:
        ids = {each.id: self._call_id(each, number, place) for place, each in enumerate(turn.message.calls)}
        results = [
            {**({"source_call_id": ids[each.call_id]} if each.call_id in ids else {}), "content": each.content}
            for each in turn.results
            if each.role == "tool"
        ]
        self._add(
            "agent",
            turn.message.content,
            model_name=call and call.model,
            tool_calls=[
                {"tool_call_id": ids[each.id], "function_name": each.name, "arguments": each.readable}
                for each in turn.message.calls
            ],
            observation={"results": results} if results else None,
            metrics=call and _metrics(call),
            llm_call_count=1 if call else None,
            is_copied_context=copied,
        )
        for each in turn.results:
            if each.role != "tool":
                self._add_message(each, copied)

    def _call_id(self, call: ToolCall, number: int, place: int) -> str:
        """As the agent wrote it where that is unique in the episode."""
        return call.id if self._unique else f"{number + 1}.{place + 1}-{call.id}"

    @cached_property
    def _unique(self) -> bool:
        turns = [*self.episode.start.turns, *self.episode.trajectory.turns]
        ids = [call.id for turn in turns for call in turn.message.calls]
        return len(set(ids)) == len(ids) and all(ids)

    def _keep_call(self, call: ModelCall, name: str) -> dict[str, Any]:
        """Keep a call as a trajectory of its own, and return the reference to it."""
        inner = _Steps(self.episode)
        for message in call.asked or ():
            inner._add_message(message, copied=False)
        inner._add("agent", call.reply.content, metrics=_metrics(call), llm_call_count=1)
        id = f"{self.episode.unit}/{name}.{len(self.embedded) + 1}"
        agent = _agent(call.role, call.model)
        self.embedded.append({"schema_version": VERSION, "trajectory_id": id, "agent": agent, "steps": inner.steps})
        return {"trajectory_id": id}


def _metrics(call: ModelCall) -> dict[str, Any]:
    usage = call.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        **({"cached_tokens": usage.cached} if usage.cache_reported else {}),
        **({"extra": {"reasoning_tokens": usage.reasoning}} if usage.reasoning else {}),
    }
