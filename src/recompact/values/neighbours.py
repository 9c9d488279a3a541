"""Loading a user's Python file that may import the files beside it, while it loads and at any later time.

Files beside one another are modules of a package that only they know, so that files of the same name in different
directories do not collide. The standard library and Recompact itself take precedence over files of the same name.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_PREFIX = "recompact_files_"


def load_with_neighbours(path: Path) -> ModuleType:
    """Run a file anew and return its module."""
    package = _package(path.parent)
    name = f"{package}.{path.stem}"
    sys.modules.pop(name, None)  # another version of the file
    spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path)))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that its dataclasses are found
    try:
        _Loader(name, str(path)).exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _package(directory: Path) -> str:
    """The name of the package that consists of the files of a directory."""
    name = _PREFIX + hashlib.sha256(str(directory).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(directory)]
        sys.modules[name] = package
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
    return name


class _Finder:
    """Finds modules of such packages, to be loaded so that they find their neighbours too."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(_PREFIX) or path is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        package = module.__name__.partition(".")[0]

        def import_(
            name: str,
            globals: Mapping[str, object] | None = None,
            locals: Mapping[str, object] | None = None,
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            if level == 0 and _is_neighbour(name.partition(".")[0], package):
                return _import_neighbour(package, name, fromlist or ())
            return builtins.__import__(name, globals, locals, fromlist or (), level)

        # An `import` uses what it finds here in the module it is written in, even long after the module was loaded.
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_}
        super().exec_module(module)


def _is_neighbour(name: str, package: str) -> bool:
    if name in sys.stdlib_module_names or name == __name__.partition(".")[0]:
        return False
    directory = Path(sys.modules[package].__path__[0])
    return (directory / f"{name}.py").is_file() or (directory / name / "__init__.py").is_file()


def _import_neighbour(package: str, name: str, names: Sequence[str]) -> ModuleType:
    """What an import statement gets: the module with the names in it, or the first part of a dotted name."""
    module = importlib.import_module(f"{package}.{name}")
    if not names:
        return sys.modules[f"{package}.{name.partition('.')[0]}"]
    for each in names:
        if each != "*" and not hasattr(module, each) and hasattr(module, "__path__"):
            importlib.import_module(f"{package}.{name}.{each}")
    return module
