"""One episode: its own testbed, the app that is open, and the answer.

All state is in files except the open app and how the episode ended, which go with the directory's snapshot as JSON.
"""

from __future__ import annotations

import json
import logging
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from recompact.environments.files import ActionError, tree_excess
from recompact.environments.own_directory import empty_directory, remove_tree
from recompact.environments.protocol import Observation, Opening
from recompact.environments.shell import TEMPORARY, Shell
from recompact.environments.snapshots import VOLATILE
from recompact.suites.officebench.actions import Intent, intent_of
from recompact.suites.officebench.apps import APPS
from recompact.suites.officebench.apps.machine import SHELL
from recompact.suites.officebench.apps.spec import App, Desk, check_arguments, shorten, without_quotes
from recompact.suites.officebench.evaluator import Case, evaluate
from recompact.suites.officebench.prompt import (
    FINISH,
    SWITCH,
    SYSTEM_APP,
    TOOLS,
    ActionForm,
    app_instructions,
    system_prompt,
    task_message,
)
from recompact.suites.officebench.tree import TESTBED, Subtask, TaskTree, files_of_testbed
from recompact.values.chat import Message, system, user
from recompact.values.trajectory import Action, Score

_log = logging.getLogger(__name__)

ANSWER = "data/answer.txt"
SHOWN = 50_000
"""Characters of an observation that an agent is shown: about three times the largest document in the data."""


class OfficeBenchEnvironment:
    """An `Environment` whose snapshots are copies of its directory."""

    snapshots = "directory"
    mask = VOLATILE

    def __init__(
        self,
        tree: TaskTree,
        subtask: Subtask,
        shell: Shell,
        office: Shell | None = None,
        *,
        form: ActionForm = "tool",
        reminders: bool = True,
        example: Sequence[Message] = (),
    ) -> None:
        self._tree, self._subtask, self._form, self._reminders = tree, subtask, form, reminders
        self._example = example
        self._shell = shell
        self.directory = Path(tempfile.mkdtemp(prefix="recompact-officebench-"))
        self._remove = weakref.finalize(self, remove_tree, self.directory)
        self._files = files_of_testbed(self.directory / TESTBED)
        self._desk = Desk(self._files, subtask.now, shell, office)
        self._open: App | None = None
        self._ended = False
        self._misuse = ""

    @property
    def apps(self) -> Sequence[App]:
        """Those that can be opened on this machine."""
        return [app for app in APPS.values() if app != SHELL or not self._shell.refused]

    def start(self) -> Opening:
        self._clear()
        self._tree.lay_out(self._subtask.template, self._files.root)
        self._open, self._ended, self._misuse = None, False, ""
        task = f"{task_message(self._subtask, self.apps)}\n\n{app_instructions(None, self.apps)}"
        prompt = system_prompt(self._subtask, self._form, example=not self._example)
        prefix = (system(prompt), *self._example, user(task))
        tools = TOOLS if self._form == "tool" else ()
        return Opening(prefix, tools, text_actions=self._form == "text", judged_at_limit=True)

    def step(self, action: Action) -> Observation:
        if self._ended:
            return Observation("Error: the task is ended already.", done=True, error=True)
        observation, failed = self._attempt(action)
        if excess := tree_excess(self.directory, self._shell.limits.disk):
            return self._end_for(f"the testbed has {excess} in it")
        if self._ended:
            return Observation(observation, done=True, error=failed)
        if self._reminders:
            observation = f"{observation.rstrip()}\n\n{app_instructions(self._open, self.apps)}"
        return Observation(observation, error=failed)

    def score(self) -> Score:
        items = self._subtask.items
        if self._misuse:
            return Score.of(False, reason=self._misuse)
        verdicts = evaluate(items, Case(self._files, self._tree.template(self._subtask.template)))
        functions = [str(item["function"]).removeprefix("evaluate_") for item in items]
        judged = [{"function": name, "verdict": verdict} for name, verdict in zip(functions, verdicts, strict=True)]
        refused = {"shell": self._shell.refused} if self._shell.refused else {}
        return Score.of(all(verdict is True for verdict in verdicts), items=judged, **refused)

    def snapshot(self) -> bytes:
        state = {"open": self._open.name if self._open else None, "ended": self._ended, "misuse": self._misuse}
        return json.dumps(state).encode()

    def restore(self, state: bytes) -> None:
        data = json.loads(state)
        self._open = APPS[data["open"]] if data["open"] else None
        self._ended, self._misuse = data["ended"], data["misuse"]

    def close(self) -> None:
        self._remove()

    # -- one action -----------------------------------------------------------------------------------------------

    def _attempt(self, action: Action) -> tuple[str, bool]:
        """What comes back, and whether it is an error."""
        name = self._open.name if self._open else SYSTEM_APP
        try:
            intent = intent_of(action)
            name = intent.app[:40]
            return shorten(self._do(intent), SHOWN), False
        except ActionError as error:
            return shorten(f"Error: [{name}] {error}", SHOWN), True
        except Exception as error:  # a library's trouble with an agent's file: a mistake, not the end of the episode
            _log.info("task %s/%s: %s", self._subtask.template, self._subtask.number, action, exc_info=True)
            return f"Error: [{name}] this failed ({type(error).__name__})", True

    def _do(self, intent: Intent) -> str:
        if intent.app == SYSTEM_APP:
            return self._system(intent)
        app = self._app(intent.app)
        action = app.action(intent.action)
        if action is None:
            known = ", ".join(each.name for each in app.actions)
            raise ActionError(f"{app.name} has no action {intent.action[:80]!r}; it has {known}")
        if app != self._open and not intent.dotted:
            current = f"{self._open.name} is" if self._open else "no app is"
            raise ActionError(f"{current} open; open {app.name} with {SYSTEM_APP}.{SWITCH} first")
        self._open = app
        check_arguments(app.name, action, intent.arguments)
        return action.run(self._desk, intent.arguments)

    def _system(self, intent: Intent) -> str:
        if intent.action == SWITCH:
            self._open = self._app(str(intent.arguments.get("target_app")))
            note = "" if self._reminders else f"\n{app_instructions(self._open, self.apps)}"
            return f"The app {self._open.name} is open now.{note}"
        if intent.action == FINISH:
            answer = without_quotes(str(intent.arguments.get("answer")))
            self._files.write(ANSWER, f"{answer}\n".encode("utf-8", "replace"))
            self._ended = True
            return "The task is ended."
        raise ActionError(f"the system has no action {intent.action[:80]!r}; it has {SWITCH} and {FINISH}")

    def _app(self, name: str) -> App:
        if name == SHELL.name and self._shell.refused:
            raise ActionError("the shell is not available on this machine; use the other apps")
        if name not in APPS:
            raise ActionError(f"there is no app {name[:80]!r}; the apps are {', '.join(app.name for app in self.apps)}")
        return APPS[name]

    def _end_for(self, reason: str) -> Observation:
        """End an episode that would fill the disk, and give the space back at once."""
        self._clear()
        self._ended, self._misuse = True, reason
        return Observation(f"Error: the episode is ended: {reason}.", done=True, error=True)

    def _clear(self) -> None:
        empty_directory(self.directory)
        for name in (TESTBED, TEMPORARY):
            (self.directory / name).mkdir()
