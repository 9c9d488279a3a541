"""The parts of the installed tau2-bench that the adapter uses, imported late, with our models in place of its own.

Runs in the environment's host. The package asks models in two places, the simulated user and the judge of
natural-language assertions; both take the function `generate` from their module, where it is replaced by ours. So its
client library is never used: a stand-in keeps it from being loaded, which takes most of the import time.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from recompact.errors import InputError
from recompact.suites.tau2.installation import OTHER_PACKAGE, WAY_OUT
from recompact.values.chat import Decoding, Message, Reply, Request

DOMAIN = "retail"
USER, JUDGE = "user", "judge"

_CLIENT = ("litellm", "litellm.caching", "litellm.caching.caching", "litellm.main")
_MODULES = {
    "messages": "tau2.data_model.message",
    "simulation": "tau2.data_model.simulation",
    "tasks": "tau2.data_model.tasks",
    "retail": "tau2.domains.retail.environment",
    "orchestrator": "tau2.orchestrator.orchestrator",
    "agent": "tau2.agent.llm_agent",
    "user": "tau2.user.user_simulator",
    "evaluator": "tau2.evaluator.evaluator",
    "judge": "tau2.evaluator.evaluator_nl_assertions",
}

Asking = Callable[[str, Request], Reply]


class Official(SimpleNamespace):
    """Modules of the installed package, by what they are for, as named above."""

    def answer_with(self, ask: Asking, temperature: float | None) -> None:
        """Let the simulated user and the judge ask `ask` from now on."""
        for module, role in ((self.user, USER), (self.judge, JUDGE)):
            if not hasattr(module, "generate"):
                raise InputError(f"this version of tau2-bench is not supported: {module.__name__} has no `generate`")
            module.generate = self._asking(ask, role, temperature)

    def _asking(self, ask: Asking, role: str, temperature: float | None) -> Callable[..., Any]:
        def generate(model: str = "", messages: Sequence[Any] = (), tools: Any = None, **settings: Any) -> Any:
            if tools:
                raise NotImplementedError("a simulated user with tools of its own; the retail domain has none")
            spoken_messages = tuple(Message(each.role, each.content or "") for each in messages)
            reply = ask(role, Request(spoken_messages, (), Decoding(temperature=temperature)))
            content = reply.message.content
            return self.messages.AssistantMessage(
                role="assistant", content=without_fence(content) if role == JUDGE else content
            )

        return generate


def load(data: str | Path | None = None) -> Official:
    """The installed package. Raises InputError with the way out if it is missing or another one has that name."""
    if data is not None:
        os.environ["TAU2_DATA_DIR"] = str(data)
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it would fetch a list of prices when loaded
    with_stand_in = [name for name in _CLIENT if name not in sys.modules]
    for name in with_stand_in:
        sys.modules[name] = _StandIn(name)
    try:
        return _import_official()
    except (ImportError, AttributeError, TypeError):  # this version uses more of it: load the real one
        for name in [name for name in sys.modules if name in with_stand_in or name.partition(".")[0] == "tau2"]:
            del sys.modules[name]
    try:
        return _import_official()
    except ImportError as error:
        raise InputError(
            f"tau2-bench cannot be imported by {sys.executable} ({error}); {OTHER_PACKAGE}: {WAY_OUT}"
        ) from None


def _import_official() -> Official:
    _quiet()
    return Official(**{name: importlib.import_module(module) for name, module in _MODULES.items()})


def _quiet() -> None:
    """The package logs every message, and its log goes to ours."""
    logger = importlib.import_module("loguru").logger
    logger.remove()
    logger.add(sys.stderr, level="WARNING")


class _StandIn(ModuleType):
    """A package that has whatever is imported from it. None of it does anything."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def without_fence(text: str) -> str:
    """JSON that a model has put in a code fence, without the fence.

    >>> without_fence('```json\\n{"results": []}\\n```')
    '{"results": []}'
    """
    lines = text.strip().splitlines()
    fenced = len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```"
    return "\n".join(lines[1:-1]) if fenced else text
