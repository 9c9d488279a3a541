"""Configs of the paper's benchmarks, for `recompact init`: its budgets, step limits, splits, models and effort."""

from __future__ import annotations

from dataclasses import dataclass

from recompact.compressors.protocol import Scope


@dataclass(frozen=True)
class Benchmark:
    """What distinguishes the config of one benchmark. `suite` are the lines below `use` and `split`."""

    title: str
    page: str
    tasks: int  # of the split "train", on which it is adapted
    budget: int
    suite: str
    models: str = ""
    test: str = "test"  # the split to evaluate on
    step_limit: int = 50


BENCHMARKS = {
    "officebench": Benchmark(
        title="OfficeBench",
        page="docs/officebench.md",
        tasks=97,
        budget=2048,
        suite="""\
host = true
sandbox = "off"                   # around the host: its shell has a sandbox of its own
env = ["RECOMPACT_OFFICEBENCH"]   # where the task tree is, unless you name it here:
# options = { tasks = "/data/officebench" }
""",
    ),
    "tau2-retail": Benchmark(
        title="tau2-bench retail",
        page="docs/tau2.md",
        tasks=74,
        budget=2048,
        suite="""\
host = true

[suite.models]
user = "customer"                 # the simulated customer, the benchmark's default
judge = "customer"                # asked only where a task has assertions in natural language
""",
        models="""
[models.customer]
id = "gpt-4.1-2025-04-14"
key_env = "OPENAI_API_KEY"
price = { input = 2.0, cached = 0.5, output = 8.0 }    # an example: fill in what yours costs
""",
    ),
    "appworld": Benchmark(
        title="AppWorld",
        page="docs/appworld.md",
        tasks=90,
        test="test_normal",
        budget=4096,
        suite="host = true\n",
    ),
    "qa": Benchmark(
        title="8-objective QA",
        page="docs/qa.md",
        tasks=100,
        budget=4096,
        suite="""\
# options = { tasks = "/data/tasks.jsonl", corpus = "/data/corpus.jsonl" }    # or RECOMPACT_QA, RECOMPACT_QA_CORPUS
""",
    ),
}

_CONFIG = """\
# {name}.toml: {title} as in the paper, scope {scope}; {page} says how to get it
#
#   recompact check {name}.toml
#   recompact adapt {name}.toml
#   recompact evaluate {name}.toml --split {test} --arm none --arm fifo --arm prompting --arm pair=runs/{name}-pair
[suite]
use = "{use}"
split = "train"                   # {tasks} tasks
{suite}
[models.luna]
id = "gpt-5.6-luna"
api = "responses"
key_env = "OPENAI_API_KEY"        # keys come from the environment only
price = {{ input = 0.5, cached = 0.05, output = 4.0 }}    # an example: fill in what yours costs
{models}
[agent]
model = "luna"
max_output_tokens = 2048
reasoning_effort = "medium"

[compressor]
kind = "prompted"
budget = {budget}
scope = "{scope}"
template = "checkpoint"           # in our words; for the exact one, see docs/prompts.md
max_output_tokens = 8192
reasoning_effort = "medium"

[optimizer]
model = "luna"
reasoning_effort = "medium"

[run]
step_limit = {step_limit}

[ceiling]
money = 50.0                      # the run stops there and can be resumed
"""


def config_name(benchmark: str, scope: Scope) -> str:
    """What its config is called, without the ending: the two scopes are two configs."""
    return benchmark if scope == "history" else f"{benchmark}-{scope}"


def benchmark_config(benchmark: str, scope: Scope) -> str:
    """The text of a config."""
    settings = BENCHMARKS[benchmark]
    return _CONFIG.format(name=config_name(benchmark, scope), use=benchmark, scope=scope, **vars(settings))
