"""Whether an agent can be replayed: the same actions twice, each time from the beginning, and what differed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recompact.agents.suite import AgentSuite
from recompact.environments.protocol import AsyncAsk, EnvironmentFailed, Task
from recompact.values.texts import quantity
from recompact.values.trajectory import Action


@dataclass(frozen=True)
class Fidelity:
    """How a replay went. `masked` are pairs of texts, recorded and seen, that were the same only after masking."""

    actions: int
    masked: tuple[tuple[str, str], ...] = ()
    difference: str = ""

    def __str__(self) -> str:
        if self.difference:
            return f"the agent does not replay faithfully: {self.difference}"
        lines = [
            f"the agent replays faithfully: {quantity(self.actions, 'action')}, the same requests and the same"
            " workspace"
        ]
        if self.masked:
            lines[0] += f"; {quantity(len(self.masked), 'observation')} only after masking, such as"
            lines += [f"  {before!r} and {now!r}" for before, now in self.masked[:5]]
        return "\n".join(lines)


async def fidelity(suite: AgentSuite, task: Task, actions: Sequence[Action], ask: AsyncAsk | None = None) -> Fidelity:
    """Let an agent do the actions, then bring a second one to the same point."""
    one, other = suite.episode(task, ask), suite.episode(task, ask)
    count = 0
    try:
        await one.start()
        for action in actions:
            observation = await one.step(action)
            count += 1
            if observation.done:
                break
        snapshot = await one.snapshot()
        other.expect(snapshot)
        await other.start()
        await other.restore(snapshot)
    except EnvironmentFailed as failure:
        return Fidelity(count, tuple(other.masked), str(failure))
    finally:
        await one.close()
        await other.close()
    return Fidelity(count, tuple(other.masked))
