"""OfficeBench without Docker: its tasks from a tree on disk, its apps and its evaluator our own."""
