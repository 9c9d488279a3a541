"""A local web application to look at runs: read-only, on loopback, from the run files alone."""
