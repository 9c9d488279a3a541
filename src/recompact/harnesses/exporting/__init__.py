"""Turns a template into what a harness takes: one prompt or two, its placeholders, its escapes, its files."""
