"""The suite: the task tree's splits, and an episode for each of its subtasks, with worked examples before it if wanted.

Options are those of [suite.options] in a config; docs/officebench.md says what they mean. All state of an episode is in
files except the open app and how the episode ended, which go with the directory's snapshot as JSON. Without worked
episodes a small model invents what its actions return; they are played in the apps themselves, so they cannot disagree
with them.
"""

from __future__ import annotations

import json
import logging
import math
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from recompact.environments.files import ActionError, tree_excess
from recompact.environments.own_directory import empty_directory, remove_tree
from recompact.environments.protocol import Observation, Opening, Task
from recompact.environments.shell import TEMPORARY, CommandLimits, Shell
from recompact.environments.snapshots import VOLATILE
from recompact.errors import InputError
from recompact.registry import Limit
from recompact.suites.officebench.actions import (
    FINISH,
    SWITCH,
    SYSTEM_APP,
    TOOLS,
    ActionForm,
    Intent,
    app_instructions,
    behaviour_of,
    intent_of,
    literals_in,
    shown_action,
    system_prompt,
    task_message,
)
from recompact.suites.officebench.apps import APPS
from recompact.suites.officebench.apps.machine import SHELL
from recompact.suites.officebench.apps.spec import App, Desk, check_arguments, shorten, without_quotes
from recompact.suites.officebench.conversion import office_of
from recompact.suites.officebench.evaluator import Case, evaluate
from recompact.suites.officebench.tree import MOUNT, SPLITS, TESTBED, Subtask, TaskTree, files_of_testbed
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.trajectory import Action, Score
from recompact.version import install_command

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


_TEMPLATE = "worked-example"  # which no tree has, so its testbed is empty
_NEXT = "That task is finished. The next one has other files and other people: look at them first."

ExampleCall = tuple[str, str, Mapping[str, Any]]
"""App, action and arguments."""


@dataclass(frozen=True)
class Worked:
    """A task, with what is there beforehand and what solves it."""

    text: str
    before: Sequence[ExampleCall]
    calls: Sequence[ExampleCall]


_RENTS = {"file_path": "data/rents.xlsx"}
_VISIT = {"user": "Kim", "summary": "Dentist", "time_start": "2024-03-04 09:00:00", "time_end": "2024-03-04 10:00:00"}
EXAMPLES = (
    Worked(
        "change Kim's rent to 740 in rents excel file",
        before=(
            ("excel", "create_new_file", _RENTS),
            *(
                ("excel", "set_cell", _RENTS | {"row_idx": row, "column_idx": column, "text": text})
                for row, cells in enumerate((("Name", "Rent"), ("Lou", "655"), ("Kim", "710")), start=1)
                for column, text in enumerate(cells, start=1)
            ),
        ),
        calls=(
            (SYSTEM_APP, SWITCH, {"target_app": "excel"}),
            ("excel", "read_file", _RENTS),
            ("excel", "set_cell", _RENTS | {"row_idx": 3, "column_idx": 2, "text": "740"}),
            (SYSTEM_APP, FINISH, {"answer": "None"}),
        ),
    ),
    Worked(
        "what is in Kim's calendar on 3/4/2024?",
        before=(("calendar", "create_event", _VISIT),),
        calls=(
            (SYSTEM_APP, SWITCH, {"target_app": "calendar"}),
            ("calendar", "list_events", {"username": "Kim"}),
            (SYSTEM_APP, FINISH, {"answer": "Dentist"}),
        ),
    ),
)


def worked_examples(
    tree: TaskTree, subtask: Subtask, shell: Shell, *, form: ActionForm, reminders: bool
) -> tuple[Message, ...]:
    """All examples, as the user of this subtask would have met them on the same day."""
    messages: list[Message] = []
    for number, worked in enumerate(EXAMPLES, start=1):
        example = replace(subtask, template=_TEMPLATE, text=worked.text, items=())
        environment = OfficeBenchEnvironment(tree, example, shell, form=form, reminders=reminders)
        try:
            messages += [
                environment.start().prefix[-1],
                *_turns(environment, worked, form, f"example-{number}"),
                user(_NEXT),
            ]
        finally:
            environment.close()
    return tuple(messages)


