"""The frozen agent's loop, the only one: it serves collection, continuations and evaluation alike.

A continuation is a rollout that starts at a boundary's context, in a restored environment, with no compressor. An arm
may continue a start that it shares with others: a rollout that stopped where the first compaction was due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from recompact.compressors.protocol import CompactionFailed, Compressor
from recompact.environments.protocol import EnvironmentFailed, Episode, Opening
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
from recompact.values.trajectory import COMPACTION_FAILED, Action, Boundary, Ending, Incident, Score, Trajectory

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


@dataclass
class _State:
    """How far a rollout has got: its context, and what it has gathered for the trajectory."""

    context: Context
    turns: list[Turn] = field(default_factory=list)
    boundaries: list[Boundary] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    peak: int = 0
    peak_reported: int = 0
    shared: int = 0
    earlier: tuple[Turn, ...] = ()  # from before a context that was given
    compacted: int | None = None  # calls that had been made when a compaction was last tried
    futile: int = 0  # compactions in a row that gained nothing

    def dropped(self) -> list[Turn]:
        """The turns that the context no longer shows as they were."""
        shown = set(self.context.turns)
        return [turn for turn in (*self.earlier, *self.turns) if turn not in shown]

    def due(self, schedule: Schedule, budget: int) -> bool:
        """Whether to compact before the next call."""
        return self.futile < FUTILE and schedule.due(self.context, budget, len(self.turns), self.compacted)

    @staticmethod
    def after(start: Trajectory) -> _State:
        """Where a rollout stopped because a compaction was due."""
        stop = start.boundaries[-1]
        return _State(
            context=stop.pre,
            turns=list(start.turns),
            actions=list(stop.actions),
            incidents=list(start.incidents),
            usage=dict(start.usage),
            peak=start.peak,
            peak_reported=start.peak_reported,
            shared=start.steps,
        )

    def spend(self, role: str, usage: Usage) -> None:
        self.usage[role] = self.usage.get(role, Usage()) + usage

    def trajectory(self, task: str, ending: Ending, score: Score, error: str) -> Trajectory:
        return Trajectory(
            task=task,
            turns=tuple(self.turns),
            boundaries=tuple(self.boundaries),
            ending=ending,
            score=score,
            context=self.context,
            usage=self.usage,
            peak=self.peak,
            peak_reported=self.peak_reported,
            incidents=tuple(self.incidents),
            error=error,
            shared=self.shared,
        )


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
    schedule: Schedule = BY_BUDGET,
    step_limit: int = 50,
    actions: Sequence[Action] = (),
    earlier: Sequence[Turn] = (),
    snapshots: bool = True,
    observation_tokens: int = OBSERVATION_TOKENS,
    progress: Progress = SILENT,
    start: Trajectory | None = None,
    stop_when_due: bool = False,
) -> Trajectory:
    """Run the agent until the environment is done or the steps are used up, or with `stop_when_due` until a compaction
    is due. `start` is such a rollout, which this one continues.

    `actions` and `earlier` turns are those from before a context that is given; `snapshots=False` leaves the state out
    of boundaries where nobody will continue from them. The agent sees both ends of an observation over
    `observation_tokens`. Failures of a model that are not the agent's own doing (rate limits, authentication) are
    raised: they say nothing about it.
    """
    given = context if context is not None else Context(opening.prefix)
    state = _State(given, actions=list(actions), earlier=tuple(earlier)) if start is None else _State.after(start)
    opening, own = _with_own_tools(opening, schedule), _OwnTools(schedule, count)
    fixed = _fixed_tokens(opening, count)
    # Running out of steps is a failure, whatever state the environment is in, unless its benchmark judges that state.
    ending: Ending = "step limit"
    score, error = Score.of(False), ""
    try:
        while len(state.turns) < step_limit:
            if stop_when_due and state.due(schedule, budget):
                ending = "compaction due"
                state.boundaries.append(await _stop(episode, state))
                break
            if compressor is not None and state.due(schedule, budget):
                state.context = await _compact(compressor, budget, schedule, episode, state, snapshots)
            finished = await _step(agent, episode, opening, count, fixed, state, observation_tokens, own)
            progress.step()
            if finished:
                ending, score = "finished", await episode.score()
                break
        else:
            if opening.judged_at_limit:
                score = await episode.score()
    except ContextOverflow as failure:
        ending, error = "context overflow", str(failure)
    except Refused as failure:
        ending, error = "refused", str(failure)
    except EnvironmentFailed as failure:
        ending, error = "environment error", str(failure)
    for role, usage in episode.usage.items():
        state.spend(role, usage)
    return state.trajectory(task, ending, score, error)


async def _step(
    agent: Agent,
    episode: Episode,
    opening: Opening,
    count: TokenCounter,
    fixed: int,
    state: _State,
    observation_tokens: int,
    own: _OwnTools,
) -> bool:
    """One message of the agent with its results; whether it ended the episode."""
    context = state.context
    reply = await agent.model.reply(Request(context.messages, opening.tools, agent.decoding, context.digest))
    state.spend("agent", reply.usage)
    state.incidents += [Incident(len(state.turns), ODD_REPLY, note) for note in reply.notes]
    state.peak = max(state.peak, fixed + context.size)
    state.peak_reported = max(state.peak_reported, reply.usage.input)
    results, finished = await _act(reply, episode, opening, state, own)
    results = tuple(_shorten_result(result, observation_tokens, count, state) for result in results)
    turn = Turn.measured(reply.message, results, count)
    state.turns.append(turn)
    state.context = context.extended(turn)
    return finished


async def _compact(
    compressor: Compressor, budget: int, schedule: Schedule, episode: Episode, state: _State, snapshots: bool
) -> Context:
    """One compaction: Eq. 1's second case, recorded as a boundary. One that gains nothing is refused."""
    pre, step = state.context, len(state.turns)
    state.compacted = step
    try:
        compaction = await compressor.compress(pre, budget)
    except (CompactionFailed, ContextOverflow, Refused) as failure:
        if isinstance(failure, CompactionFailed):
            state.spend("compressor", failure.usage)
            state.incidents += [Incident(step, ODD_REPLY, note) for note in failure.notes]
        state.incidents.append(Incident(step, COMPACTION_FAILED, str(failure)))
        return pre
    if compaction.usage.calls:
        state.spend("compressor", compaction.usage)
    state.incidents += [Incident(step, ODD_REPLY, note) for note in compaction.notes]
    if not schedule.gains(pre.size, compaction.context.size):
        state.futile += 1
        state.incidents.append(Incident(step, COMPACTION_FAILED, _futile(pre, compaction.context, state.futile)))
        return pre
    state.futile = 0
    state.boundaries.append(
        Boundary(
            index=len(state.boundaries) + 1,
            step=step,
            pre=pre,
            post=compaction.context,
            snapshot=await episode.snapshot() if snapshots else None,
            actions=tuple(state.actions),
            asked_again=compaction.asked_again,
            cut=compaction.cut,
        )
    )
    return compaction.context


