"""One conversation: the official orchestrator, whose agent says and does what our agent's actions say. An action is one
message: a tool call, or text to the simulated customer. Both are followed through to the answer, so it is always the
agent's turn between two actions. A write changes an order and its user, so a snapshot holds a handful of the database's
1,550 entities.

The parts of the installed tau2-bench are imported late, with our models in place of its own. The package asks models in
two places, the simulated user and the judge of natural-language assertions; both take the function `generate` from
their module, where it is replaced by ours. So its client library is never used: a stand-in keeps it from being loaded,
which takes most of the import time.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from recompact.environments.protocol import Ask, Observation, Opening
from recompact.errors import InputError
from recompact.suites.tau2.installation import OTHER_PACKAGE, WAY_OUT
from recompact.values.chat import Decoding, Message, Reply, Request, ToolSpec, assistant, system, user
from recompact.values.trajectory import Action, Score

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


class Database:
    """A database of the benchmark, with a copy that stays as it was at the start."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._pristine = database.model_copy(deep=True)
        fields = type(database).model_fields
        self._tables = [name for name in fields if isinstance(getattr(database, name), dict)]
        if rest := set(fields) - set(self._tables):
            raise ValueError(f"this version of tau2-bench is not supported: its database has {', '.join(sorted(rest))}")

    def changes(self) -> dict[str, dict[str, Any]]:
        """By table and id: each entity that differs from the start, or None where it is gone."""
        changes = {}
        for table in self._tables:
            now, before = getattr(self._database, table), getattr(self._pristine, table)
            differing = [id for id in {**before, **now} if now.get(id) != before.get(id)]
            if differing:
                changes[table] = {id: now[id].model_dump(mode="json") if id in now else None for id in differing}
        return changes

    def reset(self) -> None:
        for table, entities in self.changes().items():
            now, before = getattr(self._database, table), getattr(self._pristine, table)
            for id in entities:
                _put(now, id, before[id].model_copy(deep=True) if id in before else None)

    def put_back(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Return the database to where `changes` was taken, whatever has happened since."""
        self.reset()
        for table, entities in changes.items():
            now = getattr(self._database, table)
            kind = type(next(iter(now.values())))
            for id, entity in entities.items():
                _put(now, id, kind.model_validate(entity) if entity is not None else None)


def _put(table: dict[str, Any], id: str, entity: Any) -> None:
    if entity is None:
        table.pop(id, None)
    else:
        table[id] = entity


def messages_of(official: Official, data: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Messages of the benchmark, from JSON."""
    kinds = {
        "system": official.messages.SystemMessage,
        "user": official.messages.UserMessage,
        "assistant": official.messages.AssistantMessage,
        "tool": official.messages.ToolMessage,
    }
    return [kinds[each["role"]].model_validate(each) for each in data]


class Tau2Environment:
    """An `Environment` whose snapshots hold what differs from the start."""

    snapshots = "state"
    ask: Ask | None = None  # set by the host: the customer and the judge are models of the harness

    def __init__(self, official: Official, task: Any, *, max_errors: int, temperature: float | None) -> None:
        self._official, self._task, self._max_errors = official, task, max_errors
        official.answer_with(self._ask, temperature)
        self._environment = official.retail.get_environment()
        self._database = Database(self._environment.tools.db)
        self._agent = _RelayAgent()
        self._orchestrator = self._fresh()

    def start(self) -> Opening:
        self._database.reset()
        self._orchestrator = self._fresh()
        self._orchestrator.initialize()
        greeting = self._orchestrator.message.content
        self._hop()
        prompt = self._official.agent.LLMAgent(
            tools=self._environment.get_tools(), domain_policy=self._environment.get_policy(), llm=""
        ).system_prompt
        first_text = self._orchestrator.message.content
        return Opening((system(prompt), assistant(greeting), user(first_text)), self._tools(), text_actions=True)

    def step(self, action: Action) -> Observation:
        orchestrator = self._orchestrator
        if orchestrator.done:
            return Observation("Error: the conversation is over.", done=True, error=True)
        if not action.name and not action.text.strip():
            return Observation("Error: the message is empty.", error=True)
        self._agent.message = self._message(action)
        self._hop()  # to the customer or the shop
        self._hop()  # and back
        answer = orchestrator.message
        return Observation(answer.content or "", done=orchestrator.done, error=bool(getattr(answer, "error", False)))

    def score(self) -> Score:
        orchestrator = self._orchestrator
        reasons = self._official.simulation.TerminationReason
        reason = orchestrator.termination_reason or reasons.MAX_STEPS
        criteria = self._task.evaluation_criteria
        judged = self._official.tasks.RewardType.NL_ASSERTION in criteria.reward_basis
        kinds = self._official.evaluator.EvaluationType
        reward = self._official.evaluator.evaluate_simulation(
            self._simulation(reason),
            self._task,
            kinds.ALL_WITH_NL_ASSERTIONS if judged else kinds.ALL,
            solo_mode=False,
            domain=DOMAIN,
        )
        details = {
            "termination": reason.value,
            "basis": [basis.value for basis in criteria.reward_basis],
            "reward": {kind.value: value for kind, value in (reward.reward_breakdown or {}).items()},
            "database": self._environment.get_db_hash(),
            "tool_errors": orchestrator.num_errors,
        }
        if reward.nl_assertions:
            details["assertions"] = [check.met for check in reward.nl_assertions]
            if len(reward.nl_assertions) < len(criteria.nl_assertions):
                raise ValueError(
                    f"the judge decided {len(reward.nl_assertions)} of {len(criteria.nl_assertions)} assertions"
                )
        elif judged and criteria.nl_assertions and reward.reward_breakdown is not None:
            raise ValueError(f"the judge decided none of {len(criteria.nl_assertions)} assertions")
        return Score(reward.reward >= 1.0, float(reward.reward), details)

    def snapshot(self) -> bytes:
        orchestrator = self._orchestrator
        reason = orchestrator.termination_reason
        state = {
            "database": self._database.changes(),
            "trajectory": [message.model_dump(mode="json") for message in orchestrator.trajectory],
            "customer": orchestrator.user_state.model_dump(mode="json"),
            "steps": orchestrator.step_count,
            "errors": orchestrator.num_errors,
            "roles": [orchestrator.from_role.value, orchestrator.to_role.value],
            "termination": reason.value if reason is not None else None,
        }
        return json.dumps(state, ensure_ascii=False).encode("utf-8", "surrogatepass")

    def restore(self, state: bytes) -> None:
        data = json.loads(state.decode("utf-8", "surrogatepass"))
        official = self._official
        orchestrator = self._orchestrator = self._fresh()
        self._database.put_back(data["database"])
        orchestrator.trajectory = messages_of(official, data["trajectory"])
        customer = data["customer"]
        orchestrator.user_state = official.user.UserState(
            system_messages=messages_of(official, customer["system_messages"]),
            messages=messages_of(official, customer["messages"]),
        )
        orchestrator.message = orchestrator.trajectory[-1]
        orchestrator.step_count, orchestrator.num_errors = data["steps"], data["errors"]
        orchestrator.from_role, orchestrator.to_role = map(official.orchestrator.Role, data["roles"])
        orchestrator.done = data["termination"] is not None
        if orchestrator.done:
            orchestrator.termination_reason = official.simulation.TerminationReason(data["termination"])

    def close(self) -> None:
        pass

    # -- the conversation -----------------------------------------------------------------------------------------

    def _fresh(self) -> Any:
        """An orchestrator at the start. The harness counts steps, so its own limit is out of reach."""
        official = self._official
        customer = official.user.UserSimulator(llm="recompact", instructions=str(self._task.user_scenario))
        return official.orchestrator.Orchestrator(
            domain=DOMAIN,
            agent=self._agent,
            user=customer,
            environment=self._environment,
            task=self._task,
            max_steps=10**9,
            max_errors=self._max_errors,
        )

    def _hop(self) -> None:
        """Hand one message over, and end by the official rule after too many errors."""
        orchestrator = self._orchestrator
        orchestrator.step()
        to_environment = orchestrator.to_role == self._official.orchestrator.Role.ENV
        if orchestrator.num_errors >= orchestrator.max_errors and not to_environment:
            orchestrator.done = True
            orchestrator.termination_reason = self._official.simulation.TerminationReason.TOO_MANY_ERRORS

    def _message(self, action: Action) -> Any:
        messages = self._official.messages
        if not action.name:
            return messages.AssistantMessage(role="assistant", content=action.text)
        number = f"call-{len(self._orchestrator.trajectory)}"
        call = messages.ToolCall(id=number, name=action.name, arguments=dict(action.arguments), requestor="assistant")
        return messages.AssistantMessage(role="assistant", tool_calls=[call])

    def _tools(self) -> tuple[ToolSpec, ...]:
        schemas: Sequence[Any] = [tool.openai_schema["function"] for tool in self._environment.get_tools()]
        return tuple(ToolSpec(each["name"], each.get("description", ""), each["parameters"]) for each in schemas)

    def _simulation(self, reason: Any) -> Any:
        """The record that is judged. Its messages are in the order of the conversation, whatever the clocks said."""
        messages = [message.model_copy() for message in self._orchestrator.trajectory]
        for number, message in enumerate(messages):
            message.turn_idx = number
        return self._official.simulation.SimulationRun(
            id=str(uuid.uuid4()),
            task_id=self._task.id,
            start_time=messages[0].timestamp,
            end_time=messages[-1].timestamp,
            duration=0.0,
            termination_reason=reason,
            messages=messages,
        )

    def _ask(self, role: str, request: Request) -> Reply:
        if self.ask is None:
            raise RuntimeError(f"nobody answers for the {role}: the environment runs in a host ([suite] host = true)")
        return self.ask(role, request)


class _RelayAgent:
    """The agent as the orchestrator sees it: it says what it was given."""

    message: Any = None

    def get_init_state(self, message_history: Sequence[Any] | None = None) -> None:
        return None

    def generate_next_message(self, message: Any, state: None) -> tuple[Any, None]:
        return self.message, None

    def is_stop(self, message: Any) -> bool:
        return False

    def set_seed(self, seed: int) -> None:
        pass

    def stop(self, message: Any = None, state: None = None) -> None:
        pass
