"""Which tests are asked about a module, and which files they are in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "mutants"
SOURCE = Path("src/recompact")
PACKAGES: Mapping[str, tuple[str, ...]] = {  # the package with its own tests, as paths under tests/
    "values": ("values",),
    "compressors": ("compressors",),
    "rollout": ("engine",),
    "attribution": ("attribution",),
    "adaptation": ("adaptation",),
    "evaluation": ("evaluation",),
}
WITNESSES = ("values", "compressors", "attribution", "adaptation", "evaluation")
"""The folders of tests that are asked, besides the files directly under tests/."""
STRAYS = ("test_neighbours.py", "test_observation_cap.py")  # about values and the rollout, but in another folder
SILENT = ("test_docs.py", "test_plugins.py", "test_resilience.py", "test_verify_resilience.py")
"""They start other processes, or run for minutes."""


def files_of_tests(tree: Path) -> list[Path]:
    return [path for path in sorted((tree / "tests").rglob("test_*.py")) if _has_a_say(path.relative_to(tree).parts)]


def _has_a_say(parts: Sequence[str]) -> bool:
    if parts[-1] in SILENT:
        return False
    return len(parts) == 2 or parts[1] in WITNESSES or parts[-1] in STRAYS or parts[:-1] == ("tests", "engine")


def file_of(test: str) -> str:
    return test.partition("::")[0]


def is_own(package: str, test: str) -> bool:
    path = Path(file_of(test)).relative_to("tests")
    if len(path.parts) == 1:
        return any(path.match(pattern) for pattern in PACKAGES[package])
    return path.parts[0] in PACKAGES[package]


def name_of(module: str) -> str:
    return module.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]
