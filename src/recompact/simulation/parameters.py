"""The parameters that the simulated models behave by, in one frozen place; a few constants are beside their code.

The defaults are the second edition of the embedded world. They were set from the paper's figures for no compaction,
FIFO and the plain prompt alone, before any adaptation method was run on it, and do not change afterwards: the targets,
the fit and what is off are in docs/pocket.md. The third edition is drawn: `recompact.simulation.prior`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
