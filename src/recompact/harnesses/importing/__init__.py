"""Finds the compaction prompts of harnesses in their installed files, or in a user's settings."""
