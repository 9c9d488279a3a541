"""How the simulated models behave: one frozen set of parameters, or a world drawn from a prior over them.

The defaults are the second edition of the embedded world. They were set from the paper's figures for no compaction,
FIFO and the plain prompt alone, before any adaptation method was run on it, and do not change afterwards: the targets,
the fit and what is off are in docs/pocket.md. The third edition is drawn: ranges with their reasons, and a draw by
number in which each parameter has its own stream of chance. A few constants are beside their code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, log
from random import Random
from typing import Any, Literal

Kind = Literal["predicate", "set", "identifier", "token", "signature", "page", "mutation", "open", "error"]
KINDS: tuple[Kind, ...] = ("predicate", "set", "identifier", "token", "signature", "page", "mutation", "open", "error")
"""Kinds of facts that a summary may keep or lose."""
ABILITIES = 7
"""Which draw of the tasks' difficulty this is: the first in which both splits come out near the shares below."""


def repair(default: Any) -> Any:
    """A parameter of the third edition, at the value that leaves the second as it was, and out of its digest."""
    return field(default=default, repr=False)


@dataclass(frozen=True)
class Traits:
    """How an agent errs: chances per step, or per occasion where it says so."""

    # What it makes of a task, the same at every attempt.
    never_easy: float = 0.01  # share of easy tasks that it always gets wrong
    never_medium: float = 0.07  # of medium ones
    never_hard: float = 0.26  # of hard ones
    unevenness: float = 4.0  # variance between tasks of how unsteady it is; the mean is 1
    # Slips of its own, times how unsteady the task makes it.
    misread: float = 0.006  # of the task as a whole, on first reading it
    stop_short: float = 0.01  # takes a list to be complete, for each page that is missing
    repeat: float = 0.007  # does a mutation again that it has just done
    skip: float = 0.007  # takes a mutation to be done that is not
    miscalculate: float = 0.01  # at the end, where the answer is a number
    # Ways that do not matter for the outcome.
    wander: float = 0.03  # looks something up that it knows already
    look_up_login: float = 0.6  # reads how a login works before it logs in
    other_order: float = 0.5  # gathers first what the usual plan gathers later
    small_pages: float = 0.3  # asks for shorter pages of lists
    # What it believes and does because a summary says so.
    believe_answer: float = 0.65  # that states an answer, on first reading it
    believe_goal: float = 0.3  # that leaves a condition of the task out
    believe_completion: float = 0.5  # that says that everything is done
    obey: float = 0.6  # that tells it to do something, each time it could
    doubt: float = 0.15  # makes a change again, where it was told to repeat what looks doubtful
    # How often it leaves its notes out of a step, where its history begins in the middle and there is no summary.
    neglect_medium: float = 0.82  # mean over medium tasks
    neglect_hard: float = 0.81  # over hard ones
    neglect_spread: float = 2.0  # concentration of the beta distribution over tasks: 2 and a mean of 0.5 is even
    # The third edition.
    wander_on: float = repair(0.0)  # looks up one more such thing, once it has begun
    even_belief: bool = repair(False)  # believes a summary at every task alike, and not as unsteadily as it slips


