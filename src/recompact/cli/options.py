"""A command's parameters are those of its function: the positional ones are its arguments, the others its options.

What the annotation does not tell, its metadata do: a text is the help, one that begins with `--` the option's name, a
click type the type, and a dictionary whatever else click should know.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from recompact.cli.console import reserve_output
from recompact.values.tables import Format

POSITIVE = click.IntRange(min=1)


def as_command(
    name: str | None = None, group: click.Group | None = None, *, example: str = "", **attributes: Any
) -> Callable[[Callable[..., None]], Any]:
    """Make a function a command, of a group or by itself. Its help ends with the example; those with `rooms` follow
    docs/first-hour.md."""
    if example:
        attributes["epilog"] = f"\b\nExample: recompact {example}"

    def make(function: Callable[..., None]) -> Any:
        hints = get_type_hints(function, include_extras=True)
        parameters = [_parameter(each, hints[each.name]) for each in signature(function).parameters.values()]
        maker = group.command if group else click.command
        return maker(name, params=parameters, **attributes)(function)

    return make


def _parameter(parameter: Parameter, hint: Any) -> click.Parameter:
    """
    >>> number = Parameter("most", Parameter.KEYWORD_ONLY, default=3)
    >>> option = _parameter(number, Annotated[int, POSITIVE, "How many."])
    >>> option.opts, option.default, option.help
    (['--most'], 3, 'How many.')
    """
    kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    optional = get_origin(kind) in (Union, UnionType)
    plain = next(each for each in get_args(kind) if each is not NoneType) if optional else kind
    each = get_args(plain) if get_origin(plain) is tuple else (plain,)
    several = each[-1] is ...
    more = {key: value for table in metadata if isinstance(table, dict) for key, value in table.items()}
    more["type"] = next((given for given in metadata if isinstance(given, click.ParamType)), _click_type(each[0]))
    if parameter.default is not Parameter.empty:
        more = {"default": parameter.default, "show_default": True, **more}
    elif "default" not in more:
        more.setdefault("required", not (optional or several or kind is bool))
    if parameter.kind is not Parameter.KEYWORD_ONLY:
        more.pop("show_default", None)
        return click.Argument([parameter.name], nargs=-1 if several else 1, **more)
    texts = [text for text in metadata if isinstance(text, str)]
    names = [text for text in texts if text.startswith("--")] or [f"--{parameter.name.replace('_', '-')}"]
    more |= {"help": next((text for text in texts if text not in names), None), "multiple": several}
    return click.Option(
        [parameter.name, *names], is_flag=kind is bool or None, nargs=1 if several else len(each), **more
    )


def _click_type(kind: Any) -> Any:
    if kind is Path:
        return click.Path(path_type=Path)
    return click.Choice(get_args(kind)) if get_origin(kind) is Literal else kind


# --- options of several commands


def _take_json(context: click.Context, parameter: click.Parameter, as_json: bool) -> bool:
    if as_json:
        context.with_resource(reserve_output())
    return as_json


def _check_run_name(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """A name, not a path: the config says where runs are."""
    if name is not None and (not name or "/" in name or name.endswith(".db")):
        text = f"{name!r} is not a run name: use letters, digits, and . _ - + @, no path"
        raise click.BadParameter(text, context, parameter)
    return name


Json = Annotated[bool, "--json", "Print one JSON document instead of text.", {"callback": _take_json}]
Directory = Annotated[
    Path, "--dir", "The directory of the runs.", {"default": Path("runs"), "show_default": True, "required": False}
]
Form = Annotated[Format, "--format", {"default": "terminal", "show_default": True}]
DryRun = Annotated[bool, "Only print the expected cost; run nothing."]
Accept = Annotated[bool, "Continue although the suite has changed; the run records that."]
Skip = Annotated[tuple[str, ...], "Leave this task out from now on. Repeatable.", {"metavar": "TASK"}]
By = Annotated[
    tuple[str, ...],
    "Break results down by budget, model (of several evaluations) or a group such as difficulty. Repeatable.",
]
RUN = {"callback": _check_run_name}
OfConfig = Annotated[str | None, RUN, "--run", "Name of the run (default: the config's file name)."]
OfGivenConfig = Annotated[
    str | None, RUN, "--run", "Name of the run (default: the config's file name, where a CONFIG is given)."
]
