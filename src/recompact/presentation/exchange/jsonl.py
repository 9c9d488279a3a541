"""A run as JSON lines, in Recompact's own words: one line for each episode, with everything that is known of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recompact.engine.store.store import Store
from recompact.presentation.exchange.episodes import Compaction, Episode, ModelCall, Step, usage_facts, verdict_facts
from recompact.values.context import Context


def write(store: Store, episodes: Iterable[Episode], directory: Path) -> None:
    with (directory / "episodes.jsonl").open("w", encoding="utf-8", errors="replace") as file:
        for episode in episodes:
            file.write(json.dumps(episode_document(episode), ensure_ascii=False) + "\n")


def episode_document(episode: Episode) -> dict[str, Any]:
    return {
        **episode.facts,
        "model": episode.model,
        "tools": [tool.to_json() for tool in episode.tools],
        "start": _context(episode.start),
        "parts": [_part(part) for part in episode.parts],
    }


def _part(part: Step | Compaction | ModelCall) -> dict[str, Any]:
    if isinstance(part, ModelCall):
        return {"type": "call", **_call(part)}
    if isinstance(part, Step):
        messages = [message.to_json() for message in part.turn.messages]
        return {"type": "step", "messages": messages, "call": part.call and _call(part.call)}
    return {
        "type": "compaction",
        **verdict_facts(part),
        "pre": _context(part.boundary.pre),
        "post": _context(part.boundary.post),
        "calls": [_call(call) for call in part.calls],
    }


def _call(call: ModelCall) -> dict[str, Any]:
    return {
        "role": call.role,
        "model": call.model,
        **({"asked": [message.to_json() for message in call.asked]} if call.asked is not None else {}),
        "reply": call.reply.to_json(),
        "usage": usage_facts(call.usage),
        "finish": call.finish,
        "seconds": call.seconds,
    }


def _context(context: Context) -> list[dict[str, Any]]:
    return [message.to_json() for message in context.messages]
