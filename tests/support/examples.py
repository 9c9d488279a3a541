"""How many examples a property is tried with: all in `make test-slow`, a sixth of them in `make test`."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

ALL = 100  # for a property that says nothing else
QUICK = 16

# No deadline: how long an example takes says more about the machine than about us.
settings.register_profile("quick", deadline=None, max_examples=QUICK)
settings.register_profile("thorough", deadline=None, max_examples=ALL)


def examples(number: int, **more: Any) -> settings:
    """At most so many examples, or the profile's share of them, but never fewer than ten."""
    share = number * settings().max_examples // ALL
    return settings(max_examples=max(min(number, 10), share), **more)
