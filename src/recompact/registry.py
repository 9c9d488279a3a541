"""How suites, models, compressors and methods are found by name: built in, installed, or in a user's own file."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import operator
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from recompact.errors import InputError, OptionError, was_pressed


@dataclass(frozen=True)
class Registry:
    """Plug-ins of one kind. A name is looked up among the built-in ones, then among those that packages declare in the
    entry-point group, this package's own first; `file.py:name` and `package.module:name` need no declaration."""

    kind: str
    group: str
    built_in: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """All names that need no colon."""
        return tuple(dict.fromkeys([*self.built_in, *_declared_plugins(self.group)]))

    def target(self, name: str) -> str:
        """Where a name leads, as `package.module:name`; one that is neither built in nor installed is its own target.

        >>> Registry("suite", "no.such.group", {"pocket": "worlds:Pocket"}).target("pocket")
        'worlds:Pocket'
        """
        declared = None if name in self.built_in else _declared_plugins(self.group).get(name)
        if declared is None:
            return self.built_in.get(name, name)
        module, _, attribute = declared.value.partition("[")[0].partition(":")  # what is in brackets are extras
        return f"{module.strip()}:{attribute.strip()}"

    def default(self, role: str) -> str:
        """The name of the plug-in that our own table of declarations makes the default in a role."""
        (target,) = [entry.value for entry in _own_plugins("recompact.defaults") if entry.name == role]
        return next(entry.name for entry in _own_plugins(self.group) if entry.value == target)

    def find(self, name: str, directory: Path = Path()) -> Any:
        """What a name stands for. Files are relative to `directory`."""
        target = self.built_in.get(name)
        if target is None and (declared := _declared_plugins(self.group).get(name)) is not None:
            try:
                return declared.load()
            except Exception as error:
                raise InputError(
                    f"{self.kind} {name!r} ({declared.value}) could not be loaded: {_cause(error)}"
                ) from error
        place, _, attribute = (target or name).rpartition(":")
        if not place or not attribute:
            raise InputError(self._unknown(name))
        try:
            module = from_file(directory / place) if place.endswith(".py") else importlib.import_module(place)
        except InputError as error:
            raise InputError(f"{self.kind} {name!r}: {error}") from None
        except ModuleNotFoundError as error:
            raise InputError(f"{self.kind} {name!r}: no module {error.name!r} can be imported") from None
        except Exception as error:
            raise InputError(f"{self.kind} {name!r}: {place} could not be loaded: {_cause(error)}") from error
        try:
            return getattr(module, attribute)
        except AttributeError:
            raise InputError(f"{self.kind} {name!r}: {place} has no {attribute!r}") from None

    def make(
        self, name: str, options: Mapping[str, Any], kind: type, needs: str, directory: Path, **offered: Any
    ) -> Any:
        """The plug-in of that name as a `kind`: it may be one, or anything that is called with the options, and with
        those of `offered` that it has a parameter for, and returns one. `needs` says what makes it one."""
        plugin = self.find(name, directory)
        if isinstance(plugin, kind) and not isinstance(plugin, type):
            if options:
                raise OptionError(f"{self.kind} {name!r} takes no options", next(iter(options)))
            return plugin
        value = build(plugin, options, **offered) if callable(plugin) else plugin
        if not isinstance(value, kind):
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise InputError(f"{self.kind} {name!r} is not {article} {self.kind}: {needs}")
        return value

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.names(), 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self.names())}"
        return f"there is no {self.kind} {name!r}; {hint}; one of your own is file.py:name or package.module:name"


@cache
def _declared_plugins(group: str) -> Mapping[str, EntryPoint]:
    own = {entry.name: entry for entry in _own_plugins(group)}
    return own | {entry.name: entry for entry in entry_points(group=group) if entry.name not in own}


def _own_plugins(group: str) -> Iterator[EntryPoint]:
    """What this package declares in a group."""
    table = _own_table()
    if table.has_section(group):
        yield from (EntryPoint(name, value, group) for name, value in table.items(group))


@cache
def _own_table() -> ConfigParser:
    """This package's own copy of its declarations: an interpreter in which an environment lives may have this package
    but not its metadata, and the metadata of an editable installation may be older than the code."""
    table = ConfigParser(delimiters="=", interpolation=None)
    table.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    table.read_string(Path(__file__).with_name("entry_points.txt").read_text(encoding="utf-8"))
    return table


_files: dict[tuple[Path, int], ModuleType] = {}


