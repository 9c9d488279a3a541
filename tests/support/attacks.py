"""What is promised against whom, from the table in docs/security.md; run as a program, it tries all of it and prints
what was tried and what failed, by attacker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
NOBODY = 54321
WITH_FEW_RIGHTS = ("agent", "environment")


@dataclass(frozen=True)
class Threat:
    """One row of the table."""

    attacker: str
    promise: str
    enforced: str
    tests: tuple[str, ...]


def threats() -> list[Threat]:
    """The rows of the table, in order."""
    rows = []
    for line in (ROOT / "docs" / "security.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and "tests/" in cells[3] and ".py" not in cells[1]:  # nor the list of places
            attacker, promise, enforced, tests = cells
            rows.append(Threat(attacker, promise, enforced, tuple(re.findall(r"tests/[\w/]+\.py", tests))))
    return rows


def main() -> int:
    seed = os.environ.get("RECOMPACT_ATTACK_SEED", "1")
    files = sorted({path for threat in threats() for path in threat.tests})
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        chosen = ["-m", "attack or not (slow or browser)", f"--hypothesis-seed={seed}", f"--junit-xml={report}"]
        split = ["-n", os.environ.get("WORKERS", "2"), "--dist", "load"]
        command = [sys.executable, "-m", "pytest", *chosen, *split, *files]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        cases = list(ElementTree.parse(report).iter("testcase"))
    print(f"\nSeed {seed}, {time.monotonic() - began:.0f} s. Cases tried, failed and skipped, by attacker:")
    for threat in threats():
        own = [case for case in cases if _file(case) in threat.tests]
        failed = sum(case.find("failure") is not None or case.find("error") is not None for case in own)
        skipped = sum(case.find("skipped") is not None for case in own)
        print(f"{threat.attacker:35} {len(own) - skipped:5} {failed:5} {skipped:5}")
    for case in cases:
        for told in case.iter("property"):
            if told.get("name") == "tried":
                print(f"  {told.get('value')}")
        if case.find("failure") is not None or case.find("error") is not None:
            print(f"FAILED {_file(case)}::{case.get('name')}")
    return _as_ordinary_user() or code


def _as_ordinary_user() -> int:
    """Agents and environments once more, with few rights: not everybody is root, who has other ways to limit them."""
    if os.geteuid() or shutil.which("setpriv") is None:
        return 0
    files = sorted({path for threat in threats() if threat.attacker in WITH_FEW_RIGHTS for path in threat.tests})
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o777)
        user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "env", "-i"]
        packages = f"{ROOT / 'src'}:{sysconfig.get_path('purelib')}"
        settings = [f"{key}={value}" for key, value in _settings(home, packages).items()]
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        for python in (sys.executable, f"/usr/bin/{version}"):  # the first may be in the home of root
            asked = subprocess.run([*user, *settings, python, "-c", "import pytest"], capture_output=True, check=False)
            if asked.returncode == 0:
                command = [python, "-m", "pytest", "-p", "no:cacheprovider", "-n", os.environ.get("WORKERS", "2")]
                print(f"\nAgents and environments as the user {NOBODY}, with {python}:", flush=True)
                return subprocess.run([*user, *settings, *command, *files], cwd=ROOT, check=False).returncode
    print("\nNothing was tried as an ordinary user: none may run this Python, and the system's is another version.")
    return 0


def _settings(home: str, packages: str) -> dict[str, str]:
    own = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": home, "TMPDIR": home, "PYTHONPATH": packages}
    return own | {"PYTHONDONTWRITEBYTECODE": "1", "RECOMPACT_ATTACK_SEED": os.environ.get("RECOMPACT_ATTACK_SEED", "1")}


def _file(case: ElementTree.Element) -> str:
    """The file of a test, which pytest gives as a module."""
    parts = (case.get("classname") or "").split(".")
    return f"{'/'.join(parts)}.py"


if __name__ == "__main__":
    sys.exit(main())
