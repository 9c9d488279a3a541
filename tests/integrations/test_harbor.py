"""A trial of Harbor itself, with one of its agents behind our gateway; no container, since its environment is here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from agent_support import AGENT, Clerk, Forgetful, write_notes
from commands import recompact, served
from needs import needs

SCRIPTS = Path(__file__).parents[1] / "harnesses" / "scripts"


@needs("harbor")
def test_a_trial_of_harbor_is_compacted(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    exported = recompact(
        "tasks", "export", "--tasks", tmp_path / "tasks", "--to", "harbor", "--out", tmp_path / "harbor"
    )
    assert exported.returncode == 0, exported.stderr
    (tmp_path / "agent.py").write_text(AGENT)
    with served({"clerk": Clerk(), "forgetful": Forgetful()}) as server:
        model = f'base_url = "{server.base_url}"\n'
        (tmp_path / "mine.toml").write_text(
            f'[suite]\nuse = "workspace"\n[models.clerk]\nid = "clerk"\n{model}'
            f'[models.forgetful]\nid = "forgetful"\n{model}[agent]\nmodel = "clerk"\n'
            '[compressor]\nmodel = "forgetful"\n[run]\ncounter = "characters"\n'
        )
        given = {
            "agent": "harbor_places:Small",
            "program": str(tmp_path / "agent.py"),
            "config": str(tmp_path / "mine.toml"),
            "budget": "450",
        }
        command = [str(Path(sys.executable).with_name("harbor")), "run", "-p", str(tmp_path / "harbor" / "notes")]
        command += ["--agent", "recompact.integrations.harbor:Agent"]
        command += ["--env", "harbor_places:Here", "--jobs-dir", str(tmp_path / "jobs"), "-y"]
        command += [part for name, value in given.items() for part in ("--ak", f"{name}={value}")]
        variables = {**os.environ, "PYTHONPATH": f"{SCRIPTS}:{os.environ.get('PYTHONPATH', '')}"}
        done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    (result,) = (tmp_path / "jobs").glob("*/*/result.json")
    trial = json.loads(result.read_text())
    assert trial["exception_info"] is None, done.stdout + done.stderr
    told = trial["agent_result"]
    assert len(told["metadata"]["recompact"]["compactions"]) >= 2
    assert told["n_input_tokens"] > 0
    assert trial["verifier_result"]["rewards"] == {"reward": 0.0}  # the compressor lost the code
    transcript = (result.parent / "agent" / "recompact.jsonl").read_text().splitlines()
    marks = [line for line in map(json.loads, transcript) if line.get("compaction")]
    assert len(marks) == len(told["metadata"]["recompact"]["compactions"])
    assert (tmp_path / "runs" / f"{told['metadata']['recompact']['run']}.db").exists()
