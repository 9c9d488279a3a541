"""Units as names of files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable


def unique_names() -> Callable[[str], str]:
    """Gives each text a name of its own that any file system takes.

    >>> name = unique_names()
    >>> name("collect/a b"), name("collect/a/b"), name("..")
    ('collect-a-b', 'collect-a-b.2', 'episode')
    """
    taken: Counter[str] = Counter()

    def name(text: str) -> str:
        plain = re.sub(r"[^\w.-]+", "-", text).strip(".-")[:150] or "episode"
        taken[plain.lower()] += 1
        return plain if taken[plain.lower()] == 1 else name(f"{plain}.{taken[plain.lower()]}")

    return name
