"""Prompts that packages keep as constants, read from made-up packages; the real ones are an opt-in test.

No prompt text of a real harness stands here.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from harness_prompts import prompts_of
from hypothesis import given, strategies as st
from needs import needs

from recompact.errors import InputError
from recompact.harnesses.importing import constant_text, from_package, write
from recompact.harnesses.registry import load_harness
from recompact.values.template import Template, lint, load

FIRST = "Sum {messages} up as {{json}}.\n## Goal\nthe aim\n## Next Steps\nwhat comes\n"
IMPORTED = "Sum {{ history }} up as {json}.\n## Goal\nthe aim\n## Next Steps\nwhat comes\n"


def langchain_site(root: Path, source: str = f"DEFAULT_SUMMARY_PROMPT = {FIRST!r}\n") -> Path:
    """A site-packages folder with a made-up LangChain."""
    info = root / "langchain-9.8.7.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: langchain\nVersion: 9.8.7\n")
    file = root / prompts_of("langchain").constants["first"][0]
    file.parent.mkdir(parents=True)
    file.write_text(source, encoding="utf-8")
    return root


def imported(package: Path | None = None, python: str | None = None) -> Template:
    return from_package("langchain", prompts_of("langchain"), package=package, python=python)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('P = """a\nb"""', "a\nb"),
        ('P = ("a" "é"\n  "\\x41")', "aéA"),
        ('P: str = "a" + "b"', "ab"),
        ('import textwrap\nP = textwrap.dedent("""\n  a\n  b""").strip()', "a\nb"),
        ('from inspect import cleandoc\nP = cleandoc("  a")', "a"),
        ('class C:\n  P = "a"', "a"),
        ('def f():\n  P = "a"', None),
        ('P = f"{x}"', None),
        ('P = "a".format(x)', None),
        ('P = "a" * 3', None),
        ('Q = "a"', None),
        ("P: str", None),
        ('def ( P = "a"', None),
        ("\0", None),
    ],
)
def test_only_a_plain_text_is_read(source: str, text: str | None) -> None:
    assert constant_text(source.encode(), "P") == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives(text: str) -> None:
    assert constant_text(f"P = {text!r}".encode(), "P") == text


@given(st.binary())
def test_any_bytes_are_no_accident(source: bytes) -> None:
    constant_text(source, "P")


def test_a_package_becomes_a_template(tmp_path: Path) -> None:
    template = imported(langchain_site(tmp_path / "site"))
    assert template.first == template.update == IMPORTED
    assert (template.provenance["package"], template.provenance["version"]) == ("langchain", "9.8.7")
    assert template.provenance["parts"]["first"]["constant"] == "DEFAULT_SUMMARY_PROMPT"
    assert str(tmp_path) not in json.dumps(dict(template.provenance))
    assert [f for f in lint(template) if f.level == "error"] == []
    write(template, tmp_path / "t", force=False)
    assert load(tmp_path / "t") == template


def test_where_a_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = langchain_site(tmp_path / "site")
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho '[\"{site}\"]'\n")
    interpreter.chmod(0o755)
    assert imported(python=str(interpreter)).provenance["version"] == "9.8.7"
    monkeypatch.setattr(sys, "path", [str(site)])
    assert imported().provenance["version"] == "9.8.7"
    checkout = tmp_path / "checkout"
    shutil.move(site, checkout / "src")
    shutil.rmtree(checkout / "src" / "langchain-9.8.7.dist-info")
    assert imported(checkout).provenance["version"] == "unknown"
    (checkout / "pyproject.toml").write_text('[project]\nname = "langchain"\nversion = "3.2"\n')
    assert imported(checkout).provenance["version"] == "3.2"


@pytest.mark.parametrize(("package", "python"), [("nowhere", None), (None, "nowhere"), (None, None), (".", "x")])
def test_a_package_that_is_not_there_is_refused(
    package: str | None, python: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(InputError):
        imported(Path(package) if package else None, python)


def test_a_constant_that_is_not_plain_is_refused(tmp_path: Path) -> None:
    site = langchain_site(tmp_path / "site", "DEFAULT_SUMMARY_PROMPT = build()\n")
    with pytest.raises(InputError, match="recompact prompts import FILE"):
        imported(site)


# The real packages: `make test-harnesses`.
PIP = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest"]


def downloaded(harness: str, version: str, scratch: Path) -> Path:
    """The package alone, unpacked: its dependencies hold none of its prompts, and no script of it is run."""
    target = Path(os.environ.get("RECOMPACT_HARNESS_DIR") or scratch).resolve() / harness / version
    if not (target / "package").is_dir():
        target.mkdir(parents=True, exist_ok=True)
        name = prompts_of(harness).package
        got = subprocess.run([*PIP, str(target), f"{name}=={version}"], capture_output=True, text=True, cwd=target)
        if got.returncode:
            pytest.skip(f"pip cannot get {name} {version}: {got.stderr.strip()[-300:]}")
        [archive] = [file for file in target.iterdir() if file.suffix == ".whl"]
        shutil.unpack_archive(archive, target / "package", "zip")
    return target / "package"


@needs("harnesses")
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("langchain", "1.4.7"),
        ("inspect", "0.3.285"),
        ("pydantic-ai", "0.62.0"),
        ("adk", "2.13.0"),
        ("strands", "1.62.0"),
        ("agent-framework", "1.23.0"),
    ],
)
def test_a_real_prompt_is_exported_as_it_was_imported(name: str, version: str, tmp_path: Path) -> None:
    package, prompts = downloaded(name, version, tmp_path), prompts_of(name)
    template = from_package(name, prompts, package=package, python=None)
    assert [f for f in lint(template) if f.level == "error"] == []
    module = load_harness(name).export(template, 512).files[0].text
    texts = [text for text in constants(module) if isinstance(text, str)]
    for file, constant in prompts.constants.values():
        source = (package / file).read_text(encoding="utf-8")
        assert value_of(source, constant) in texts


def constants(source: str) -> list[object]:
    values = [node.value for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    return [ast.literal_eval(value) for value in values]


def value_of(source: str, name: str) -> object:
    """What a package binds to a name: a literal, which may be dedented."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value = node.value
        if isinstance(target, ast.Name) and target.id == name and value is not None:
            return dedent(ast.literal_eval(value.args[0])) if isinstance(value, ast.Call) else ast.literal_eval(value)
    raise AssertionError(f"{name} is not there")
