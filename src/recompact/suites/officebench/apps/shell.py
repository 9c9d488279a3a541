"""The shell: one command at a time, in the sandbox."""

from __future__ import annotations

from recompact.environments.files import ActionError
from recompact.suites.officebench.apps.spec import App, Arguments, Desk, shorten, text
from recompact.suites.officebench.tree import MOUNT

SHOWN = 10_000
"""Characters of a command's output that an agent is shown."""

_LONGEST = 100_000  # bytes; the kernel takes little more

SHELL = App("shell", f"commands in the directory {MOUNT}, which holds data/, emails/ and calendar/")


@SHELL.read(f"run a shell command in {MOUNT}; there is no network and nothing outside can be changed", "command")
def _command(desk: Desk, arguments: Arguments) -> str:
    command = text(arguments, "command")
    if "\0" in command or len(command.encode()) > _LONGEST:
        raise ActionError(f"a command has at most {_LONGEST:,} bytes, none of them zero")
    result = desk.shell.run(command, desk.files.root)
    output = shorten(result.output, SHOWN)
    if result.stopped:
        raise ActionError(f"the command was stopped: {result.stopped}. Its output:\n{output}")
    if result.code:
        raise ActionError(f"the command failed with exit code {result.code}. Its output:\n{output}")
    return output or "The command has finished without output."
