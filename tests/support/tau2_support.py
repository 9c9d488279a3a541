"""What the tests of tau2-bench share: where the official package and the reference figures are, and scripted people."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from needs import TAU2_REFERENCE
from tau2_script import verdicts

from recompact.environments.hosted import HostedSuite
from recompact.environments.loading import host_needs
from recompact.environments.protocol import AsyncAsk
from recompact.values.chat import Reply, Request, Usage, assistant


@cache
def expected() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((TAU2_REFERENCE / "expected.json").read_text())
    return figures


def hosted(options: dict[str, Any] | None = None, timeout: float = 60.0) -> HostedSuite:
    needs = host_needs("tau2-retail", options or {})
    assert needs is not None
    return HostedSuite("tau2-retail", needs.options, Path(), needs.python, timeout)


def customer(*lines: str, stop: str = "Thank you. ###STOP###", judge: Callable[[str], bool] | None = None) -> AsyncAsk:
    """Says these lines in turn, then stops; as a judge it decides each assertion by `judge`."""

    async def ask(role: str, request: Request) -> Reply:
        usage = Usage(sum(len(m.content) for m in request.messages) // 4, 5, calls=1)
        if role == "judge":
            assert judge is not None
            return Reply(assistant(verdicts(request.messages[-1].content, judge)), usage)
        before = sum(message.role == "assistant" for message in request.messages)
        return Reply(assistant(lines[before] if before < len(lines) else stop), usage)

    return ask
