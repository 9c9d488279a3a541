"""Agent harnesses whose compaction prompts can be imported from their installed files.

Comes in: the name of a harness, or files of the user's. Goes out: a template with provenance. Nothing of a harness is
ever run, and none of its prompt texts is kept here: they are read off its own distribution, on the user's machine.
"""
