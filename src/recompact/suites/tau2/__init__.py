"""tau2-bench's retail domain: an adapter to the official package, which is imported from the user's installation."""
