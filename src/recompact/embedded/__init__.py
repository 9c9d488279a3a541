"""The embedded world: pocket, its tasks and environments, and the models that are simulated in it."""
