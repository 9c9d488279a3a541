"""A suite of our own for end-to-end tests: a code stands on the first of several desks and opens a safe at the end.

The models are scripts. The compressor keeps codes only where the prompt asks for identifiers to be copied.
"""

from __future__ import annotations

import json
import re
from typing import Any

from recompact import Reply, Request, ToolCall, Usage, assistant, function_suite

DESKS = 6
HOUSES = range(1, 7)


def code_of(house: int) -> str:
    return f"zx-{4711 + 37 * house}"


def visit(house: int, desk: int) -> str:
    """Look at a desk."""
    code = f" The code of the safe is {code_of(house)}." if desk == 1 else ""
    return f"Desk {desk} of {DESKS}: {'paper ' * 60}{code}"


def unlock(house: int, code: str, state: dict[str, Any]) -> str:
    """Try a code on the safe."""
    if code != code_of(house):
        return "It stays shut."
    state["open"].append(house)
    return "It opens."


def _opened(house: int) -> Any:
    return lambda answer, state: house in state["open"]


suite = function_suite(
    "safes",
    [visit, unlock],
    {f"safe-{n}": (f"Visit desks 1 to {DESKS} of house {n}, then open its safe.", _opened(n)) for n in HOUSES},
    state={"open": []},
)


class Burglar:
    """Visits desk after desk, then uses the code if it sees one. Asked for a summary, it writes a short one."""

    name = "burglar"

    async def reply(self, request: Request) -> Reply:
        view = "\n".join(message.content for message in request.messages)
        code = re.search(r"zx-\d+", view)
        house = int((re.findall(r"of house (\d+)", view) or ["0"])[0])
        visited = max(map(int, re.findall(rf"Desk (\d) of {DESKS}", view)), default=0)
        if not request.tools:
            return self._said(assistant(self._summary(view, code[0] if code else "", visited)))
        if visited < DESKS:
            return self._said(self._call("visit", house=house, desk=visited + 1))
        if code and "It opens" not in view:
            return self._said(self._call("unlock", house=house, code=code[0]))
        return self._said(self._call("finish", answer="done"))

    def _summary(self, view: str, code: str, visited: int) -> str:
        kept = f"\nThe code is {code}." if code and "every identifier" in view else ""
        return f"## Critical Context\nDesk {visited} of {DESKS} was the last one.{kept}"

    def _call(self, name: str, **arguments: Any) -> Any:
        return assistant("", ToolCall("c", name, json.dumps(arguments)))

    def _said(self, message: Any) -> Reply:
        return Reply(message, Usage(input=10, output=5, calls=1), model=self.name)
