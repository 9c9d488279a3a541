"""A local web application for looking at runs: read-only, on loopback, from the run files alone."""