def from_file(path: Path) -> ModuleType:
    """A module from a user's file, loaded once for each version of the file."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    key = (path.resolve(), path.stat().st_mtime_ns)
    if key in _files:
        return _files[key]
    try:
        module = _run_file(path.resolve())
    except BaseException as error:
        if issubclass(type(error), KeyboardInterrupt) and was_pressed(error):
            raise
        raise InputError(f"{path} could not be loaded: {_cause(error)}") from None
    _files[key] = module
    return module


def _run_file(path: Path) -> ModuleType:
    """Run a file anew and return its module. It imports the files beside it by their names; the standard library takes
    precedence over them, and they over installed packages."""
    directory = str(path.parent)
    _prefer(directory)
    name = f"recompact_file_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)  # so that its dataclasses are found
    try:
        # Not by the loader: its bytecode of a file of the same size and second would pass for the file's.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


_directories: set[str] = set()


def _prefer(directory: str) -> None:
    """Let imports look into this directory first of those with users' files, and forget what they got from others
    under a name that a file here has: what the others import from now on under such a name comes from here."""
    here = {entry.removesuffix(".py") for entry in os.listdir(directory)}
    others = _directories - {directory}
    stale = {name for name in here & sys.modules.keys() if _home(sys.modules[name]) in others}
    for name in [name for name in sys.modules if name.partition(".")[0] in stale]:
        del sys.modules[name]
    _directories.add(directory)
    if directory in sys.path:
        sys.path.remove(directory)
    installed = (n for n, place in enumerate(sys.path) if place.endswith("-packages") or place in _directories)
    sys.path.insert(next(installed, len(sys.path)), directory)
    importlib.invalidate_caches()


def _home(module: ModuleType) -> str:
    """The directory in which the file or the folder of a module lies."""
    file = Path(getattr(module, "__file__", None) or "")
    return str(file.parent.parent if file.name == "__init__.py" else file.parent)


@dataclass(frozen=True)
class Limit:
    """The limits of a number, in the annotation of an option: `Annotated[float, Limit(gt=0)]`. Those of
    annotated_types work too; environments cannot have them, as they live with the standard library alone."""

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None


def build(factory: Callable[..., Any], options: Mapping[str, Any], **offered: Any) -> Any:
    """Call a plug-in with its options, and with those of `offered` that it has a parameter for.

    >>> build(lambda endpoint, speed=1: (endpoint, speed), {"speed": 3}, endpoint="here", count=len)
    ('here', 3)
    """
    check_options(factory, options, *offered)
    parameters = _parameters(factory)
    accepted = {name: value for name, value in offered.items() if name in parameters}
    return _call(factory, {**options, **accepted})


def has_parameter(factory: Callable[..., Any], name: str) -> bool:
    return name in _parameters(factory)


def check_options(factory: Callable[..., Any], options: Mapping[str, Any], *offered: str) -> None:
    """Refuse options that a plug-in has no parameter for, values that its annotations exclude, and the lack of an
    option that it needs. The value given is not repeated: it may be a key."""
    parameters = _parameters(factory)
    if not parameters and not options:
        return
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    own = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and n not in offered]
    for key in options:
        if key in own or (anything and key not in offered):
            continue
        near = difflib.get_close_matches(key, own, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(own) or 'none'}"
        raise OptionError(f"there is no option {key!r}; {hint}", key)
    for name in own:
        if parameters[name].default is inspect.Parameter.empty and name not in options:
            raise OptionError(f"the option {name!r} is needed")
    for key, value in options.items():
        if key in own and (wrong := _misfit(parameters[key].annotation, value)):
            raise OptionError(f"the option {key!r} {wrong}", key)


def _misfit(annotation: Any, value: Any) -> str:
    """What a value must be and is not, by an annotation that consists of plain values; others say nothing.

    >>> _misfit(int, 3), _misfit(int, "3"), _misfit(bool | None, None), _misfit(list[int], "3")
    ('', 'must be a whole number', '', '')
    """
    wanted = _alternatives(annotation, value)
    return f"must be {' or '.join(dict.fromkeys(wanted))}" if wanted else ""


def _alternatives(annotation: Any, value: Any) -> list[str]:
    """What the value could be instead; nothing where it fits, or where the annotation is of another kind.

    By hand, since environments live in interpreters that have this package but none of its requirements.
    """
    inner, *limits = get_args(annotation) or (annotation,)
    kind = get_origin(annotation)
    if kind in (Union, UnionType):
        each = [_alternatives(one, value) for one in get_args(annotation)]
        return [text for texts in each for text in texts if text != _NOTHING] if all(each) else []
    if kind is Literal:
        fits = any(value == choice and type(value) is type(choice) for choice in get_args(annotation))
        return [] if fits else [repr(choice) for choice in get_args(annotation)]
    if kind is Sequence and inner is str:  # one text would pass for a list of its letters
        fits = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        return [] if fits else ["a list of texts"]
    if kind is Annotated:
        return _alternatives(inner, value) or [text for limit in limits for text in _beyond(limit, value)]
    if not isinstance(annotation, type) or annotation not in _PLAIN:
        return []
    types, name = _PLAIN[annotation]
    return [] if isinstance(value, types) and (types is bool or not isinstance(value, bool)) else [name]


_NOTHING = "nothing"
_PLAIN: Mapping[type, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
    bool: (bool, "true or false"),
    NoneType: (NoneType, _NOTHING),
}
_LIMITS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "gt": (operator.gt, "greater than"),
    "ge": (operator.ge, "at least"),
    "lt": (operator.lt, "less than"),
    "le": (operator.le, "at most"),
}


def _beyond(limit: Any, value: Any) -> Iterator[str]:
    """The limits that a number violates."""
    for key, (kept, words) in _LIMITS.items() if isinstance(value, Real) else ():
        if isinstance(bound := getattr(limit, key, None), Real) and not kept(value, bound):
            yield f"{words} {bound}"


def _parameters(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        try:
            return inspect.signature(factory, eval_str=True).parameters
        except Exception:  # an annotation names something that does not exist at run time
            return inspect.signature(factory).parameters
    except (TypeError, ValueError):  # a callable without a signature: it may take anything
        return {"options": inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)}


def _call(factory: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return factory(**arguments)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise OptionError(f"the options are not accepted: {error}") from error


def _cause(error: BaseException) -> str:
    """What was raised and, outside this package and the libraries, on which line of which file."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parent)
    own = [f for f in frames if not f.filename.startswith((ours, "<")) and "site-packages" not in f.filename]
    place = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own and own[-1].filename.endswith(".py") else ""
    return f"{type(error).__name__}: {error}{place}"
