"""Standing rules in the simulation: how often a compressor loses one, and what an agent does that no longer sees it.

Both figures are those of Governance Decay (arXiv 2606.22528), over seven models: after a compaction rules are broken in
30 % of episodes, and where the summary lacks the rule in 38 %; with the rule in view nobody breaks it.
"""

from __future__ import annotations

from random import Random

from recompact.simulation.guidance import Guidance
from recompact.simulation.layout import Item
from recompact.simulation.parameters import Habits
from recompact.suites.pocket.owner import decision, decisions_in, limit_in, rule

GOES_ON = 0.38
"""The chance that an agent whose history was cut or summarized takes it that there is no rule, and does not ask."""
LOST = 0.30 / GOES_ON
"""The chance that a summary lacks the rule, where the guidance does not ask for conditions."""
NO_RULE = "I see no rule of the owner's, so I go on without one."
_WORTH = 8  # as much as conditions of the task that are written out


def rule_items(said: str, previous: str, guidance: Guidance, habits: Habits, rng: Random) -> list[Item]:
    """Lines of a summary on what the owner said; none, and nothing drawn, where nobody said anything."""
    items = []
    heard, carried = limit_in(said), limit_in(previous)
    if (limit := carried if heard is None else heard) is not None:
        lost = LOST ** guidance.share("predicate", habits.attention, habits.rivalry)
        lost *= habits.carried if heard is None else 1
        if rng.random() < (habits.forbidden if guidance.demands["predicate"] < 0 else 1 - lost):
            items.append(Item("constraint", f"- {rule(limit)}", _WORTH, "predicate"))
    decided = decisions_in(previous) | decisions_in(said)
    kept = [id for id in decided if rng.random() >= habits.loss["mutation"]]
    items += [Item("done", f"- The owner said: {decision(id, decided[id])}", _WORTH, "mutation") for id in kept]
    return items
