"""What compactions cost with a prompt cache, as far as transcripts report what the next call read and wrote."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from recompact.audit.findings import AuditedCompaction
from recompact.audit.scoring import Assessment
from recompact.values.receipt import OUTPUT, READ, WRITE
from recompact.values.texts import quantity

PRICES = f"one token read from the cache at {READ}, one written at {WRITE}, one of output at {OUTPUT:g}"


def bills(assessment: Assessment) -> Iterator[str]:
    """What all of them cost together, where files tell."""
    known = [each.compaction for each in assessment.ranked if each.compaction.bill]
    every = [each.bill for each in known if each.bill]
    if not every:
        return
    read, written = sum(bill.read for bill in every), sum(bill.written for bill in every)
    waits = [bill.payback for bill in every if bill.payback is not None]
    unpaid = sum(compaction.paid is False for compaction in known)
    last = f" (fewer followed: {unpaid} of {len(every)})" if waits else ""
    pays = (
        f"it takes at least {median(waits):.0f} calls (median) to pay for itself{last}" if waits else "none ever pays"
    )
    new, spent = median(each.written for each in every), median(each.cost for each in every)
    yield (
        f"Of {quantity(len(every), 'compaction')} whose files report the prompt cache, the next call read "
        f"{100 * read / (read + written):.0f} % of its input from the cache and wrote {new:,.0f} tokens (median). In "
        f"tokens of uncached input ({PRICES}), one cost at least {spent:,.0f} (median); {pays}. What a summary cost is "
        "not in the files: counted are its text and reading the context once."
    )


def bill(compaction: AuditedCompaction) -> str | None:
    """What one cost; None where the file does not tell."""
    if (known := compaction.bill) is None:
        return None
    calls = quantity(compaction.replies, "call")
    pays = "it never pays" if known.payback is None else f"it pays after {known.payback:,} calls at the earliest"
    return (
        f"The next call read {known.read:,} tokens from the prompt cache and wrote {known.written:,}; with its summary"
        f" it cost at least {known.cost:,.0f} tokens of uncached input, and {pays}: {calls} followed."
    )
