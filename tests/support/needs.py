"""What a test needs besides the project and its dependencies: the one list of tools, data and rights.

`needs("bubblewrap")` marks a test, `require("bubblewrap")` stands inside one or at the top of a module; both skip with
the reason. At its end pytest prints one line for each thing that was missing, with the command that brings it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("RECOMPACT_DATA") or ROOT.parent / "shared" / "data")
OFFICEBENCH = Path(os.environ.get("RECOMPACT_OFFICEBENCH") or DATA / "officebench")
TAU2_REFERENCE = Path(os.environ.get("RECOMPACT_TAU2_REFERENCE") or DATA / "tau2")
TRANSCRIPTS = DATA / "transcripts"
RELEASED_RUNS = DATA / "reference_runs" / "tau2_retail.csv"
MINI = ROOT / ".agents" / "mini" / "bin" / "mini"
PAPER = Path(os.environ.get("RECOMPACT_PAPER") or ROOT.parent / "shared" / "seeds")


@dataclass(frozen=True)
class Need:
    """`problem` says what is wrong where it is not met, and nothing where it is; `remedy` is a command or a setting."""

    problem: Callable[[], str]
    subject: str
    remedy: str

    @property
    def reason(self) -> str:
        return f"{self.problem()}; {self.remedy}"


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip what it marks where any of these is missing."""
    unknown = [name for name in names if name not in NEEDS]
    assert not unknown, f"tests/support/needs.py knows no {unknown}"
    return pytest.mark.needs(*names)


def require(*names: str) -> None:
    """Skip from here on where any of these is missing: the rest of a test, or of a module."""
    for name in names:
        if unmet(name):
            pytest.skip(NEEDS[name].reason, allow_module_level=True)


@cache
def unmet(name: str) -> bool:
    return bool(NEEDS[name].problem())


def skip_unmet(items: Iterable[pytest.Item]) -> None:
    """Mark for skipping what needs something that is missing; the first need that it names is the reason."""
    for item in items:
        names = [name for mark in item.iter_markers("needs") for name in mark.args]
        if lacking := [name for name in names if unmet(name)]:
            item.add_marker(pytest.mark.skip(reason=NEEDS[lacking[0]].reason))


def summary(reasons: Iterable[str]) -> Iterator[str]:
    """One line for each need that was not met, from the reasons that tests were skipped for."""
    counts = Counter(reasons)
    for need in NEEDS.values():
        if number := counts[need.reason] if need.problem() else 0:
            tests = "1 test" if number == 1 else f"{number} tests"
            yield f"{need.problem()}: {tests} of {need.subject} skipped; {need.remedy}"


def _program(name: str, *others: str) -> Callable[[], str]:
    return lambda: "" if any(map(shutil.which, (name, *others))) else f"{name} is missing"


def _package(module: str, name: str) -> Callable[[], str]:
    def problem() -> str:
        try:
            return "" if importlib.util.find_spec(module) else f"{name} is missing"
        except ModuleNotFoundError:  # what it is a part of is missing
            return f"{name} is missing"

    return problem


def _place(path: Path, what: str) -> Callable[[], str]:
    return lambda: "" if os.path.exists(path) else f"{what} at {path} is missing"


def _variable(name: str, what: str) -> Callable[[], str]:
    return lambda: "" if os.environ.get(name) else f"{what} is not set up"


@cache
def _bubblewrap() -> str:
    from recompact.environments.sandbox import find_bubblewrap

    program, problem = find_bubblewrap()
    return "" if program else "bubblewrap is missing" if shutil.which("bwrap") is None else problem


def _sized_places() -> str:
    from recompact.environments.sandbox import HostLimits, find_bubblewrap

    sized = HostLimits().in_memory(find_bubblewrap()[0], "/tmp")
    return _bubblewrap() or ("" if sized else "bubblewrap is older than 0.8")


def _process_limit() -> str:
    from recompact.environments.protection import ProcessLimit, process_limit

    return "the kernel limits no processes here" if process_limit() == ProcessLimit() else ""


def _control_groups() -> str:
    from recompact.environments.protection import process_limit

    return "no control group limits processes here" if process_limit().groups is None else ""


