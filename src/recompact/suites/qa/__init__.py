"""Question answering with several objectives at once: eight questions, a search tool, and one answer to each."""
