"""The shell: one command at a time, in the sandbox."""

from __future__ import annotations

from recompact.environments.officebench.apps.spec import App, AppAction, Arguments, Desk, text
from recompact.environments.officebench.errors import ActionError
from recompact.environments.officebench.testbed import MOUNT

SHOWN = 10_000
"""Characters of a command's output that an agent is shown."""


def _command(desk: Desk, arguments: Arguments) -> str:
    command = text(arguments, "command")
    if "\0" in command:
        raise ActionError("a command cannot have a zero byte in it")
    outcome = desk.shell.run(command, desk.files.root)
    output = outcome.output
    if len(output) > SHOWN:
        output = f"{output[:SHOWN]}\n[cut: {len(output) - SHOWN:,} more characters]"
    if outcome.stopped:
        raise ActionError(f"the command was stopped: {outcome.stopped}. Its output:\n{output}")
    if outcome.code:
        raise ActionError(f"the command failed with exit code {outcome.code}. Its output:\n{output}")
    return output or "The command has finished without output."


SHELL = App(
    "shell",
    f"commands in the directory {MOUNT}, which holds data/, emails/ and calendar/",
    (
        AppAction(
            "command",
            f"run a shell command in {MOUNT}; there is no network and nothing outside can be changed",
            ("command",),
            "read",
            _command,
        ),
    ),
)