def _futile(pre: Context, post: Context, times: int) -> str:
    ended = f"; after {times} like this in a row nothing more is compacted here" if times >= FUTILE else ""
    return f"it gained too little: {pre.size:,} tokens would have become {post.size:,}{ended}"


async def _stop(episode: Episode, state: _State) -> Boundary:
    """The place where a compaction is due, with everything that a rollout needs to go on from there."""
    context, actions = state.context, tuple(state.actions)
    return Boundary(1, len(state.turns), context, context, await episode.snapshot(), actions)


async def _act(
    reply: Reply, episode: Episode, opening: Opening, state: _State, own: _OwnTools
) -> tuple[tuple[Message, ...], bool]:
    """Execute a message's calls in order; what cannot be executed is answered with an error, as an observation."""
    message = reply.message
    if not message.calls:
        if opening.text_actions and (opening.empty_actions or message.content.strip()):
            action = Action("", text=message.content)
            observation = await episode.step(action)
            state.actions.append(action)
            return (user(observation.text),), observation.done
        return (user(_no_call(reply, opening)),), False
    tool_names = {tool.name for tool in opening.tools}
    results: list[Message] = []
    finished = False
    for call in message.calls:
        if finished:
            results.append(Message("tool", "Error: not executed, the task was ended before.", call_id=call.id))
            continue
        try:
            if call.name not in tool_names:
                raise ValueError(f"there is no tool {call.name!r}; the tools are {', '.join(sorted(tool_names))}")
            action = Action.of(call)
        except ValueError as mistake:
            hint = " (the message was cut at the output limit)" if reply.finish == "length" else ""
            results.append(Message("tool", f"Error: {mistake}{hint}", call_id=call.id))
            continue
        if (answer := own.answer(action, state)) is not None:
            results.append(Message("tool", answer, call_id=call.id))
            continue
        observation = await episode.step(action)
        state.actions.append(action)
        results.append(Message("tool", observation.text, call_id=call.id))
        finished = observation.done
    return tuple(results), finished


def _with_own_tools(opening: Opening, schedule: Schedule) -> Opening:
    """With the tools that the loop itself offers."""
    names = {tool.name for tool in opening.tools}
    if taken := [tool.name for tool in schedule.tools if tool.name in names]:
        raise InputError(f"the environment has a tool {taken[0]!r} of its own: the loop cannot offer one of that name")
    return replace(opening, tools=(*opening.tools, *schedule.tools)) if schedule.tools else opening


@dataclass(frozen=True)
class _OwnTools:
    """Calls that the loop answers itself; no environment hears of them."""

    schedule: Schedule
    count: TokenCounter

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.schedule.tools)

    def answer(self, action: Action, state: _State) -> str | None:
        """None where it is no such call."""
        if action.name not in self._names:
            return None
        if action.name != RECALL.name:
            return NOTED
        query = action.arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return "Error: recall needs a query, a text to look for."
        return recall(query, state.dropped(), self.schedule.recall, self.count)


def _shorten_result(result: Message, limit: int, count: TokenCounter, state: _State) -> Message:
    """A result that fits the cap; the cut is marked in it and counted as an incident."""
    text, omitted = keep_ends(result.content, limit, count)
    if not omitted:
        return result
    text_of_incident = (
        f"an observation of about {limit + omitted:,} tokens was cut to {limit:,} ([run] observation_tokens)"
    )
    state.incidents.append(Incident(len(state.turns) + 1, "observation cut", text_of_incident))
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


def _fixed_tokens(opening: Opening, count: TokenCounter) -> int:
    """What is sent with every call besides the compressible part."""
    texts = [m.content + "".join(c.arguments for c in m.calls) for m in opening.prefix]
    texts.extend(canonical(tool.to_json()) for tool in opening.tools)
    return sum(count(text) for text in texts)
