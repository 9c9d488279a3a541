"""Suites that come with Recompact. Nothing imports them: they are found by their names, as anybody's plug-in."""
