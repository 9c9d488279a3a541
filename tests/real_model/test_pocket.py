"""A real language model on ten easy pocket tasks: run by `make test-model` against any OpenAI-compatible server.

It passes when the run completes and every mistake of the model is handled as designed; how many tasks such a model
solves is printed, not asserted. RECOMPACT_TEST_MODEL is the base URL, RECOMPACT_TEST_MODEL_ID the model's name there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from needs import needs

from recompact.suites.pocket import PocketSuite

URL = os.environ.get("RECOMPACT_TEST_MODEL")
MODEL = os.environ.get("RECOMPACT_TEST_MODEL_ID", "1.5b")
TASKS = int(os.environ.get("RECOMPACT_TEST_MODEL_TASKS", "10"))
FAMILIES = ("contact_detail", "event_time", "bill_total")

pytestmark = needs("model")


def test_ten_easy_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    easy = [t.id for t in PocketSuite().tasks("train") if t.groups["family"] in FAMILIES][:TASKS]
    config = tmp_path / "easy.toml"
    config.write_text(f"""
[suite]
use = "pocket"
tasks = {json.dumps(easy)}
options = {{ example = true }}
[models.local]
id = "{MODEL}"
base_url = "{URL}"
calls = "json"
timeout = 600
concurrency = 1
[agent]
model = "local"
temperature = 0
max_output_tokens = 256
[compressor]
budget = 1200
max_output_tokens = 700
temperature = 0
[run]
step_limit = 14
concurrency = 1
""")
    done = subprocess.run(
        [sys.executable, "-m", "recompact", "collect", str(config), "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["trajectories"] == len(easy)
    assert set(report["endings"]) <= {"finished", "step limit", "context overflow"}
    run = tmp_path / "runs" / "easy.db"
    mistakes: Counter[str] = Counter()
    with capsys.disabled():
        print(f"\n{MODEL}: {report['success']} of {len(easy)} easy tasks solved, {report['compactions']} compactions,")
        print(f"endings {report['endings']}, tokens {report['tokens']}, incidents {report['incidents']}")
        for task in easy:
            shown = subprocess.run(
                [sys.executable, "-m", "recompact", "show", str(run), task, "--json"], capture_output=True, text=True
            )
            (trajectory,) = json.loads(shown.stdout)
            texts = [m["content"] for turn in trajectory["turns"] for m in turn if m["role"] != "assistant"]
            mistakes.update(text.split(":")[1].split(" ")[1] for text in texts if text.startswith("Error: "))
            mistakes.update("api error" for text in texts if text.startswith('{"error"'))
            outcome = "solved" if trajectory["success"] else "failed"
            print(f"  {task}: {outcome}, {trajectory['steps']} steps, {len(trajectory['boundaries'])} compactions")
        print(f"error observations by kind: {dict(mistakes)}")
        last = subprocess.run(
            [sys.executable, "-m", "recompact", "show", str(run), easy[0]], capture_output=True, text=True
        )
        print(last.stdout[-3000:])
