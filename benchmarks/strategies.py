"""Every strategy and trigger on workspace tasks with scripted models, of which two agents differ in one habit.

    python benchmarks/strategies.py            # 30 tasks for each agent; needs bubblewrap; minutes

Both read eight notes one by one and write down the three codes that stand in them. One says each code in its own words
as it meets it, the other only looks at results. Whatever neither finds in its context it reads again, until its steps
end. The compressor keeps how far the agent is, and each code two times out of three.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

from recompact.values.chat import Message, Reply, Request, ToolCall, Usage, assistant

NOTES, CODES = 8, 3
CODE = re.compile(r"code (\w) is ([a-z]+-\d+)")
CONFIG = """
[suite]
use = "workspace"
split = "train"
options = {{ tasks = "tasks" }}
[models.agent]
use = "{file}:Agent"
options = {{ notes = {notes} }}
[models.compressor]
use = "{file}:Compressor"
[agent]
model = "agent"
[compressor]
model = "compressor"
budget = 900
[run]
step_limit = 24
"""


class Agent:
    """Knows only what its context says."""

    name = "agent"

    def __init__(self, *, notes: bool = True) -> None:
        self._notes = notes

    async def reply(self, request: Request) -> Reply:
        text = "\n".join(message.content for message in request.messages)
        known = dict(CODE.findall(text))
        shown = {int(n) for n in re.findall(rf"note (\d) of {NOTES}:", text)}  # results that are in view
        done = shown | {int(n) for n in re.findall(r"read up to note (\d)", text) for n in range(1, int(n) + 1)}
        done |= {int(n) for m in request.messages for c in m.calls for n in re.findall(r"notes/(\d)", c.arguments)}
        said = " ".join(f"code {name} is {code}." for name, code in sorted(known.items())) if self._notes else ""
        missing = [n for n in range(1, NOTES + 1) if n not in done]
        again = [n for n in range(1, NOTES + 1) if n not in shown]
        if "Written." in text:
            call = ("finish", {"answer": "done"})
        elif missing:
            call = ("read_file", {"path": f"notes/{missing[0]}.txt"})
        elif len(known) < CODES and again:
            call = ("read_file", {"path": f"notes/{again[0]}.txt"})
        else:
            answer = " ".join(code for _, code in sorted(known.items()))
            call = ("shell", {"command": f"echo {answer} > answer.txt; echo Written."})
        message = Message("assistant", said, (ToolCall(f"c{len(request.messages)}", call[0], json.dumps(call[1])),))
        return Reply(message, Usage(len(text) // 4, 20, calls=1))


class Compressor:
    """Keeps how far the agent is, and each code two times out of three."""

    name = "compressor"

    async def reply(self, request: Request) -> Reply:
        text = "\n".join(message.content for message in request.messages)
        read = [int(n) for n in re.findall(rf"(?:note |read up to note )(\d)(?: of {NOTES}:)?", text)]
        codes = sorted(set(CODE.findall(text)))
        kept = [f"code {name} is {code}." for name, code in codes if Random(f"{code}/{len(text)}").random() < 2 / 3]
        summary = "\n".join(["## Progress", f"The agent has read up to note {max(read, default=0)}.", *kept])
        return Reply(assistant(summary), Usage(len(text) // 4, len(summary) // 4, calls=1))


def write_tasks(root: Path, number: int) -> None:
    for task in range(number):
        chance, folder = Random(f"strategies/{task}"), root / f"codes-{task:02d}"
        places = chance.sample(range(1, NOTES + 1), CODES)
        codes = [f"{chance.choice(('amber', 'blue', 'coral', 'dune'))}-{chance.randint(100, 999)}" for _ in places]
        (folder / "files" / "notes").mkdir(parents=True)
        for n in range(1, NOTES + 1):
            own = [f"code {'abc'[k]} is {codes[k]}." for k in range(CODES) if places[k] == n]
            filler = " ".join(f"word{chance.randint(100, 999)}" for _ in range(60))
            (folder / "files" / "notes" / f"{n}.txt").write_text(f"note {n} of {NOTES}: {' '.join(own)} {filler}\n")
        instruction = f"Read the {NOTES} notes in notes/ and write the codes, in order of their names, to answer.txt."
        check = f"[check]\ncommand = \"grep -qx '{' '.join(codes)}' answer.txt\"\n"
        (folder / "task.toml").write_text(f"instruction = {json.dumps(instruction)}\n{check}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=30)
    tasks = parser.parse_args().tasks
    for notes in (True, False):
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            write_tasks(place / "tasks", tasks)
            file = json.dumps(str(Path(__file__).resolve()))[1:-1]
            (place / "c.toml").write_text(CONFIG.format(file=file, notes=str(notes).lower()))
            print(f"## An agent that {'says what it finds' if notes else 'only looks at results'}\n", flush=True)
            options = ["--strategies", "all", "--runs", "1", "--split", "train", "--format", "markdown"]
            words = [sys.executable, "-m", "recompact", "evaluate", "c.toml", *options]
            subprocess.run(words, cwd=place, check=True)


if __name__ == "__main__":
    main()
