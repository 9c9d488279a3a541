"""How an episode opens, with a stand-in for the official package: it need not be installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

from fakes import Scripted

from recompact.compressors.prompted import Prompted
from recompact.suites.tau2.environment import Official, Tau2Environment
from recompact.values.chat import assistant
from recompact.values.context import Context, Turn
from recompact.values.template import default_template
from recompact.values.tokens import counter

GREETING, FIRST = "Hi! How can I help you today?", "The lamp that I ordered\ncame broken."


class _Orchestrator:
    """Greets when it begins; at the first hop the customer says what is wrong."""

    num_errors, max_errors, done, to_role = 0, 10, False, "agent"
    message: Any = None

    def __init__(self, **settings: Any) -> None:
        pass

    def initialize(self) -> None:
        self.message = SimpleNamespace(content=GREETING)

    def step(self) -> None:
        self.message = SimpleNamespace(content=FIRST)


class _Shop:
    model_fields: ClassVar = {"orders": None}
    orders: ClassVar[dict[str, Any]] = {}

    def model_copy(self, deep: bool) -> _Shop:
        return self


def _environment() -> Tau2Environment:
    tool = SimpleNamespace(openai_schema={"function": {"name": "get_order", "parameters": {"type": "object"}}})
    shop = SimpleNamespace(tools=SimpleNamespace(db=_Shop()), get_tools=lambda: [tool], get_policy=lambda: "Be kind.")
    asking = SimpleNamespace(generate=None, UserSimulator=lambda **_: None)
    modules: dict[str, Any] = {
        "retail": SimpleNamespace(get_environment=lambda: shop),
        "orchestrator": SimpleNamespace(Orchestrator=_Orchestrator, Role=SimpleNamespace(ENV="env")),
        "agent": SimpleNamespace(LLMAgent=lambda domain_policy, **_: SimpleNamespace(system_prompt=domain_policy)),
        "user": asking,
        "judge": asking,
    }
    return Tau2Environment(Official(**modules), SimpleNamespace(user_scenario=""), max_errors=10, temperature=None)


async def test_the_compressor_sees_what_the_customer_said_first_and_no_task_line() -> None:
    opening = _environment().start()
    assert [(message.role, message.content) for message in opening.prefix] == [
        ("system", "Be kind."),
        ("assistant", GREETING),
        ("user", FIRST),
    ]
    assert opening.text_actions
    turns = tuple(Turn(assistant(f"Step {n}."), (), 10) for n in range(3))
    model = Scripted("A summary.")
    compressor = Prompted(model, default_template(), counter(), task="Serve the customer of a shop.")
    await compressor.compress(Context(opening.prefix, None, turns), 1_000)
    prompt = model.requests[0].messages[-1].content
    assert FIRST in prompt
    assert "Serve the customer" not in prompt
