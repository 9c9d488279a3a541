"""What the tests of AppWorld share: the real engine on a miniature data root that they build themselves."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from appworld_miniature import PEOPLE, password

from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import Task
from recompact.environments.sandbox import HostLimits
from recompact.suites.appworld.installation import PYTHON_VARIABLE, host_needs
from recompact.values.trajectory import Action

CREATE, COUNT = Task("a1b2c3d_1", ""), Task("e4f5a6b_1", "")


@cache
def miniature() -> Path:
    """The data root, made once for all tests of a run (or, with RECOMPACT_TEST_APPWORLD_ROOT, for several runs)."""
    kept = os.environ.get("RECOMPACT_TEST_APPWORLD_ROOT")
    root = Path(kept) if kept else Path(tempfile.mkdtemp(prefix="recompact-miniature-"))
    if not (root / "data").is_dir():
        script = Path(__file__).with_name("appworld_miniature.py")
        subprocess.run([os.environ[PYTHON_VARIABLE], str(script), str(root)], check=True, capture_output=True)
    return root


def hosted(
    options: dict[str, Any] | None = None, timeout: float = 90.0, limits: HostLimits | None = None
) -> HostedSuite:
    needs = host_needs({"root": str(miniature()), **(options or {})}, None, Path())
    assert needs.grader is not None
    suite = HostedSuite(
        "appworld",
        needs.options,
        miniature() / "data" / "datasets",
        needs.python,
        timeout,
        sandbox="require",
        limits=limits or HostLimits(),
    )
    return suite.graded_by(needs.grader)


def run(code: str) -> Action:
    return Action("execute_python", {"code": code})


def login(person: int = 0) -> Action:
    who = PEOPLE[person]
    call = f"apis.simple_note.login(username={who['email']!r}, password={password(who)!r})"
    return run(f"token = {call}['access_token']\nprint(token)")


NOTE = run("print(apis.simple_note.create_note(title='Shopping', content='milk and eggs', access_token=token))")
DONE = run("apis.supervisor.complete_task()")
