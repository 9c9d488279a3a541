"""The built-in harnesses: one TOML file each in `descriptions/`, which says how a template gets into the harness.

A harness takes one prompt (`[prompt]`, with what `one_prompt` needs) or two (`[prompts]`). Its files are Jinja
templates of `prompt`, or of `first`, `update` and `system`; filters write a text as a literal of a language. Where the
prompt in force is found, `[package]` or `[settings]` says.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from recompact.harnesses.exporting import (
    Export,
    ExportFile,
    Prompt,
    both_prompts,
    format_text,
    javascript_text,
    jinja_text,
    json_text,
    one_prompt,
    origin,
    python_text,
    toml_text,
)
from recompact.harnesses.importing import PromptConstants, PromptFile
from recompact.values.reading import read_small
from recompact.values.template import Template

_FOLDER = files("recompact.harnesses") / "descriptions"
_ESCAPES: Mapping[str, Callable[[str], str]] = {"format": format_text, "jinja": jinja_text, "": str}
_LITERALS = {"python": python_text, "javascript": javascript_text, "json": json_text, "toml": toml_text}


def described_names() -> tuple[str, ...]:
    return tuple(sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml")))


@cache
def description(name: str) -> Mapping[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("recompact.harnesses", "code"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(_LITERALS)
    return environment


def prompt_of(name: str, template: Template, budget: int) -> Prompt:
    """A template as a built-in harness takes it, if that is one prompt."""
    wanted = description(name)["prompt"]
    return one_prompt(
        template,
        budget,
        earlier=wanted["earlier"],
        conversation=wanted["conversation"],
        escape=_ESCAPES[wanted.get("escape", "")],
        with_system=wanted.get("system") != "apart",
        fields=wanted.get("fields", ()),
    )


def export_described(name: str, template: Template, budget: int) -> Export:
    """The export to a built-in harness."""
    about = description(name)
    texts = {"system": template.system, "origin": origin(template)}
    if "prompt" in about:
        prompt = prompt_of(name, template, budget)
        texts["prompt"], losses = prompt.text, prompt.losses
    else:
        both = both_prompts(template, budget, about["prompts"].get("conversation"))
        texts |= {"first": both.first, "update": both.update}
        reason = about["prompts"].get("system_at_head", "") if template.system.strip() else ""
        losses = (*both.losses, *([f"system.md stands at the head of the prompt: {reason}"] if reason else []))
    rendered = tuple(
        ExportFile(file["name"], _environment().from_string(file["text"]).render(texts), file.get("place", ""))
        for file in about["files"]
    )
    return Export(rendered, tuple(about["steps"]), tuple(about["checks"]), tuple(about["traps"]), losses)


def source_described(name: str) -> PromptConstants | PromptFile | None:
    """Where the prompt that a built-in harness has in force is found; None if that is in code."""
    about = description(name)
    if package := about.get("package"):
        constants = {part: (file, constant) for part, (file, constant) in package["constants"].items()}
        return PromptConstants(package["name"], constants, package.get("fields"))
    if settings := about.get("settings"):
        key, file_key = settings.get("key", ""), settings.get("file_key", "")
        read = partial(_prompt_in_toml, key, file_key) if key else _prompt_in_jinja
        return PromptFile(key, settings["folder"], tuple(settings["names"]), read, settings.get("variable", ""))
    return None


def _prompt_in_toml(key: str, file_key: str, text: str, path: Path) -> str | None:
    """The prompt in settings: in a file that they name, or else under its own key."""
    settings = tomllib.loads(text)
    if isinstance(named := settings.get(file_key), str):
        return read_small(Path(path.parent, Path(named).expanduser()))
    prompt = settings.get(key)
    return prompt if isinstance(prompt, str) else None


def _prompt_in_jinja(text: str, path: Path) -> str:
    """A Jinja file as one of our prompts: its placeholder becomes ours, and its escapes are undone."""
    escapes = re.compile(r'\{\{ "(\{[{%#])" \}\}|\{\{-?\s*messages\s*-?\}\}')
    return escapes.sub(lambda match: match[1] or "{{ history }}", text)
