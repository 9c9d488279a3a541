"""Bringing an environment back to a boundary: three strategies, of which each environment chooses one.

Nothing here knows of agents, contexts or runs.
"""
