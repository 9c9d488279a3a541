"""AppWorld: an adapter to the official package, which has its own virtual environment."""

from recompact.suites.appworld.installation import missing

__all__ = ["missing"]
