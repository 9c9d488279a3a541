"""AppWorld: an adapter to the official package, which has a virtual environment of its own."""

from recompact.environments.appworld.installation import missing

__all__ = ["missing"]
