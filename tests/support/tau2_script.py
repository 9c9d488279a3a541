"""What a scripted judge says, for tests in this interpreter and in the one that has tau2-bench."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable


def verdicts(prompt: str, judge: Callable[[str], bool]) -> str:
    """The JSON that the official judge is asked for; the assertions stand as a Python list at the end of its prompt."""
    assertions = ast.literal_eval(prompt.rpartition("expectedOutcomes:")[2].strip())
    results = [{"expectedOutcome": each, "reasoning": "", "metExpectation": judge(each)} for each in assertions]
    return f"```json\n{json.dumps({'results': results})}\n```"
