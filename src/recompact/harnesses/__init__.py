"""Agent harnesses whose compaction prompts can be imported from their installed files.

Nothing of a harness is ever run, and none of its prompt texts is kept here: they are read from its own distribution, on
the user's machine.
"""
