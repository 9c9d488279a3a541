"""Agent harnesses: one description for each, of how its compaction prompt is imported and replaced; and one reader for
each format of transcripts.

No part of a harness is ever run, and none of its prompt texts is kept here: they are read from its own distribution, on
the user's machine.
"""
