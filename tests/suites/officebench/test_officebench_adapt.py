"""The whole method on twelve train tasks, from the first episode to an adapted template; the models are scripts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import OFFICEBENCH, needs
from officebench_models import CLAUSE, serving
from officebench_solutions import SOLUTIONS
from officebench_support import tree

pytestmark = needs("officebench", "bubblewrap")

CONFIG = """
[suite]
use = "officebench"
split = "train"
tasks = {tasks}
[suite.options]
tasks = "{tree}"
[models.agent]
id = "agent"
base_url = "{url}"
[models.compressor]
id = "compressor"
base_url = "{url}"
[models.optimizer]
id = "optimizer"
base_url = "{url}"
[agent]
model = "agent"
[compressor]
model = "compressor"
budget = 2048
[optimizer]
model = "optimizer"
[run]
concurrency = 4
step_limit = 30
[adapt]
method = "pair"
candidates = 2
fit_tasks = 4
"""


@pytest.mark.slow
def test_adapt_on_twelve_train_tasks(tmp_path: Path) -> None:
    train = {f"{template}/{number}" for template, number in tree().split("train")}
    scripts = {name: solution for name, solution in SOLUTIONS.items() if name in train}
    chosen = sorted(scripts, key=lambda name: (-len(scripts[name].right), name))[:12]
    texts = {tree().subtask(*name.split("/")).text: scripts[name] for name in chosen}
    with serving(texts) as url:
        config = tmp_path / "officebench.toml"
        config.write_text(CONFIG.format(tasks=json.dumps(chosen), tree=OFFICEBENCH.resolve(), url=url))
        done = subprocess.run(
            [sys.executable, "-m", "recompact", "adapt", str(config), "--json"],
            cwd=tmp_path,
            env={**os.environ, "OPENAI_API_KEY": "none"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr + done.stdout
    result = json.loads(done.stdout)
    assert result["winner"] != "original"
    assert not result["unfinished"]
    fits = {fit["name"]: fit for fit in result["selection"]}
    assert fits[result["winner"]]["passed"] == fits[result["winner"]]["runs"] == 4
    assert fits[result["winner"]]["steps"] < fits["original"]["steps"]  # the script begins again where it was not told
    assert any(CLAUSE in path.read_text() for path in Path(result["directory"]).rglob("*") if path.is_file())
