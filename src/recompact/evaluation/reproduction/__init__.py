"""The paper's tables and figures as experiments: which runs each needs, and the results beside the paper's."""
