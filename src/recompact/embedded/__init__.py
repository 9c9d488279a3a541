"""The embedded world: pocket, with its tasks and environments, and the models that are simulated in it."""
