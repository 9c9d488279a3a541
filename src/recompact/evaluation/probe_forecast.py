"""What probes will take, before any model is asked."""

from __future__ import annotations

from collections.abc import Sequence

from recompact.engine.config import Config
from recompact.engine.forecast import Amount, Forecast, Work, scale_usage, with_price
from recompact.evaluation.arms import PROMPTED, Arm
from recompact.evaluation.probes import CompactionPoint
from recompact.evaluation.probing import PLANTED
from recompact.values.chat import Usage
from recompact.values.texts import quantity


def forecast_probes(
    config: Config, points: Sequence[CompactionPoint], arms: Sequence[Arm], *, ask: bool, judge: bool
) -> Forecast:
    """What it takes, if nothing of it was done before."""
    asking = [point for point in points if point.probes]
    prompted = [arm for arm in arms if PROMPTED in arm.kind]
    works = []
    if prompted:
        usages = [
            Usage(size, point.budget or config.compressor.budget, calls=1)
            for point in asking
            for size in (point.pre.size, sum(turn.tokens for turn in point.following))
            if size
        ]
        total = scale_usage({"compressor": sum(usages, Usage())}, len(prompted))
        works.append(Work("compact", "compaction", 0, Amount(len(prompted) * len(asking), total)))
    questions = sum(len(point.probes) for point in asking)
    if ask:
        sizes = [
            len(point.probes) * (point.pre.size + (len(arms) + 1) * (point.budget or config.compressor.budget))
            for point in asking
        ]
        number = questions * (len(arms) + 2)
        works.append(
            Work("ask", "question", 0, Amount(number, {"agent": Usage(sum(sizes), 20 * number, calls=number)}))
        )
    if judge:
        open_questions = sum(len(point.probes) - len(point.facts) for point in asking)
        number = (len(arms) + 2) * open_questions + 4 * PLANTED
        usage = {"optimizer": Usage(300 * number, 2 * number, calls=number)}
        works.append(Work("judge", "verdict", 0, Amount(number, usage)))
    basis = f"{quantity(len(asking), 'compaction')} with {quantity(questions, 'probe')}, and budgets that are used up"
    return with_price(Forecast(tuple(works), basis), config)


def forecast_pairs(config: Config, points: Sequence[CompactionPoint], arms: Sequence[Arm], pairs: int) -> Forecast:
    """What a gate by probes takes, if it takes all its pairs and none was compacted before."""
    prompted = sum(PROMPTED in arm.kind for arm in arms)
    written = [point.budget or config.compressor.budget for point in points]
    usage = Usage(sum(point.pre.size for point in points), sum(written), calls=len(points))
    total = scale_usage({"compressor": usage}, prompted * pairs / max(1, len(points)))
    work = Work(f"gate, at most {pairs:,} pairs", "compaction", 0, Amount(2 * pairs, total if prompted else {}))
    basis = f"the mean of {quantity(len(points), 'compaction')}, and budgets that are used up"
    return with_price(Forecast((work,), basis), config)
