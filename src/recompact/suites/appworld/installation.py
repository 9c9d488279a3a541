"""Where AppWorld and its data are, `recompact setup appworld`, and the data without the ground truth.

Used in the harness, which never imports the package: it pins old versions of libraries that recompact uses itself. The
view without the ground truth is all that a process in which an agent's code runs may see. It is next to the data and
shares its files; it is made once, and again when there are other tasks or difficulties.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recompact.environments.installations import (
    HostNeeds,
    Say,
    SetupFailed,
    SetupRequest,
    installations,
    interpreter_of,
    locate,
    make_venv,
    pip_install,
    run_step,
)
from recompact.errors import InputError

VIEW = "recompact-view"
DIFFICULTIES = "difficulties.json"
TRUTH = "ground_truth"
_SHARED = ("datasets", "base_dbs", "api_docs")
_OF_A_TASK = ("specs.json", "dbs")


def agents_view(root: Path) -> Path:
    """A root like `root`, whose tasks have no ground truth; their difficulties are in a separate file."""
    view = root / VIEW
    tasks = sorted(place for place in (root / "data" / "tasks").iterdir() if (place / "specs.json").is_file())
    difficulties = {place.name: _difficulty(place) for place in tasks}
    if _is_current(view, difficulties):
        return view
    try:
        fresh = Path(tempfile.mkdtemp(prefix=f".{VIEW}-", dir=root))
        fresh.chmod(0o755)
        for name in _SHARED:
            shutil.copytree(root / "data" / name, fresh / "data" / name, copy_function=_share)
        for place in tasks:
            _share_task(place, fresh / "data" / "tasks" / place.name)
        (fresh / DIFFICULTIES).write_text(json.dumps(difficulties))
        if view.exists():
            os.rename(view, Path(tempfile.mkdtemp(prefix=f".{VIEW}-old-", dir=root)) / VIEW)
        os.rename(fresh, view)
    except OSError as error:
        raise InputError(f"the data without the ground truth cannot be laid out in {view}: {error}") from None
    return view


def _is_current(view: Path, difficulties: dict[str, int | None]) -> bool:
    try:
        return bool(json.loads((view / DIFFICULTIES).read_text()) == difficulties)
    except (OSError, ValueError):
        return False


def _difficulty(task: Path) -> int | None:
    try:
        difficulty = json.loads((task / TRUTH / "metadata.json").read_text())["difficulty"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return difficulty if isinstance(difficulty, int) else None


def _share_task(task: Path, place: Path) -> None:
    place.mkdir(parents=True)
    for name in _OF_A_TASK:
        source = task / name
        if source.is_dir():
            shutil.copytree(source, place / name, copy_function=_share)
        elif source.exists():
            _share(str(source), str(place / name))


def _share(source: str, target: str) -> str:
    """Link the file under another name, or copy it where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


NAME = "appworld"
PYTHON_VARIABLE = "RECOMPACT_APPWORLD_PYTHON"
ROOT_VARIABLE = "APPWORLD_ROOT"
PARTS = ("tasks", "datasets", "base_dbs", "api_docs")

WAY_OUT = (
    f"run `recompact setup {NAME}`, or install the package appworld in a virtual environment, run `appworld"
    f" install` in it and name its interpreter in [suite] python or {PYTHON_VARIABLE}"
)


def host_needs(options: Mapping[str, Any], python: str | None, directory: Path) -> HostNeeds:
    """The interpreter, the data as an agent's host may see them, and the data as the grader sees them."""
    python = python or interpreter()
    check_package(python)
    root = data_root(options.get("root"), directory)
    rest = {key: value for key, value in options.items() if key != "root"}
    view = agents_view(root)
    return HostNeeds(
        python,
        {**rest, "root": str(view)},
        grader={**rest, "root": str(root), "grading": True},
        sandbox="require",
    )


def interpreter() -> str:
    return interpreter_of(NAME, PYTHON_VARIABLE, f"AppWorld is not installed: {WAY_OUT}")


def check_package(python: str) -> None:
    """Refuse an interpreter without the package, or with one whose apps are still packed."""
    package = locate(python, "appworld")
    if package is None or not (package / "environment.py").is_file():
        raise InputError(f"suite {NAME!r}: {python} has no package appworld: {WAY_OUT}")
    if not (package / "apps" / "supervisor").is_dir():
        raise InputError(
            f"suite {NAME!r}: the apps of {package} are still packed: run `{Path(python).parent / 'appworld'} install`"
        )