@dataclass(frozen=True)
class Habits:
    """How a compressor works: what it loses of each kind, and how guidance moves its attention between kinds."""

    loss: Mapping[Kind, float] = field(
        default_factory=lambda: {
            "predicate": 0.08,  # conditions read like detail
            "set": 0.007,  # tables are what the work is about
            "identifier": 0.03,  # a list without them looks as good
            "token": 0.008,  # short, and plainly of use
            "signature": 0.13,  # prose is shorter
            "page": 0.009,  # the end of a list is seldom missed, and then nobody notices
            "mutation": 0.03,  # what was done is the backbone of any record
            "open": 0.16,  # what is not done leaves no trace to copy
            "error": 0.3,  # what did not work seems to be over
        }
    )  # chance to lose a fact of the kind at one compaction, where all kinds get the same attention
    unevenness: float = 3.0  # variance between tasks of how easily things get lost in their material; the mean is 1
    attention: tuple[float, float, float] = (1.0, 1.5, 2.5)  # for a kind that is not mentioned, mentioned, demanded
    forbidden: float = 0.05  # keeps it although the guidance forbids it
    carried: float = 0.5  # of the chance to lose it, for what the previous summary has kept before
    claims: float = 0.35  # takes a total at hand for the answer, where the condition is lost
    completes: float = 0.10  # reports open changes as made, where open work is lost
    reopens: float = 0.30  # lists a login or look-up that was done among the next steps, where open work is lost
    passes_on: float = 0.8  # writes an order that the guidance has for the agent into the record
    room: int = 1250  # tokens that it aims at, whatever is demanded, where the prompt sets no lower limit
    brevity: int = 40  # tokens less for each further time that it is told to be brief
    # The third edition.
    rivalry: float = repair(1.0)  # how far a demand takes attention from other kinds: at 1, all that it gains
    detail: float = repair(0.0)  # writes a fact of a demanded kind with all there is about it, which takes room
    relapse: float = repair(0.0)  # leaves a condition out again that the last summary lost, though the task has it
    worth: Mapping[Kind, float] = field(default_factory=dict, repr=False)  # by which kinds count when room is short


@dataclass(frozen=True)
class Judgement:
    """How an optimizer reads and writes."""

    attention_span: float = 100_000.0  # tokens: of 20,000 it overlooks a fifth of what is there
    imagination: float = 200_000.0  # tokens: in 20,000 it sees a cause that is not there one time in ten
    noise: float = 0.25  # standard deviation of how telling a cause seems to it
    threshold: float = 0.1  # below which a cause does not seem telling at all
    blame: float = 0.5  # of what went wrong after a summary that it puts down to it, where it cannot compare
    takes_up: float = 0.85  # of the kinds that were diagnosed, per kind
    rare: float = 0.2  # share of the evidence below which it takes a kind up less often, in proportion
    weak_clause: float = 0.25  # words a clause so that it asks for little
    steers_agent: float = 0.15  # adds a clause or remedy that tells the agent how to act
    restructures: float = 0.3  # gives sections other headings, where the prompt leaves that open
    # The third edition.
    reads_previous: bool = repair(False)  # notices what was lost out of the previous summary, besides the segment


@dataclass(frozen=True)
class Between:
    """A range in which every value is as likely; with `by_factor` every ratio is, as for rates and sizes."""

    low: float
    high: float
    by_factor: bool = False

    def draw(self, rng: Random) -> float:
        if self.by_factor:
            return exp(rng.uniform(log(self.low), log(self.high)))
        return rng.uniform(self.low, self.high)


