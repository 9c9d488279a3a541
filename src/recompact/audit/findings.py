"""What an audit finds out about one session: values that know nothing of how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from recompact.audit.measures import Point, Scheme
from recompact.values.literals import Literal
from recompact.values.masking import safe_line
from recompact.values.receipt import CompactionBill
from recompact.values.session import Info, Tally
from recompact.values.shell import Range


@dataclass(frozen=True)
class Refetch:
    """A call after a compaction that brought back what an earlier result, now dropped, had held."""

    call: str
    line: int
    position: int  # among the calls after the compaction, from 1
    chars: int
    share: float  # of the result's text
    earlier: str  # the call whose result held the largest part of it
    earlier_line: int
    age: int  # calls between that one and the compaction
    reading: bool


@dataclass(frozen=True)
class Reread:
    """Lines of a file that were read again after the compaction that dropped them."""

    range: Range
    line: int
    position: int
    earlier: Range  # the lines that were read before
    earlier_line: int


@dataclass(frozen=True)
class Failure:
    """A command that hit the same error after a compaction as it had before."""

    call: str
    line: int
    position: int
    error: str
    earlier_line: int


@dataclass(frozen=True)
class Need:
    """A literal of the dropped part that the agent used afterwards."""

    literal: Literal
    call: str
    line: int
    position: int
    covered: bool
    found_again: bool  # a result showed it after the compaction, before it was used
    lost_late: bool  # an earlier summary had it, this one does not

    @property
    def fate(self) -> str:
        """What became of a literal that the summary lacks."""
        text = "found again in a result before it was used" if self.found_again else "used without a visible source"
        return f"{text}; an earlier summary had it" if self.lost_late else text


@dataclass(frozen=True)
class ShownCall:
    """A call as a case shows it."""

    line: int
    call: str
    excerpt: str = ""
    chars: int = 0  # of its result that were known
    failed_again: bool = False


@dataclass(frozen=True)
class Scene:
    """A compaction to read: the calls before, the summary, the calls after."""

    before: tuple[ShownCall, ...]
    summary: str
    asked: str  # the user's last message before it
    after: tuple[ShownCall, ...] = ()


@dataclass(frozen=True)
class AuditedCompaction:
    """One compaction, and once that is known what followed it. Sizes are reported by the harness, or else estimated
    from characters."""

    ordinal: int
    line: int
    kind: str
    trigger: str
    identity: str
    summary_chars: int | None  # None where the file does not hold it in readable form
    dropped_calls: int  # that the measures count: with a result, and of a kind that works or reads
    kept_calls: int
    dropped_in_all: int  # calls of any kind
    kept_in_all: int
    since_edit: int | None  # calls since the last edit; None where none is before it
    reading_phase: bool
    scene: Scene
    before: int | None = None
    after: int | None = None
    estimated: bool = False
    following: int = 0  # calls after it, up to the next compaction or the end
    starts_turn: bool | None = None  # whether the user had spoken before the first call after it; None without one
    points: Mapping[str, Point] = field(default_factory=dict)  # by scheme; left out with too few calls after it
    measured: Mapping[str, int] = field(default_factory=dict)  # by scheme: calls in its window that measures count
    refetches: tuple[Refetch, ...] = ()
    rereads: tuple[Reread, ...] = ()
    failures: tuple[Failure, ...] = ()
    needs: tuple[Need, ...] = ()
    lost_rules: tuple[str, ...] = ()  # that the user had stated, and that neither the summary nor what was kept has
    bill: CompactionBill | None = None  # the least that it cost, where the file tells what the next reply read
    replies: int = 0  # of the model after it, up to the next compaction or the end, as far as the file reports them

    @property
    def readable(self) -> bool:
        return self.summary_chars is not None

    @property
    def paid(self) -> bool | None:
        """Whether so many replies came after it that it may have paid for itself; if not, it has not."""
        if self.bill is None:
            return None
        return self.bill.payback is not None and self.replies >= self.bill.payback

    @property
    def coverage(self) -> float | None:
        """The share of the literals used afterwards that the summary carried."""
        if not self.readable or not self.needs:
            return None
        return sum(need.covered for need in self.needs) / len(self.needs)


@dataclass(frozen=True)
class Session:
    """One transcript, audited."""

    path: Path
    member: str
    harness: str
    info: Info
    calls: int
    compactions: tuple[AuditedCompaction, ...]
    placebos: Mapping[str, tuple[Point, ...]]  # by scheme
    rewinds: int
    scheme: str
    tally: Tally = field(default_factory=Tally)
    copies: int = 0  # compactions that are copies of another file's
    modified: float = 0.0  # when the file was changed last, in seconds; 0 where that says nothing

    @property
    def label(self) -> str:
        """The file, and the part of it, as it may be shown."""
        return safe_line(f"{self.path.name}{f'/{self.member}' if self.member else ''}")

    def in_scheme(self, scheme: Scheme) -> Session:
        """The session measured by one scheme: details of a compaction come from the same window as its score."""
        compactions = tuple(_in_window(each, scheme.window) for each in self.compactions)
        return replace(self, scheme=scheme.name, compactions=compactions)


def _in_window(compaction: AuditedCompaction, calls: int) -> AuditedCompaction:
    return replace(
        compaction,
        refetches=tuple(each for each in compaction.refetches if each.position <= calls),
        rereads=tuple(each for each in compaction.rereads if each.position <= calls),
        failures=tuple(each for each in compaction.failures if each.position <= calls),
        needs=tuple(each for each in compaction.needs if each.position <= calls),
        scene=replace(compaction.scene, after=compaction.scene.after[:calls]),
    )
