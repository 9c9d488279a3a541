"""Ready objects for libraries that compact by themselves, with a template of ours as their prompt.

Each module imports its library when it is called: the extra of its name installs it.
"""
