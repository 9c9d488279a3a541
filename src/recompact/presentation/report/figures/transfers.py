"""A template with models that it was not adapted with, beside the reference and no compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recompact.evaluation.metrics import Metrics, metric
from recompact.evaluation.transfer import Transfer, Transferred, describe_models, transfer_table
from recompact.presentation.report.figures.figure import Figure
from recompact.presentation.report.figures.style import (
    FINE,
    INK,
    NAME,
    WIDE,
    drawing,
    grid,
    legend,
    legend_height,
    looks,
    powers,
    short_label,
)

DASHES = (0, (3, 2))

MARKERS = "os^vDP"

Group = tuple[Transferred, list[Transferred]]
"""The rows that differ only in the arm, and one of them for what they have in common."""


def transfer_figure(transfer: Transfer) -> Figure:
    groups = _groups(transfer.rows)
    arm_looks = _looks(transfer.rows)
    lines = max(len(_title(group, groups).splitlines()) for group, _ in groups)
    dots = max(len(_dots(rows)) for _, rows in groups)
    wide = max(2.9, 0.6 + (0.3 + 0.4 * dots) * len(groups))
    high = 2.0 + 0.12 * lines
    across = wide * len(transfer.keys) <= WIDE  # side by side, or one below the other
    shape = (1, len(transfer.keys)) if across else (len(transfer.keys), 1)
    width = wide * shape[1]
    names = [*(short_label(name, NAME) for name in arm_looks), "no compaction"]
    with drawing(width, high * shape[0] + legend_height(names, width)) as figure:
        panels = figure.subplots(*shape, sharey=across, squeeze=False).flat
        for axes, key in zip(panels, transfer.keys, strict=True):
            for n, (_, rows) in enumerate(groups):
                _group(axes, n, rows, key, arm_looks)
            axes.set_title(f"{powers(metric(key).title)}, %")
            axes.set_xticks(range(len(groups)), [_title(group, groups) for group, _ in groups], fontsize=FINE)
            axes.set_xlim(-0.6, len(groups) - 0.4)
            axes.tick_params(axis="x", length=0)
            grid(axes)
        _legend(figure, transfer, arm_looks)
    return Figure("transfer", "A template with other models", _caption(transfer), figure, transfer_table(transfer))


def _groups(rows: Sequence[Transferred]) -> list[Group]:
    groups: dict[tuple[str, str | None, int | None], list[Transferred]] = {}
    for row in rows:
        groups.setdefault((row.setting, row.scope, row.budget), []).append(row)
    return [(alike[0], alike) for alike in groups.values()]


def _title(group: Transferred, groups: Sequence[Group]) -> str:
    """The models, or the run where they are not known or do not identify it; then scope and budget."""
    models = describe_models(group.models)
    alike = {other.setting for other, _ in groups if describe_models(other.models) == models}
    unclear = group.models is None or len(alike) > 1
    lines = [group.setting] if unclear else models.replace(", compressor ", "\n+ ").split("\n")
    lines += [group.scope] if group.scope else []
    lines += [f"{group.budget:,}"] if len({other.budget for other, _ in groups}) > 1 and group.budget else []
    return "\n".join(short_label(line, 18) for line in lines)


def _looks(rows: Sequence[Transferred]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each arm, references first."""
    names = list(dict.fromkeys([*(row.against for row in rows), *(row.arm for row in rows)]))
    colors = looks(names)
    return {name: (colors[name].color, MARKERS[n % len(MARKERS)]) for n, name in enumerate(names)}


def _group(axes: Any, n: int, rows: Sequence[Transferred], key: str, arm_looks: Mapping[str, tuple[str, str]]) -> None:
    """The reference, the arms beside it, and a dashed line for no compaction."""
    dots = _dots(rows)
    step = 0.64 / len(dots)
    half = step * (len(dots) - 1) / 2
    whole = 100 * rows[0].none.means[key] if rows[0].none else None
    if whole is not None:
        axes.plot([n - half - 0.15, n + half + 0.15], [whole] * 2, color=INK, lw=1.0, ls=DASHES, zorder=1)
    for place, (name, metrics) in enumerate(dots):
        x, y = n - half + step * place, 100 * metrics.means[key]
        color, marker = arm_looks[name]
        spread = 100 * metrics.spread.get(key, 0.0) if key == "acc" else 0.0
        low, high = max(y - spread, 0), min(y + spread, 100)
        axes.plot([x, x], [low, high], color=color, lw=1.1, alpha=0.7)
        axes.plot([x], [y], marker, color=color, markersize=5)
        below = whole is not None and y < whole  # away from the dashed line
        end, up = (low, -8) if below else (high, 8)
        at: Any = {"textcoords": "offset points", "fontsize": FINE, "ha": "center", "va": "center", "color": color}
        axes.annotate(f"{y:.1f}", (x, end), (0, up), **at)
    axes.margins(y=0.15)


def _dots(rows: Sequence[Transferred]) -> list[tuple[str, Metrics]]:
    """References first, each once, then the arms."""
    return list(({row.against: row.reference for row in rows} | {row.arm: row.moved for row in rows}).items())


def _legend(figure: Any, transfer: Transfer, arm_looks: Mapping[str, tuple[str, str]]) -> None:
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], color=color, marker=marker, ls="none", markersize=5, label=short_label(name, NAME))
        for name, (color, marker) in arm_looks.items()
    ]
    if any(row.none for row in transfer.rows):
        entries.append(Line2D([], [], color=INK, lw=1.0, ls=DASHES, label="no compaction"))
    legend(figure, entries)


def _caption(transfer: Transfer) -> str:
    words = "Bars: standard deviation of Acc across runs; dashed: no compaction."
    adapted = sorted({describe_models(row.adapted_with) for row in transfer.rows if row.adapted_with})
    words += f" Adapted with {'; '.join(short_label(name, 60) for name in adapted)}." if adapted else ""
    key = transfer.keys[-1]
    for row in transfer.rows[:4]:
        d = row.comparison.of(key)
        where = describe_models(row.models) if row.models else row.setting
        words += f" {short_label(where, 60)}{f', {row.scope}' if row.scope else ''}: {short_label(row.arm)} changes"
        words += (
            f" {powers(metric(key).title)} by {100 * d.delta:+.1f} points ({100 * d.low:+.1f} to {100 * d.high:+.1f})."
        )
    return words
