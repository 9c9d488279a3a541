"""Tables for the terminal. They show records and compute nothing that the records do not say."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from recompact.store.runs import Overview, TrajectoryRow
from recompact.texts import visible


def overview_table(runs: Sequence[Overview]) -> Table:
    """Runs at a glance, means over their trajectories. Simulated ones are marked."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("run", overflow="fold")
    table.add_column("suite, compressor")
    for name in ("tasks", "success", "steps", "compac-\ntions", "peak", "tokens"):
        table.add_column(name, justify="right")
    for run in runs:
        n = run.trajectories
        table.add_row(
            Text(run.name + "*" * run.simulated),
            Text(f"{run.suite}, {run.compressor}"),
            str(n),
            f"{run.success / n:.1%}" if n else "-",
            f"{run.steps / n:.1f}" if n else "-",
            f"{run.compactions / n:.1f}" if n else "-",
            f"{run.peak / 1000:.2f}k" if n else "-",
            f"{sum(run.tokens.values()) / 1e6:.2f}M",
        )
    captions = ["* simulated models"] * any(run.simulated for run in runs)
    for run in runs:
        captions += [f"{run.name} skips {', '.join(run.skipped)}"] * bool(run.skipped)
        captions += [f"{run.name}: {run.set_aside} units were set aside"] * bool(run.set_aside)
    if captions:
        table.caption = Text("\n".join(map(visible, captions)))
        table.caption_justify = "left"
    return table


def trajectory_table(rows: Sequence[TrajectoryRow]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("task")
    table.add_column("outcome")
    for name in ("steps", "compactions", "peak", "tokens"):
        table.add_column(name, justify="right")
    table.add_column("ending")
    for row in rows:
        table.add_row(
            Text(row.task),
            Text("success", "green") if row.success else Text("failure", "red"),
            str(row.steps),
            str(row.compactions),
            f"{row.peak:,}",
            f"{sum(usage.total for usage in row.usage.values()):,}",
            row.ending + (f", {row.incidents} incidents" if row.incidents else ""),
        )
    return table
