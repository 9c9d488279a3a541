"""When to compact: what a trigger is, those that are built in, and how one is found by its name."""
