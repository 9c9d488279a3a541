"""A report as one self-contained page: no script, no network, and everything written by others escaped."""
