"""The paper's tables and figures as experiments: which runs each of them needs, and what came out beside the paper."""
