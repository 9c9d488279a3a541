"""The version of Recompact, which run files and results record."""

__version__ = "0.1.0"
