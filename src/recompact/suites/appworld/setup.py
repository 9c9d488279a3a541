"""`recompact setup appworld`: the package in a virtual environment, its apps unpacked, and the task data."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

from recompact.environments.installations import Say, SetupFailed, SetupRequest, make_venv, pip_install, run_step
from recompact.suites.appworld.installation import NAME, PARTS, agents_view

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
