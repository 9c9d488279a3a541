"""The frozen agent's loop, the only one: it serves collection, continuations and evaluation alike.

A continuation is a rollout that starts at a boundary's context, in a restored environment, with no compressor. An arm
may continue a start that it shares with others: a rollout that stopped where the first compaction was due.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from recompact.compressors.protocol import CompactionFailed, Compressor
from recompact.environments.protocol import EnvironmentFailed, Episode, Opening, Task
from recompact.errors import InputError
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.protocol import ChatModel
from recompact.triggers.protocol import FUTILE, Schedule
from recompact.values.chat import Decoding, Message, Reply, Request, Usage, canonical, user
from recompact.values.context import Context, Turn
from recompact.values.progress import SILENT, Progress
from recompact.values.recall import RECALL, recall
from recompact.values.texts import keep_ends
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import (
    COMPACTION_FAILED,
    Action,
    Boundary,
    Ending,
    Incident,
    Score,
    Snapshot,
    Trajectory,
)

if TYPE_CHECKING:
    from recompact.models.journal import UnitCalls

ODD_REPLY = "odd reply"
"""The kind of incident where something about a reply had to be changed before it could be kept."""

OBSERVATION_TOKENS = 20_000
"""How many tokens of one observation an agent is shown, unless [run] observation_tokens says otherwise."""


BY_BUDGET = Schedule()
NOTED = "Noted."
"""What an agent is told that asked for a compaction: it sees itself whether there was one."""


@dataclass(frozen=True)
class Agent:
    """The frozen agent (the paper's M): a model and how it decodes. Its prompt and tools come with the environment."""

    model: ChatModel
    decoding: Decoding = Decoding(max_output_tokens=2048)


async def run_episode(
    task: Task,
    episode: Episode,
    agent: Agent,
    *,
    count: TokenCounter,
    step_limit: int = 50,
    compressor: Callable[[Opening], Compressor | None] = lambda opening: None,
    budget: int = 4096,
    schedule: Schedule = BY_BUDGET,
    snapshot: Snapshot | None = None,
    context: Context | None = None,
    actions: Sequence[Action] = (),
    earlier: Sequence[Turn] = (),
    snapshots: bool = True,
    observation_tokens: int = OBSERVATION_TOKENS,
    progress: Progress = SILENT,
    start: Trajectory | None = None,
    stop_when_due: bool = False,
) -> Trajectory:
    """Play an episode, from its start or from a `snapshot`, until the environment is done or the steps are used up, or
    with `stop_when_due` until a compaction is due. `start` is the trajectory of such a stop, to go on from.

    `actions` and `earlier` turns are those from before a context that is given; `snapshots=False` leaves the state out
    of boundaries where nobody will continue from them. The agent sees both ends of an observation over
    `observation_tokens`. An environment that fails to start or to restore ends its own trajectory, with no steps.
    Failures of a model that are not the agent's own doing (rate limits, authentication) are raised: they say nothing
    about it.
    """
    if start is not None:
        (stop,) = start.boundaries
        snapshot = stop.snapshot
    try:
        if snapshot is not None and (expect := getattr(episode, "expect", None)) is not None:
            expect(snapshot)  # some begin differently where they know what they will be restored to
        opening = await episode.start()
        if snapshot is not None:
            await episode.restore(snapshot)
        rollout = _Rollout(
            agent,
            episode,
            _with_own_tools(opening, schedule),
            count,
            budget,
            schedule,
            observation_tokens,
            context=Context(opening.prefix) if context is None else context,
            actions=list(actions),
            earlier=earlier,
        )
        if start is not None:
            rollout.go_on_from(start)
        work = None if stop_when_due else compressor(opening)
        trajectory = await _roll_out(rollout, task.id, work, step_limit, snapshots, progress, stop_when_due)
    except EnvironmentFailed as failure:
        empty = Context(()) if context is None else context
        trajectory = Trajectory(task.id, (), (), "environment error", Score.of(False), empty, error=str(failure))
    finally:
        await episode.close()
    for change, times in sorted(episode.changes.items()):
        text = f"{change}, {times} times" if times > 1 else change
        trajectory = trajectory.with_incident(Incident(trajectory.steps, "value changed", text))
    return trajectory


def with_differences(trajectory: Trajectory, calls: UnitCalls) -> Trajectory:
    """The trajectory, with an incident where a resumed unit diverged from its journal."""
    if not calls.differed:
        return trajectory
    text = "when it was resumed the environment answered differently, so part of it was run anew"
    return trajectory.with_incident(Incident(0, "replay differed", text))


@dataclass
class _Rollout:
    """One rollout: who plays what, by which rules, how far it has got, and what it has gathered for the trajectory."""

    agent: Agent
    episode: Episode
    opening: Opening
    count: TokenCounter
    budget: int
    schedule: Schedule
    observation_tokens: int
    context: Context
    actions: list[Action]
    earlier: Sequence[Turn]  # from before a context that was given
    turns: list[Turn] = field(default_factory=list)
    boundaries: list[Boundary] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    peak: int = 0
    peak_reported: int = 0
    shared: int = 0
    compacted: int | None = None  # calls that had been made when a compaction was last tried
    futile: int = 0  # compactions in a row that gained nothing

    @cached_property
    def fixed(self) -> int:
        """Tokens that are sent with every call besides the compressible part."""
        texts = [m.content + "".join(c.arguments for c in m.calls) for m in self.opening.prefix]
        texts.extend(canonical(tool.to_json()) for tool in self.opening.tools)
        return sum(self.count(text) for text in texts)

    @cached_property
    def tool_names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.opening.tools)

    @cached_property
    def own_tools(self) -> frozenset[str]:
        """Tools whose calls the loop answers itself; no environment hears of them."""
        return frozenset(tool.name for tool in self.schedule.tools)

    @property
    def due(self) -> bool:
        """Whether to compact before the next call."""
        return self.futile < FUTILE and self.schedule.due(self.context, self.budget, len(self.turns), self.compacted)

    def go_on_from(self, start: Trajectory) -> None:
        """Be where another rollout stopped because a compaction was due."""
        (stop,) = start.boundaries
        self.context, self.actions, self.turns = stop.pre, list(stop.actions), list(start.turns)
        self.incidents, self.usage = list(start.incidents), dict(start.usage)
        self.peak, self.peak_reported, self.shared = start.peak, start.peak_reported, start.steps

    def spend(self, role: str, usage: Usage) -> None:
        self.usage[role] = self.usage.get(role, Usage()) + usage

    def note(self, kind: str, *texts: str, step: int = 0) -> None:
        self.incidents += [Incident(step or len(self.turns), kind, text) for text in texts]

    async def boundary(self, post: Context, state: bool, asked_again: bool = False, cut: bool = False) -> Boundary:
        """A compaction here, with everything that a rollout needs to go on from there."""
        snapshot = await self.episode.snapshot() if state else None
        number, actions = len(self.boundaries) + 1, tuple(self.actions)
        return Boundary(number, len(self.turns), self.context, post, snapshot, actions, asked_again, cut)


