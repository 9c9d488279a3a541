"""What plays and records units of work: the rollout, the store, the config and a study brought to life."""
