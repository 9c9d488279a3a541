"""`recompact tasks`: tasks as folders, for the suite `workspace`: list them, and add one from a git repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from recompact.cli.console import print_json, print_tables, say
from recompact.cli.options import Json, as_command
from recompact.errors import InputError
from recompact.suites.workspace.folder import folders_below
from recompact.suites.workspace.harbor import IMAGE, write_harbor_task
from recompact.suites.workspace.repository import add_repository
from recompact.suites.workspace.task import TaskFolder
from recompact.values.outputs import replaced_directory
from recompact.values.reading import read_small
from recompact.values.tables import Column, Table
from recompact.values.texts import quantity

Tasks = Annotated[Path, "--tasks", "The directory of the tasks.", {"default": Path("tasks"), "show_default": True}]


@as_command(
    "tasks",
    cls=click.Group,
    example="tasks list",
    help='List and add tasks of the suite "workspace": folders with an instruction, files and a check.',
)
def command() -> None:
    pass


@as_command("list", group=command)
def list_tasks(*, root: Tasks, as_json: Json) -> None:
    """List the tasks below a directory, and report mistakes in them."""
    folders = folders_below(root)
    if as_json:
        print_json([_describe_folder(folder) for folder in folders])
    elif folders:
        heads = (Column("id", "task", fold=True), Column("split", "split"), Column("check", "check", fold=True))
        print_tables([Table("", heads, tuple((each.id, each.split, each.check.command) for each in folders))])
    else:
        say(f"There are no tasks in {root}. Add one: recompact tasks add NAME --repo …")


@as_command(group=command)
def add(
    name: str,
    *,
    repo: Annotated[str, "A repository: a directory, or what `git clone` takes."],
    commit: Annotated[str, "The commit that the workspace starts from."],
    check: Annotated[str, "The command that judges: exit code 0 is success."],
    instruction: Annotated[str | None, "What to tell the agent."],
    instruction_file: Annotated[Path | None, "A file with what to tell the agent."],
    split: str = "train",
    groups: Annotated[tuple[str, ...], "--group", "A group to break results down by.", {"metavar": "KEY=VALUE"}],
    protect: Annotated[tuple[str, ...], "A path to restore before the check, besides those that it names."],
    root: Tasks,
    as_json: Json,
) -> None:
    """Make a task from one commit of a git repository."""
    if (instruction is None) == (instruction_file is None):
        raise click.UsageError("give the agent's instruction: --instruction TEXT or --instruction-file FILE.")
    folder = add_repository(
        root,
        name,
        repo=repo,
        commit=commit,
        instruction=instruction if instruction_file is None else _read(instruction_file),  # type: ignore[arg-type]
        check=check,
        split=split,
        groups=dict(_pair(group) for group in groups),
        protected=protect,
    )
    if as_json:
        print_json(_describe_folder(folder))
        return
    protected = ", ".join(folder.check.protected) or "nothing: the agent can change everything the check uses"
    say(f"{folder.path} is a task now. Its check is `{folder.check.command}`; protected from the agent: {protected}.")


@as_command(group=command)
def export(
    *,
    form: Annotated[str, "--to", click.Choice(["harbor"]), "The format."],
    out: Annotated[Path | None, "The directory to write (default: TASKS-harbor)."],
    image: Annotated[str, "The container image that tasks start from."] = IMAGE,
    root: Tasks,
    as_json: Json,
) -> None:
    """Write the tasks as Harbor's task folders, with their checks as verifiers."""
    folders = folders_below(root)
    if not folders:
        raise InputError(f"there are no tasks in {root}: name their directory with --tasks")
    if theirs := [folder.id for folder in folders if folder.container]:
        raise InputError(f"task {theirs[0]} in {root} is one of Harbor's already: copy its folder")
    out = out or Path(f"{root.resolve().name}-{form}")
    with replaced_directory(out, "Harbor tasks") as directory:
        for folder in folders:
            write_harbor_task(folder, directory / folder.id, image)
    if as_json:
        print_json({"directory": str(out), "image": image, "tasks": [folder.id for folder in folders]})
    else:
        say(f"Written: {out} ({quantity(len(folders), 'task')}). Install in {image} whatever their checks need.")


def _read(path: Path) -> str:
    try:
        return read_small(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if not key or not value:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--group")
    return key, value


def _describe_folder(folder: TaskFolder) -> dict[str, object]:
    return {
        "id": folder.id,
        "path": str(folder.path),
        "split": folder.split,
        "groups": dict(folder.groups),
        "instruction": folder.instruction,
        "check": folder.check.command,
        "protected": list(folder.check.protected),
    }