def _turns(environment: OfficeBenchEnvironment, worked: Worked, form: ActionForm, name: str) -> list[Message]:
    for app, action_name, arguments in worked.before:
        environment.step(_action(f"{app}.{action_name}", arguments))  # dotted, so that no app has to be opened for it
    turns: list[Message] = []
    for number, (app, action_name, arguments) in enumerate(worked.calls, start=1):
        action = _action(action_name, arguments, app=app)
        observation = environment.step(action).text
        if form == "text":
            turns += [assistant(shown_action(form, app, action_name, arguments)), user(observation)]
        else:
            call = ToolCall(f"{name}-{number}", action.name, json.dumps(dict(action.arguments)))
            turns += [assistant("", call), Message("tool", observation, call_id=call.id)]
    return turns


def _action(name: str, arguments: Mapping[str, Any], **app: str) -> Action:
    return Action(TOOLS[0].name, {**app, "action": name, "arguments": dict(arguments)})


_LIBRARIES = ("openpyxl", "docx", "icalendar", "pypdf", "PIL")


def missing() -> str | None:
    """What has to be installed before the suite can be used; None if nothing."""
    absent = [name for name in _LIBRARIES if find_spec(name) is None]
    return f"{', '.join(absent)} cannot be imported here: {install_command('officebench')}" if absent else None


class OfficeBenchSuite:
    """A `Suite`."""

    name = "officebench"
    behaviour = staticmethod(behaviour_of)
    literals = staticmethod(literals_in)

    def __init__(
        self,
        tasks: str | Path | None = None,
        *,
        unsafe_shell: bool = False,
        shell_timeout: Annotated[float, Limit(gt=0, lt=math.inf)] = 30.0,
        actions: ActionForm = "tool",
        reminders: bool = True,
        example: bool = False,
        libreoffice: bool = True,
    ) -> None:
        if problem := missing():
            raise InputError(f"suite 'officebench': {problem}")
        self._tree = TaskTree.at(tasks)
        limits = replace(CommandLimits(), seconds=float(shell_timeout))
        hidden = (self._tree.root, Path(__file__).resolve().parents[2])
        self._shell = Shell.of_this_machine(
            unsafe_shell, MOUNT, limits, readable=(Path("/etc/libreoffice"),), hidden=hidden
        )
        self._office = office_of(self._shell) if libreoffice else None
        self._form: ActionForm = actions
        self._reminders = reminders
        self._example = example
        if self._shell.refused:
            _log.warning("officebench: the shell app is left out, since %s", self._shell.refused)

    def splits(self) -> Sequence[str]:
        return SPLITS

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in SPLITS:
            raise InputError(f"suite 'officebench' has no split {split!r}: choose one of {', '.join(SPLITS)}")
        return [self._task(template, number) for template, number in self._tree.split(split)]

    def environment(self, task: Task) -> OfficeBenchEnvironment:
        subtask = self._tree.subtask(task.data["template"], task.data["subtask"])
        form, reminders = self._form, self._reminders
        worked: tuple[Message, ...] = ()
        if self._example:
            worked = worked_examples(self._tree, subtask, self._shell, form=form, reminders=reminders)
        return OfficeBenchEnvironment(
            self._tree, subtask, self._shell, self._office, form=form, reminders=reminders, example=worked
        )

    def _task(self, template: str, number: str) -> Task:
        subtask = self._tree.subtask(template, number)
        # What is evaluated stays in the tree: a task is recorded, and shown to models.
        data = {"template": template, "subtask": number}
        return Task(f"{template}/{number}", subtask.text, {"apps": subtask.apps}, data)