def data_root(chosen: object = None, directory: Path = Path()) -> Path:
    """The directory that holds `data`: from the config, a variable, or `recompact setup`."""
    named = chosen or os.environ.get(ROOT_VARIABLE)
    root = directory / Path(str(named)).expanduser() if named else installations() / NAME / "root"
    root = root.resolve()  # a sandboxed host sees places only under their real names
    lacking = [part for part in PARTS if not (root / "data" / part).is_dir()]
    if lacking:
        raise InputError(
            f"suite {NAME!r}: the task data are missing: {root / 'data'} has no {', '.join(lacking)};"
            f" run `recompact setup {NAME}` where there is a network, or name a data root in [suite.options] root or"
            f" {ROOT_VARIABLE}"
        )
    return root


def missing() -> str | None:
    """What has to be done before the suite can be used; None if it can."""
    try:
        check_package(interpreter())
        data_root()
    except InputError as error:
        return str(error)
    return None


REQUIREMENT = "appworld==0.1.3.post1"

# On failure it prints why. The address and the key are the package's own.
_FETCH = """
import sys
import requests
from appworld import download
from appworld.common.constants import DB_VERSION
url = f"{download.S3_BASE_URL}data-{DB_VERSION}.bundle"
try:
    with requests.get(url, timeout=(20, 120), stream=True) as response, open(sys.argv[1], "wb") as file:
        response.raise_for_status()
        for part in response.iter_content(1 << 20):
            file.write(part)
except requests.RequestException as error:
    sys.exit(f"{url} could not be fetched: {type(error).__name__}")
"""
_UNPACK = """
import sys
from appworld.common.constants import PASSWORD, SALT
from appworld.common.utils import unpack_bundle
unpack_bundle(bundle_file_path=sys.argv[1], base_directory=sys.argv[2], password=PASSWORD, salt=SALT)
"""


def setup(request: SetupRequest, say: Say) -> None:
    """Do what has not been done yet. Raises SetupFailed at the first step that cannot be done."""
    python = str(make_venv(request.place / "venv", request.python or sys.executable, say))
    if not _runs(python, "import appworld.install"):
        pip_install(request.place / "venv" / "bin" / "python", [REQUIREMENT], say)
    if not _runs(python, "import appworld.apps.supervisor.models"):
        say("unpacking the apps")
        run_step("unpacking the apps", [python, "-c", "from appworld.install import install_package as i; i()"])
    root = request.place / "root"
    if all((root / "data" / part).is_dir() for part in PARTS):
        say(f"the task data already exist: {root / 'data'}")
    else:
        _fill(python, request, say)
    say("laying out what agents may see of the data")
    agents_view(root)


def _runs(python: str, code: str) -> bool:
    try:
        run_step("", [python, "-c", code])
    except SetupFailed:
        return False
    return True


def _fill(python: str, request: SetupRequest, say: Say) -> None:
    """The data, from the user's own bundle or from the network; they appear whole or not at all."""
    root = request.place / "root"
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        bundle = request.source
        if bundle is None:
            say("fetching the task data")
            bundle = os.path.join(scratch, "data.bundle")  # type: ignore[assignment]
            try:
                run_step("fetching the task data", [python, "-c", _FETCH, str(bundle)])
            except SetupFailed as failure:
                raise SetupFailed(
                    f"{failure}. The package is installed; only the task data are missing. Run this again where there"
                    f" is a network, or fetch that file elsewhere and run `recompact setup {NAME} --from FILE`"
                ) from None
        say("unpacking the task data")
        run_step("unpacking the task data", [python, "-c", _UNPACK, str(bundle), scratch], "is it AppWorld's bundle?")
        lacking = [part for part in PARTS if not os.path.isdir(os.path.join(scratch, "data", part))]
        if lacking:
            raise SetupFailed(f"{bundle} has no {', '.join(lacking)} in it: it is not the bundle of AppWorld's data")
        shutil.rmtree(root / "data", ignore_errors=True)
        os.rename(os.path.join(scratch, "data"), root / "data")