def _browser() -> str:
    chromium = _program("chromium", "chromium-browser", "google-chrome")()
    return "Chromium is missing" if chromium or shutil.which("chromedriver") is None else ""


def _tau2() -> str:
    from recompact.suites.tau2.installation import PYTHON_VARIABLE, missing

    return "tau2-bench is missing" if not os.environ.get(PYTHON_VARIABLE) or missing() is not None else ""


def _paper() -> str:
    return "" if PAPER.is_dir() and any(PAPER.glob("*.txt")) else f"the paper's text at {PAPER} is missing"


NEEDS = {
    "bubblewrap": Need(_bubblewrap, "the sandbox", "`make sandbox`"),
    "sized places": Need(_sized_places, "places of a size", "install bubblewrap 0.8 or later"),
    "browser": Need(_browser, "the pages", "`make browser`"),
    "node": Need(_program("node"), "the exports", "install Node.js"),
    "process limit": Need(_process_limit, "fork bombs", "`make sandbox`"),
    "control groups": Need(_control_groups, "control groups", "run as root, without bubblewrap"),
    "root": Need(lambda: "" if os.geteuid() == 0 else "root is missing", "full disks and other users", "run as root"),
    "ordinary user": Need(
        lambda: "this is root, whom nothing stops" if os.geteuid() == 0 else "",
        "files without permission",
        "run as an ordinary user",
    ),
    "linux": Need(lambda: "" if sys.platform == "linux" else "this is not Linux", "processes", "run on Linux"),
    "tau2-bench": Need(_tau2, "tau2-bench", "`make test-benchmarks`"),
    "appworld": Need(_variable("RECOMPACT_APPWORLD_PYTHON", "AppWorld"), "AppWorld", "`make test-benchmarks`"),
    "llmlingua": Need(_package("llmlingua", "the package llmlingua"), "LLMLingua-2", "`make test-llmlingua`"),
    "otel": Need(_package("opentelemetry.sdk", "OpenTelemetry"), "spans", "`pip install '.[otel]'`"),
    "mlflow": Need(_package("mlflow", "MLflow"), "its tracker", "`pip install '.[mlflow]'`"),
    "wandb": Need(_package("wandb", "Weights & Biases"), "its tracker", "`pip install '.[wandb]'`"),
    "harbor": Need(_package("harbor", "Harbor"), "its trials", "see docs/exchange.md"),
    "containers": Need(
        _variable("RECOMPACT_TEST_CONTAINERS", "podman or docker"), "containers", "`make test-containers`"
    ),
    "pyarrow": Need(_package("pyarrow", "pyarrow"), "datasets", "`pip install '.[dataset]'`"),
    "ray": Need(_package("ray", "Ray"), "clusters", "`make test-ray`"),
    "langchain": Need(_package("langchain_openai", "LangChain"), "its integration", "`make test-agents`"),
    "mini": Need(_place(MINI, "mini-swe-agent"), "its experiment", "see experiments/README.md"),
    "agents": Need(_variable("RECOMPACT_TEST_AGENTS", "the place of real agents"), "agents", "`make test-agents`"),
    "harnesses": Need(
        _variable("RECOMPACT_TEST_HARNESSES", "the download of harnesses"), "real harnesses", "`make test-harnesses`"
    ),
    "model": Need(_variable("RECOMPACT_TEST_MODEL", "a server with a model"), "a real model", "`make test-model`"),
    "wheel": Need(_variable("RECOMPACT_TEST_WHEEL", "the wheel"), "the wheel", "`make test-wheel`"),
    "officebench": Need(_place(OFFICEBENCH / "tasks", "OfficeBench"), "OfficeBench", "see docs/officebench.md"),
    "tau2 reference": Need(
        _place(TAU2_REFERENCE / "expected.json", "the reference"), "tau2-bench", "set RECOMPACT_TAU2_REFERENCE"
    ),
    "transcripts": Need(_place(TRANSCRIPTS, "the directory of transcripts"), "transcripts", "set RECOMPACT_DATA"),
    "released runs": Need(_place(RELEASED_RUNS, "the table of released runs"), "evaluation", "set RECOMPACT_DATA"),
    "paper": Need(_paper, "the paper's tables", "set RECOMPACT_PAPER"),
}
