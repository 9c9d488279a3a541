"""Values and small tools that know nothing of anyone: messages, contexts, templates, statistics, texts."""
