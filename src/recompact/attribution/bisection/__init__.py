"""Bisecting a compaction: put parts of what it dropped back, continue, and narrow down to the smallest part that closes
the loss. It asks no optimizer: a cause is what an intervention showed."""
