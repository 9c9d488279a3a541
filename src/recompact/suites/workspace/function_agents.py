"""Functions as agents: the tasks in a directory, played by a function of the caller's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from recompact.agents.client import AgentFunction, Function, name_of
from recompact.agents.settings import IGNORED, AgentSettings
from recompact.agents.suite import AgentSuite
from recompact.suites.workspace.suite import WorkspaceSuite


def agent_suite(
    tasks: Path | str,
    agent: AgentFunction,
    *,
    replace: Mapping[str, str] | None = None,
    ids: Sequence[str] = (),
    mask: Sequence[str] = (),
    ignore: Sequence[str] = IGNORED,
    timeout: float = 600.0,
    unsafe_shell: bool = False,
) -> AgentSuite:
    """The tasks in a directory, played by a function. The options are those of [agent] and of the suite `workspace`."""
    settings = AgentSettings(
        (name_of(agent),),
        replace=replace or {},
        ids=tuple(ids),
        mask=tuple(mask),
        ignore=tuple(ignore),
        timeout=timeout,
        unsafe=True,
    )
    return AgentSuite(WorkspaceSuite(tasks, unsafe_shell=unsafe_shell), settings, Function(agent))
