"""Where the last turn has an observation over the budget: the trigger of the scope `observation`, before the agent has
read it."""

from __future__ import annotations

from dataclasses import dataclass

from recompact.triggers.protocol import Moment
from recompact.values.tokens import TokenCounter


@dataclass(frozen=True)
class LongObservation:
    """Looks at the last turn alone, so it has work to do even where there is no other."""

    count: TokenCounter
    least_turns: int = 1

    def __call__(self, moment: Moment) -> bool:
        last = moment.context.last
        if last is None or last.tokens <= moment.budget:
            return False
        return any(self.count(result.content) > moment.budget for result in last.results)
