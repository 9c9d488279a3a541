"""Finds the compaction prompts of harnesses in their installed files, or in the settings of a user."""
