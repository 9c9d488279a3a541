"""What the tests of tau2-bench share: where the official package and the reference figures are, and scripted people."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tau2_script import verdicts

from recompact.environments.hosted import HostedSuite
from recompact.environments.loading import host_needs
from recompact.environments.protocol import AsyncAsk
from recompact.suites.tau2 import missing
from recompact.suites.tau2.installation import PYTHON_VARIABLE
from recompact.values.chat import Reply, Request, Usage, assistant

ROOT = Path(__file__).parents[2]
REFERENCE = Path(os.environ.get("RECOMPACT_TAU2_REFERENCE") or ROOT.parent / "shared" / "data" / "tau2")

needs_tau2 = pytest.mark.skipif(
    not os.environ.get(PYTHON_VARIABLE) or missing() is not None,
    reason=f"tau2-bench is not installed: {PYTHON_VARIABLE} names no interpreter that has it (docs/tau2.md)",
)
needs_reference = pytest.mark.skipif(
    not (REFERENCE / "expected.json").is_file(), reason="no reference figures: set RECOMPACT_TAU2_REFERENCE"
)


@cache
def expected() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((REFERENCE / "expected.json").read_text())
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
