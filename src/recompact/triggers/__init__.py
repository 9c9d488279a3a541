"""When to compact: triggers, one file each."""
