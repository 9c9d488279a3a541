"""The frozen agent's loop, the only one: it serves collection, continuations and evaluation alike.

Comes in: an agent, an environment that was started or restored, a context, and optionally a compressor with its
budget. Goes out: a trajectory with every boundary. A continuation is a rollout that starts at a boundary's context
with no compressor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from recompact.chat import Decoding, Message, Reply, Request, Usage, canonical, user
from recompact.compressors.protocol import CompactionFailed, Compressor, due
from recompact.context import Context, Turn
from recompact.environments.protocol import EnvironmentFailed, Episode, Opening
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.protocol import ChatModel
from recompact.progress import SILENT, Progress
from recompact.tokens import TokenCounter
from recompact.trajectory import Action, Boundary, Ending, Incident, Score, Trajectory


@dataclass(frozen=True)
class Agent:
    """The frozen agent (the paper's M): a model and how it decodes. Its prompt and tools come with the environment."""

    model: ChatModel
    decoding: Decoding = Decoding(max_output_tokens=2048)


@dataclass
class _Progress:
    """What a rollout has gathered so far."""

    turns: list[Turn] = field(default_factory=list)
    boundaries: list[Boundary] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    peak: int = 0
    peak_reported: int = 0

    def spend(self, role: str, usage: Usage) -> None:
        self.usage[role] = self.usage.get(role, Usage()) + usage


async def rollout(
    *,
    task: str,
    agent: Agent,
    episode: Episode,
    opening: Opening,
    count: TokenCounter,
    context: Context | None = None,
    compressor: Compressor | None = None,
    budget: int = 4096,
    step_limit: int = 50,
    actions: Sequence[Action] = (),
    snapshots: bool = True,
    progress: Progress = SILENT,
) -> Trajectory:
    """Run the agent until the environment is done or the steps are used up.

    `actions` are those already executed when a context is given; `snapshots=False` leaves the state out of boundaries
    where nobody will continue from them. Failures of a model that are not the agent's own doing (rate limits,
    authentication) are raised: they say nothing about the agent.
    """
    context = context if context is not None else Context(opening.prefix)
    fixed = _fixed_tokens(opening, count)
    done = _Progress(actions=list(actions))
    ending: Ending = "step limit"
    error = ""
    try:
        while len(done.turns) < step_limit:
            if compressor is not None and due(context, budget):
                context = await _compact(context, compressor, budget, episode, done, snapshots)
            request = Request(context.messages, opening.tools, agent.decoding, context.digest)
            reply = await agent.model.reply(request)
            done.spend("agent", reply.usage)
            done.peak = max(done.peak, fixed + context.size)
            done.peak_reported = max(done.peak_reported, reply.usage.input)
            results, finished = await _act(reply, episode, opening, done)
            turn = Turn.measured(reply.message, results, count)
            done.turns.append(turn)
            context = context.extended(turn)
            progress.step()
            if finished:
                ending = "finished"
                break
        # Running out of steps is a failure, whatever the state happens to be.
        score = await episode.score() if ending == "finished" else Score.of(False)
    except ContextOverflow as failure:
        ending, error, score = "context overflow", str(failure), Score.of(False)
    except Refused as failure:
        ending, error, score = "refused", str(failure), Score.of(False)
    except EnvironmentFailed as failure:
        ending, error, score = "environment error", str(failure), Score.of(False)
    for role, usage in episode.usage.items():
        done.spend(role, usage)
    return Trajectory(
        task=task,
        turns=tuple(done.turns),
        boundaries=tuple(done.boundaries),
        ending=ending,
        score=score,
        context=context,
        usage=done.usage,
        peak=done.peak,
        peak_reported=done.peak_reported,
        incidents=tuple(done.incidents),
        error=error,
    )


async def _compact(
    pre: Context, compressor: Compressor, budget: int, episode: Episode, done: _Progress, snapshots: bool
) -> Context:
    """One compaction: Eq. 1's second case, recorded as a boundary."""
    step = len(done.turns)
    try:
        compaction = await compressor.compress(pre, budget)
    except (CompactionFailed, ContextOverflow, Refused) as failure:
        if isinstance(failure, CompactionFailed):
            done.spend("compressor", failure.usage)
        done.incidents.append(Incident(step, "compaction failed", str(failure)))
        return pre
    if compaction.usage.calls:
        done.spend("compressor", compaction.usage)
    done.boundaries.append(
        Boundary(
            index=len(done.boundaries) + 1,
            step=step,
            pre=pre,
            post=compaction.context,
            snapshot=await episode.snapshot() if snapshots else None,
            actions=tuple(done.actions),
            asked_again=compaction.asked_again,
            cut=compaction.cut,
        )
    )
    return compaction.context


async def _act(reply: Reply, episode: Episode, opening: Opening, done: _Progress) -> tuple[tuple[Message, ...], bool]:
    """Execute a message's calls in order; what cannot be executed is answered with an error, as an observation."""
    message = reply.message
    if not message.calls:
        if opening.text_actions and message.content.strip():
            action = Action("", text=message.content)
            observation = await episode.step(action)
            done.actions.append(action)
            return (user(observation.text),), observation.done
        return (user(_no_call(reply, opening)),), False
    known = {tool.name for tool in opening.tools}
    results: list[Message] = []
    finished = False
    for call in message.calls:
        if finished:
            results.append(Message("tool", "Error: not executed, the task was ended before.", call_id=call.id))
            continue
        try:
            if call.name not in known:
                raise ValueError(f"there is no tool {call.name!r}; the tools are {', '.join(sorted(known))}")
            action = Action.of(call)
        except ValueError as mistake:
            cut = " (the message was cut at the output limit)" if reply.finish == "length" else ""
            results.append(Message("tool", f"Error: {mistake}{cut}", call_id=call.id))
            continue
        observation = await episode.step(action)
        done.actions.append(action)
        results.append(Message("tool", observation.text, call_id=call.id))
        finished = observation.done
    return tuple(results), finished


def _no_call(reply: Reply, opening: Opening) -> str:
    names = ", ".join(tool.name for tool in opening.tools)
    if reply.finish == "length":
        return f"Error: the message was cut at the output limit before it called a tool. Call one of: {names}."
    return f"Error: the message called no tool. Each message must call one of: {names}."


def _fixed_tokens(opening: Opening, count: TokenCounter) -> int:
    """What is sent with every call besides the compressible part."""
    texts = [m.content + "".join(c.arguments for c in m.calls) for m in opening.prefix]
    texts.extend(canonical(tool.to_json()) for tool in opening.tools)
    return sum(count(text) for text in texts)