async def _roll_out(
    rollout: _Rollout,
    task: str,
    compressor: Compressor | None,
    step_limit: int,
    snapshots: bool,
    progress: Progress,
    stop_when_due: bool,
) -> Trajectory:
    """Run the agent to the end. Running out of steps is a failure, whatever state the environment is in, unless its
    benchmark judges that state."""
    ending: Ending = "step limit"
    score, error = Score.of(False), ""
    try:
        while len(rollout.turns) < step_limit:
            if stop_when_due and rollout.due:
                ending = "compaction due"
                rollout.boundaries.append(await rollout.boundary(rollout.context, state=True))
                break
            if compressor is not None and rollout.due:
                await _compact(rollout, compressor, snapshots)
            finished = await _step(rollout)
            progress.step()
            if finished:
                ending, score = "finished", await rollout.episode.score()
                break
        else:
            if rollout.opening.judged_at_limit:
                score = await rollout.episode.score()
    except ContextOverflow as failure:
        ending, error = "context overflow", str(failure)
    except Refused as failure:
        ending, error = "refused", str(failure)
    except EnvironmentFailed as failure:
        ending, error = "environment error", str(failure)
    for role, usage in rollout.episode.usage.items():
        rollout.spend(role, usage)
    return Trajectory(
        task=task,
        turns=tuple(rollout.turns),
        boundaries=tuple(rollout.boundaries),
        ending=ending,
        score=score,
        context=rollout.context,
        usage=rollout.usage,
        peak=rollout.peak,
        peak_reported=rollout.peak_reported,
        incidents=tuple(rollout.incidents),
        error=error,
        shared=rollout.shared,
    )


async def _step(rollout: _Rollout) -> bool:
    """One message of the agent with its results; whether it ended the episode."""
    context, agent = rollout.context, rollout.agent
    reply = await agent.model.reply(Request(context.messages, rollout.opening.tools, agent.decoding, context.digest))
    rollout.spend("agent", reply.usage)
    rollout.note(ODD_REPLY, *reply.notes)
    rollout.peak = max(rollout.peak, rollout.fixed + context.size)
    rollout.peak_reported = max(rollout.peak_reported, reply.usage.input)
    results, finished = await _act(rollout, reply)
    turn = Turn.measured(reply.message, tuple(_shorten_result(rollout, result) for result in results), rollout.count)
    rollout.turns.append(turn)
    rollout.context = context.extended(turn)
    return finished


