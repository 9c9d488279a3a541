"""What the score is worth: how it varied with the true effect of each compaction, where that effect is known.

`benchmarks/audit_truth.py` measured it in the embedded world, and wrote `worth.json` beside this module: figures, and
the sentences that they support, which say that they come from a simulation.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

FILE = "worth.json"


@cache
def worth_of_score() -> tuple[str, ...]:
    """The sentences that come with this version."""
    return tuple(json.loads((files("recompact.audit") / FILE).read_text(encoding="utf-8"))["sentences"])
