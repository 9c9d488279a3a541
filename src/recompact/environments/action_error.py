"""The one error that an agent gets to read."""

from __future__ import annotations


class ActionError(Exception):
    """An action that cannot be done. The text is the agent's observation, so it names only paths the agent knows."""
