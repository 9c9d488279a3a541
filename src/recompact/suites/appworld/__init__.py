"""AppWorld: an adapter to the official package, which has its own virtual environment."""
