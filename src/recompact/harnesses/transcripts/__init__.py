"""Readers of what harnesses leave on disk: one file each, which turns records into the events of a session."""
