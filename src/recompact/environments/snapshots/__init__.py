"""Bringing an environment back to a boundary: four strategies, of which each environment chooses one.

Comes in: an environment, or what was recorded of it. Goes out: bytes that travel with the boundary, and an environment
in that state again. Nothing here knows of agents, contexts or runs.
"""
