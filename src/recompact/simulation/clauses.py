"""How a simulated optimizer puts things: the same in many wordings, none of which a compressor has been told of."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from recompact.simulation.guidance import kinds_in
from recompact.simulation.parameters import KINDS, Kind

_DEMANDS = (
    "Keep {}.",
    "Preserve {}.",
    "Carry over {}.",
    "Retain {} without exception.",
    "Always write down {}.",
    "Never shorten or drop {}.",
    "The record must contain {}.",
    "Copy {} word for word.",
)
_MENTIONS = ("Mention {}.", "Say something about {}.", "Where it helps, refer to {}.", "Think of {}.", "Touch on {}.")
_OBJECTS: Mapping[
    Kind, tuple[tuple[str, ...], str]
] = {  # what is demanded, in several wordings, and a loose word for it
    "predicate": (
        (
            "the conditions of the task: who, since when, which ones",
            "every restriction in the request, so that a restricted group never becomes everybody",
            "the criteria that decide who and what qualifies, dates included",
            "the wording of the request with its filters",
        ),
        "conditions",
    ),
    "set": (
        (
            "the rows that were retrieved, one by one, instead of a total of them",
            "the results that were read, line by line",
            "each of the entries that a query returned, with its figures",
            "the retrieved data itself and not only a count of it",
        ),
        "retrieved data",
    ),
    "identifier": (
        ("every identifier as it appeared", "ids and email addresses, letter for letter", "the literals, such as ids"),
        "references",
    ),
    "token": (
        (
            "every usable token and password, with the app it belongs to",
            "the credentials that are still valid, in full",
            "the access tokens of all logins",
            "session tokens and passwords, character by character",
        ),
        "logins",
    ),
    "signature": (
        (
            "the signature of every API that was looked up, with its parameters",
            "how each API is called, names of parameters and defaults included",
            "what the documentation said about the parameters of a call",
            "the call form of each endpoint that has been read about",
        ),
        "documentation",
    ),
    "page": (
        (
            "which pages of a list were read and how many there are",
            "for each list, the number of the last page seen and of all pages",
            "how far pagination has got, page by page",
        ),
        "pages",
    ),
    "mutation": (
        (
            "every change that was made, exactly once and with its arguments",
            "the actions that were taken, each with the values it was made with",
            "the side effects so far, one by one, so that none of them is caused twice",
            "which payments and messages are already sent, and to whom",
        ),
        "finished work",
    ),
    "open": (
        (
            "what is still to be done, and nothing of it as if it were settled",
            "the unresolved items, apart from the settled ones",
            "what remains open, item by item",
        ),
        "what is pending",
    ),
    "error": (
        (
            "every error text with the call that caused it",
            "the failures met, in their own words",
            "what failed and why",
        ),
        "errors",
    ),
}
_NAMES: Mapping[Kind, tuple[str, ...]] = {
    "predicate": ("task conditions", "restrictions of the request", "filter criteria"),
    "set": ("retrieved records", "rows of a result", "the data that was read"),
    "identifier": ("identifiers", "ids of things", "literals"),
    "token": ("access tokens", "credentials", "login state"),
    "signature": ("API signatures", "how calls are written: parameters", "documentation that was read"),
    "page": ("pages read", "pagination", "how far a list was paged: pages"),
    "mutation": ("completed actions", "changes that were made", "side effects"),
    "open": ("unresolved work", "what remains to be done", "open items"),
    "error": ("error texts", "failures", "errors"),
}
_STEERING = (
    "Before finishing, check all results once more and repeat any call that looks doubtful.",
    "The agent should verify every result before it calls the task finished.",
    "Remind the agent to log in again before it goes on.",
    "Before each change, double-check the data against the app.",
    "Tell the agent to confirm its answer by reading the lists again, and to redo what looks wrong.",
    "When in doubt, repeat the last call.",
)


def write_clause(kind: Kind, strong: bool, rng: Random) -> str:
    """A clause that demands a kind of fact, or one that merely mentions it."""
    objects, loose = _OBJECTS[kind]
    return rng.choice(_DEMANDS).format(rng.choice(objects)) if strong else rng.choice(_MENTIONS).format(loose)


def write_name(kind: Kind, rng: Random) -> str:
    """A kind of fact in a few words."""
    return rng.choice(_NAMES[kind])


def write_order(rng: Random) -> str:
    """A rule that is meant for the agent and not for its compressor."""
    return rng.choice(_STEERING)


def kind_meant(text: str) -> Kind | None:
    """The kind of fact that a few words mean, if any."""
    if text in KINDS:
        return next(kind for kind in KINDS if kind == text)
    return next(iter(kinds_in(text)), None)
