"""The mutants: small changes to the code by the operators of cosmic-ray, and a random sample of them."""

from __future__ import annotations

import ast
import difflib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from mutation.witnesses import CACHE, PACKAGES, SOURCE, digest, name_of

NOT_VALUES = ("__init__", "__main__", "version", "rollout", "collection", "study", "config")
NODES = {  # of the syntax tree, at which the large families of operators look
    "ReplaceBinaryOperator": ("operator",),
    "ReplaceComparisonOperator": ("comparison",),
    "ReplaceUnaryOperator": ("factor", "not_test"),
}


@dataclass(frozen=True)
class Mutant:
    module: str
    package: str
    operator: str
    occurrence: int
    line: int
    column: int

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line}:{self.column} {self.operator}"


def modules(root: Path) -> dict[str, str]:
    """The modules to mutate, each with its package."""
    paths: dict[str, str] = {}
    for path in sorted((root / SOURCE).rglob("*.py")):
        inside = path.relative_to(root / SOURCE)
        package = "values" if inside == Path("registry.py") else inside.parts[0]
        if inside == Path("engine/rollout.py"):
            package = "rollout"
        elif package == "values" and inside.stem in NOT_VALUES:
            continue
        if package in PACKAGES:
            paths[path.relative_to(root).as_posix()] = package
    return paths


def mutants_of(module: str, package: str, text: str) -> Iterator[Mutant]:
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.operators.provider import OperatorProvider

    idle = idle_spans(text)
    provider = OperatorProvider()
    nodes = [node for node in ast_nodes(get_ast(text)) if node.type not in ("name", "newline", "string", "endmarker")]
    for name in provider:
        family = name.partition("_")[0]
        if family in ("VariableReplacer", "VariableInserter"):  # they need the names of variables
            continue
        types = NODES.get(family)
        near = [node for node in nodes if types is None or node.type in types]
        positions = [start for node in near for start, _ in provider[name]().mutation_positions(node)]
        for occurrence, start in enumerate(positions):
            if not any(low <= start < high for low, high in idle):
                yield Mutant(module, package, name, occurrence, *start)


def idle_spans(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Places whose change nothing can notice (annotations, caches, `strict` of zip), and stars that unpack."""
    spans = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Starred) or (isinstance(node, ast.keyword) and node.arg is None):
            spans.append(((node.lineno, node.col_offset), (node.lineno, node.col_offset + 2)))
        if isinstance(node, ast.Dict):
            unpacked = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
            spans += [((each.lineno, each.col_offset - 2), (each.lineno, each.col_offset)) for each in unpacked]
        parts: list[Any] = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts += [each for each in node.decorator_list if "cache" in ast.unparse(each)]
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
            parts += [keyword for keyword in node.keywords if keyword.arg == "strict"]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts.append(node)
        for part in filter(None, parts):
            before = 1 if "cache" in ast.unparse(part) and part.col_offset else 0  # the @ of a decorator
            spans.append(((part.lineno, part.col_offset - before), (part.end_lineno, part.end_col_offset)))
    return spans


def sample_mutants(root: Path, size: int, seed: int, packages: Sequence[str]) -> list[Mutant]:
    """The same number for each package, one at each of the places that the seed picks."""
    random = Random(seed)
    sample: list[Mutant] = []
    everything = modules(root)
    for number, package in enumerate(packages):
        places: dict[tuple[str, int, int], list[Mutant]] = defaultdict(list)
        for module in (path for path, own in everything.items() if own == package):
            for mutant in _known_mutants(root, module, package):
                places[mutant.module, mutant.line, mutant.column].append(mutant)
        share = (size + len(packages) - 1 - number) // len(packages)
        chosen = random.sample(sorted(places), min(share, len(places)))
        sample += [random.choice(places[place]) for place in chosen]
    return [mutant for mutant in sample if compiles(mutate(mutant, (root / mutant.module).read_text()))]


def _known_mutants(root: Path, module: str, package: str) -> list[Mutant]:
    """All mutants of a module, kept in a file: finding them takes as long as many tests."""
    known = CACHE / f"{name_of(module)}-{digest(root / module)}.mutants.json"
    if not known.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        mutants = mutants_of(module, package, (root / module).read_text())
        known.write_text(json.dumps([[m.operator, m.occurrence, m.line, m.column] for m in mutants]))
    return [Mutant(module, package, *each) for each in json.loads(known.read_text())]


def compiles(code: str) -> bool:
    try:
        compile(code, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def mutate(mutant: Mutant, text: str) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.operators.provider import OperatorProvider

    code = mutate_code(text, OperatorProvider()[mutant.operator](), mutant.occurrence)
    assert isinstance(code, str), f"{mutant.name} changes nothing"
    return code


def difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def in_function(mutant: Mutant, tree: Path) -> bool:
    """Whether a mutant changes the body of a function."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse((tree / mutant.module).read_text())) if isinstance(node, functions)]
    return any(node.body[0].lineno <= mutant.line <= (node.end_lineno or 0) for node in nodes)
