"""What bisecting a compaction found, as a record: the pieces whose return closes the loss, and the trials behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from recompact.attribution.bisection.pieces import Piece, PieceKind
from recompact.attribution.bisection.search import Ending, Result, Trial
from recompact.attribution.bisection.sequential import Loss
from recompact.engine.store.store import Store
from recompact.values.chat import canonical
from recompact.values.outcome import BoundaryId
from recompact.values.texts import quantity

KIND = "cause"
"""The kind of unit that a cause is recorded as."""


@dataclass(frozen=True)
class CausePiece:
    """A piece of a cause: put back, or a line that was taken out."""

    kind: PieceKind
    number: int
    text: str
    tokens: int
    heading: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"

    @staticmethod
    def of(piece: Piece) -> CausePiece:
        return CausePiece(piece.kind, piece.number, piece.text, piece.tokens, piece.heading)


@dataclass(frozen=True)
class Draws:
    """The outcomes of one context's continuations, as success and steps."""

    values: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def draws(self) -> int:
        return len(self.values)

    @property
    def successes(self) -> float:
        return sum(self.values)

    @property
    def mean_steps(self) -> float:
        return sum(self.steps) / len(self.steps)

    @staticmethod
    def of(trial: Trial) -> Draws:
        return Draws(tuple(o.value for o in trial.outcomes), tuple(o.steps for o in trial.outcomes))

    def words(self, loss: Loss) -> str:
        """What came of these draws, in the terms of the loss: `3 of 4 succeed`, `12.5 steps in 4 draws`."""
        if loss == "success":
            return f"{self.successes:g} of {self.draws} succeed"
        return f"{self.mean_steps:.1f} steps in {quantity(self.draws, 'draw')}"


NO_DRAWS = Draws()


@dataclass(frozen=True)
class Cause:
    """What bisecting one compaction found. Only where `ending` is `found` do the pieces name a cause."""

    boundary: BoundaryId
    ending: Ending
    loss: Loss
    draws: int
    pieces: tuple[CausePiece, ...]
    dropped: int  # pieces that could be put back
    dropped_tokens: int
    post: Draws = NO_DRAWS  # from the context after the compaction
    whole: Draws = NO_DRAWS  # with everything put back
    closing: Draws = NO_DRAWS  # with the pieces of the cause, on fresh draws
    placebo: Draws = NO_DRAWS  # with other pieces of the same size
    reason: str = ""  # why the environment failed

    @property
    def known(self) -> bool:
        return self.ending == "found"

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    @property
    def taken_out(self) -> bool:
        """Whether the cause is a statement of the summary, and not something that it lacks."""
        return any(piece.kind == "line" for piece in self.pieces)

    @property
    def change(self) -> str:
        """What was done with the pieces."""
        if not self.taken_out:
            return "putting back"
        return "taking out" if all(piece.kind == "line" for piece in self.pieces) else "changing"

    def sentence(self) -> str:
        """What may be said, with its numbers."""
        if not self.known:
            return _NO_CAUSE[self.ending]
        what = self.change
        pieces = quantity(len(self.pieces), "piece")
        restated = any(piece.kind == "request" for piece in self.pieces)
        size = "" if self.taken_out or restated else f" ({self.tokens:,} of {self.dropped_tokens:,} dropped tokens)"
        placebo = f"; with a placebo of that size, {self.placebo.words(self.loss)}" if self.placebo.draws else ""
        return (
            f"{what} {pieces}{size} closes the loss: {self.closing.words(self.loss)} with"
            f" {'it' if len(self.pieces) == 1 else 'them'}, {self.post.words(self.loss)} without{placebo}"
        )

    def to_json(self) -> dict[str, Any]:
        trials = {name: getattr(self, name) for name in _TRIALS}
        return {
            "boundary": [self.boundary.unit, self.boundary.index],
            "ending": self.ending,
            "loss": self.loss,
            "draws": self.draws,
            "pieces": [[p.kind, p.number, p.text, p.tokens, p.heading] for p in self.pieces],
            "dropped": self.dropped,
            "dropped_tokens": self.dropped_tokens,
            **{name: [list(trial.values), list(trial.steps)] for name, trial in trials.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Cause:
        draws = {name: Draws(tuple(data[name][0]), tuple(data[name][1])) for name in _TRIALS}
        return Cause(
            BoundaryId(*data["boundary"]),
            data["ending"],
            data["loss"],
            data["draws"],
            tuple(CausePiece(*piece) for piece in data["pieces"]),
            data["dropped"],
            data["dropped_tokens"],
            post=draws["post"],
            whole=draws["whole"],
            closing=draws["closing"],
            placebo=draws["placebo"],
        )


_TRIALS = ("post", "whole", "closing", "placebo")
_NO_CAUSE: Mapping[Ending, str] = {
    "nothing dropped": "the compaction dropped nothing that could be put back",
    "not seen again": "fresh continuations from the summary show no loss, so there is nothing to explain",
    "helped": "with everything put back the agent succeeds less often: the compaction helped",
    "not closed by everything": "putting everything back does not close the loss, and no added line explains it",
    "no small part": "only more than three pieces together close the loss",
    "not confirmed": "the pieces that seemed to close the loss did not do so on fresh draws",
    "placebo closes it": "other pieces of the same size close the loss as well, so none of them is its cause",
    "out of draws": "the search used up its continuations before it could tell",
    "environment failed": "the environment failed during the search; the same command tries again",
}


def cause_of(boundary: BoundaryId, result: Result, pieces: Sequence[Piece], others: Sequence[Piece]) -> Cause:
    """The record of what a search found; `others` are lines of the summary and the request."""
    return Cause(
        boundary,
        result.ending,
        result.loss,
        result.draws,
        tuple(CausePiece.of(piece) for piece in (*pieces, *others) if piece.name in result.pieces),
        len(pieces),
        sum(piece.tokens for piece in pieces),
        Draws.of(result.post),
        Draws.of(result.whole),
        Draws.of(result.closing),
        Draws.of(result.placebo),
    )


def write_cause(store: Store, cause: Cause) -> None:
    """Record a cause, in place of an earlier one at that boundary."""
    unit = f"{KIND}/{cause.boundary}"
    store.reopen(unit)
    with store.transaction():
        store.finish(unit, KIND, canonical(cause.to_json()), 0.0)


def read_causes(store: Store) -> dict[BoundaryId, Cause]:
    """The causes on record, by boundary."""
    causes = (Cause.from_json(cast(Mapping[str, Any], store.result(unit))) for unit in store.finished(KIND))
    return {cause.boundary: cause for cause in sorted(causes, key=lambda cause: cause.boundary)}
