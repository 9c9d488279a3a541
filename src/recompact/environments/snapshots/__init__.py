"""Bringing an environment back to a boundary: four strategies, of which each environment chooses one.

Nothing here knows of agents, contexts or runs.
"""
