from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTICIPLE = re.compile(
    r"(?!deed|feed|need|seed)(\w+ed|built|brought|chosen|done|drawn|found|given|gone|held|hidden|kept|known|left|lost"
    r"|made|meant|said|seen|sent|shown|spent|taken|told|won|written)"
)
KINDS = frozenset({"prompted"})  # a compressor's name in a config


def functions(path: Path) -> Iterator[str]:
    """The functions of a module, and the private methods of its classes."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            yield from (each.name for each in methods if each.name.startswith("_") and not each.decorator_list)


def is_bare_participle(name: str) -> bool:
    word = name.strip("_")
    return "_" not in word and PARTICIPLE.fullmatch(word) is not None


def test_a_bare_participle_is_recognised() -> None:
    names = ("_found", "joined", "join", "_read_needed", "seed", "told")
    assert [name for name in names if is_bare_participle(name)] == ["_found", "joined", "told"]


def test_no_function_is_named_by_a_bare_participle() -> None:
    except_in = {
        ROOT / "src/recompact/environments/conformance.py",  # its functions are named by what they check
        ROOT / "experiments/mini-files/tasks.py",  # runs under way have its fingerprint, which a new name would change
    }
    paths = [path for place in ("src", "experiments", "benchmarks") for path in (ROOT / place).rglob("*.py")]
    assert len(paths) > 300
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name in functions(path)
        if path not in except_in and is_bare_participle(name) and name not in KINDS
    ]
    assert not wrong