@dataclass(frozen=True)
class Prior:
    """What is not known about a world, by parameter; what is not here stays as in the second edition."""

    # How an agent takes a summary: from one that mostly checks against the task to one that mostly goes by its notes.
    traits: Mapping[str, Between] = field(
        default_factory=lambda: {
            "believe_answer": Between(0.3, 0.9),
            "believe_goal": Between(0.3, 0.9),
            "believe_completion": Between(0.2, 0.8),
            "obey": Between(0.3, 0.9),
            "doubt": Between(0.05, 0.3),
        }
    )
    # How far steps disperse: within a task their variance is 0.42 of their mean in the released tau2 runs (0.30 and
    # 0.55 by scope). Runs of needless look-ups, rare and short or frequent and long, in three steps: an agent without a
    # summary depends on nothing else here, so worlds of one step share what comes before the first compaction.
    wandering: tuple[tuple[float, float], ...] = ((0.02, 0.4), (0.035, 0.6), (0.05, 0.75))
    # How easily a kind is lost at one compaction. Nobody has measured this for a real compressor. The ranges span a
    # factor of eight, so that any of the kinds that decide success (conditions, pages, changes made, open work) may be
    # the one that matters most, and any of those that cost steps may be lost often or hardly ever.
    loss: Mapping[Kind, Between] = field(
        default_factory=lambda: {
            "predicate": Between(0.02, 0.16, by_factor=True),
            "set": Between(0.01, 0.08, by_factor=True),
            "identifier": Between(0.01, 0.08, by_factor=True),
            "token": Between(0.01, 0.08, by_factor=True),
            "signature": Between(0.05, 0.4, by_factor=True),
            "page": Between(0.003, 0.024, by_factor=True),
            "mutation": Between(0.008, 0.064, by_factor=True),
            "open": Between(0.04, 0.32, by_factor=True),
            "error": Between(0.1, 0.5, by_factor=True),
        }
    )
    # What a kind counts for when room is short, against what it counts for in the second edition.
    worth: Between = field(default_factory=lambda: Between(0.5, 2.0, by_factor=True))
    # How a compressor works and how far it does what it is told.
    habits: Mapping[str, Between] = field(
        default_factory=lambda: {
            # With nothing lost otherwise, room for 1,300 tokens (by the compressor's rough idea of length) binds at a
            # third of the plain prompt's compactions and for 1,500 at one in twelve; 900 ends most long tasks.
            "room": Between(1300, 1650),
            "unevenness": Between(1.0, 4.0),
            "carried": Between(0.2, 1.0),  # lost again as easily as at first, or hardly
            "relapse": Between(0.3, 0.9),
            "rivalry": Between(0.0, 0.7),  # below 1: asking for everything is not asking for nothing
            "detail": Between(0.5, 1.0),
            "forbidden": Between(0.02, 0.3),
            "passes_on": Between(0.4, 1.0),
            "claims": Between(0.2, 0.6),
            "completes": Between(0.1, 0.4),
            "reopens": Between(0.1, 0.5),
        }
    )
    demanded: Between = field(default_factory=lambda: Between(1.5, 3.0))  # attention to a kind that is demanded
    mentioned: Between = field(default_factory=lambda: Between(0.2, 0.6))  # of that, what a mere mention earns
    # How well an optimizer reads and words. It can be fitted to nothing: around the second edition's assumptions.
    judgement: Mapping[str, Between] = field(
        default_factory=lambda: {
            "attention_span": Between(50_000, 400_000, by_factor=True),
            "imagination": Between(100_000, 800_000, by_factor=True),
            "noise": Between(0.1, 0.5),
            "blame": Between(0.2, 0.8),
            "takes_up": Between(0.6, 0.95),
            "weak_clause": Between(0.1, 0.4),
            "steers_agent": Between(0.05, 0.3),
            "restructures": Between(0.1, 0.5),
        }
    )


@dataclass(frozen=True)
class World:
    """How the three simulated models behave; `number` is None for the second edition."""

    number: int | None = None
    traits: Traits = field(default_factory=Traits)
    habits: Habits = field(default_factory=Habits)
    judgement: Judgement = field(default_factory=Judgement)


@lru_cache(maxsize=64)
def draw_world(number: int) -> World:
    """The world of a number."""
    prior = Prior()

    def value(name: str, between: Between) -> float:
        return between.draw(Random(f"world {number}/{name}"))

    def values(ranges: Mapping[str, Between]) -> dict[str, float]:
        return {name: value(name, between) for name, between in ranges.items()}

    wander, wander_on = Random(f"world {number}/wandering").choice(prior.wandering)
    habits = values(prior.habits)
    demanded = value("demanded", prior.demanded)
    return World(
        number,
        Traits(**values(prior.traits), wander=wander, wander_on=wander_on, even_belief=True),
        Habits(
            **{**habits, "room": round(habits["room"])},  # type: ignore[arg-type]
            loss={kind: value(f"loss {kind}", prior.loss[kind]) for kind in KINDS},
            worth={kind: value(f"worth {kind}", prior.worth) for kind in KINDS},
            attention=(1.0, 1 + value("mentioned", prior.mentioned) * (demanded - 1), demanded),
        ),
        Judgement(**values(prior.judgement), reads_previous=True),
    )
