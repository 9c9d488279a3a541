"""A small experiment with simulated models, as its config and plan say it."""

from __future__ import annotations

SMALL = """\
[suite]
use = "pocket"
split = "train"
tasks = ["pocket-train-001", "pocket-train-002", "pocket-train-004", "pocket-train-005"]
[compressor]
budget = 600
[verify]
allocation = "uniform:1"
[adapt]
candidates = 2
fit_tasks = 2
"""
PLAN = """\
methods = ["facts", "pair", "facts-entries"]
arms = ["none", "prompting", "facts", "pair"]
later = ["facts-entries", "by-hand=by-hand"]
tasks = ["pocket-test-001", "pocket-test-002"]
by = ["family"]
[fresh]
facts-entries = ["pocket-test-002"]
"""