async def _compact(rollout: _Rollout, compressor: Compressor, snapshots: bool) -> None:
    """One compaction: Eq. 1's second case, recorded as a boundary. One that gains nothing is refused."""
    pre = rollout.context
    rollout.compacted = len(rollout.turns)
    try:
        compaction = await compressor.compress(pre, rollout.budget)
    except (CompactionFailed, ContextOverflow, Refused) as failure:
        if isinstance(failure, CompactionFailed):
            rollout.spend("compressor", failure.usage)
            rollout.note(ODD_REPLY, *failure.notes)
        rollout.note(COMPACTION_FAILED, str(failure))
        return
    if compaction.usage.calls:
        rollout.spend("compressor", compaction.usage)
    rollout.note(ODD_REPLY, *compaction.notes)
    if not rollout.schedule.gains(pre.size, compaction.context.size):
        rollout.futile += 1
        rollout.note(COMPACTION_FAILED, _futile(pre, compaction.context, rollout.futile))
        return
    rollout.futile = 0
    boundary = await rollout.boundary(compaction.context, snapshots, compaction.asked_again, compaction.cut)
    rollout.boundaries.append(boundary)
    rollout.context = compaction.context


def _futile(pre: Context, post: Context, times: int) -> str:
    ended = f"; after {times} like this in a row nothing more is compacted here" if times >= FUTILE else ""
    return f"it gained too little: {pre.size:,} tokens would have become {post.size:,}{ended}"


async def _act(rollout: _Rollout, reply: Reply) -> tuple[tuple[Message, ...], bool]:
    """Execute a message's calls in order; what cannot be executed is answered with an error, as an observation."""
    message, opening = reply.message, rollout.opening
    if not message.calls:
        if opening.text_actions and (opening.empty_actions or message.content.strip()):
            action = Action("", text=message.content)
            observation = await rollout.episode.step(action)
            rollout.actions.append(action)
            return (user(observation.text),), observation.done
        return (user(_no_call(reply, opening)),), False
    results: list[Message] = []
    finished = False
    for call in message.calls:
        if finished:
            results.append(Message("tool", "Error: not executed, the task was ended before.", call_id=call.id))
            continue
        try:
            if call.name not in rollout.tool_names:
                names = ", ".join(sorted(rollout.tool_names))
                raise ValueError(f"there is no tool {call.name!r}; the tools are {names}")
            action = Action.of(call)
        except ValueError as mistake:
            hint = " (the message was cut at the output limit)" if reply.finish == "length" else ""
            results.append(Message("tool", f"Error: {mistake}{hint}", call_id=call.id))
            continue
        if call.name in rollout.own_tools:
            results.append(Message("tool", _own_answer(rollout, action), call_id=call.id))
            continue
        observation = await rollout.episode.step(action)
        rollout.actions.append(action)
        results.append(Message("tool", observation.text, call_id=call.id))
        finished = observation.done
    return tuple(results), finished


def _with_own_tools(opening: Opening, schedule: Schedule) -> Opening:
    """With the tools that the loop itself offers."""
    names = {tool.name for tool in opening.tools}
    if taken := [tool.name for tool in schedule.tools if tool.name in names]:
        raise InputError(f"the environment has a tool {taken[0]!r} of its own: the loop cannot offer one of that name")
    return replace(opening, tools=(*opening.tools, *schedule.tools)) if schedule.tools else opening


def _own_answer(rollout: _Rollout, action: Action) -> str:
    """What the loop answers to a call of one of its own tools."""
    if action.name != RECALL.name:
        return NOTED
    query = action.arguments.get("query")
    if not isinstance(query, str) or not query.strip():
        return "Error: recall needs a query, a text to look for."
    shown = set(rollout.context.turns)
    dropped = [turn for turn in (*rollout.earlier, *rollout.turns) if turn not in shown]
    return recall(query, dropped, rollout.schedule.recall, rollout.count)


def _shorten_result(rollout: _Rollout, result: Message) -> Message:
    """A result that fits the cap; the cut is marked in it and counted as an incident."""
    limit = rollout.observation_tokens
    text, omitted = keep_ends(result.content, limit, rollout.count)
    if not omitted:
        return result
    cut = f"an observation of about {limit + omitted:,} tokens was cut to {limit:,} ([run] observation_tokens)"
    rollout.note("observation cut", cut, step=len(rollout.turns) + 1)
    return replace(result, content=text)


def _no_call(reply: Reply, opening: Opening) -> str:
    names = ", ".join(tool.name for tool in opening.tools)
    if not names and reply.message.content.strip():
        return "Error: text does nothing here, and there is no tool to call."
    if not names:
        cut = " (it was cut at the output limit)" if reply.finish == "length" else ""
        return f"Error: the message was empty{cut}. Answer with text: there are no tools."
    if reply.finish == "length":
        return f"Error: the message was cut at the output limit before it called a tool. Call one of: {names}."
    return f"Error: the message called no tool. Each message must call one of: {names}."
