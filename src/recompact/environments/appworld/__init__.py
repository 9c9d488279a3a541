"""AppWorld: an adapter to the official package, which has its own virtual environment."""

from recompact.environments.appworld.installation import missing

__all__ = ["missing"]
