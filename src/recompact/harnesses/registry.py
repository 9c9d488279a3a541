"""The harnesses that prompts can be imported from."""

from __future__ import annotations

from recompact.harnesses.packages import Harness

HARNESSES = {
    harness.name: harness
    for harness in (
        Harness(
            "openclaw",
            "openclaw",
            "javascript",
            "npm install openclaw",
            notes=(
                "These are the prompts of compaction mode `default`. Mode `safeguard` puts its instructions together"
                " at run time; they are not imported.",
            ),
        ),
        Harness("pi", "@earendil-works/pi-coding-agent", "javascript", "npm install @earendil-works/pi-coding-agent"),
        Harness(
            "hermes",
            "hermes-agent",
            "python",
            "pip install hermes-agent",
            parts=("first", "update"),  # it sends one user message and no system prompt
            names=(
                ("content_to_summarize", "history"),
                ("self._previous_summary", "previous_summary"),
                ("summary_budget", "budget"),
            ),
        ),
    )
}
