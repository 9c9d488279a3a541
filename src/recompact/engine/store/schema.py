"""The tables of a run file. There is one format: a file of another one is refused, with a word on what to do.

A file carries the number of its format in `user_version` and our mark in `application_id`, which tells a foreign file
from one of ours.
"""

from __future__ import annotations

from importlib.resources import files

APPLICATION_ID = 0x52435054  # "RCPT"
FORMAT = 8

SCHEMA = files("recompact.engine.store").joinpath("schema.sql").read_text(encoding="utf-8")
