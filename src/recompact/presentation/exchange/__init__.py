"""A run in the forms that others read: one file for each format, all written from the same episodes."""
