"""What a transcript alone shows about its compactions: rule-based measures, each beside its control.

Nothing here asks a model, writes to a transcript or runs anything that one contains.
"""
