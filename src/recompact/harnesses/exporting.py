"""A template as a harness takes it: one prompt or two, its placeholders, its escapes, and the files around them.

A harness shows its summarizer the conversation above the prompt, below it, or at a placeholder in it; the template's
blocks for that are taken out or put there. Whatever gets lost on the way is noted. Nothing that the user has is
replaced.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from recompact.errors import InputError
from recompact.values.outputs import replaced_directory, write_file
from recompact.values.template import Section, Template, fill, parse_sections, placeholders, without_blocks

_MOST_LINES = 2000  # more lines are one literal: nobody reads them, and parsers are slow at joining so many


def python_text(text: str) -> str:
    """A Python expression: one literal for each line, in parentheses."""
    lines = _python_lines(text)
    if len(lines) == 1 or len(lines) > _MOST_LINES:
        return _quote(text, pairs=False)
    body = "".join(f"    {_quote(line, pairs=False)}\n" for line in lines)
    return f"(\n{body})"


def javascript_text(text: str) -> str:
    """A JavaScript expression: the lines, joined."""
    lines = text.split("\n")
    if len(lines) == 1 or len(lines) > _MOST_LINES:
        return _quote(text, pairs=True)
    body = "".join(f"  {_quote(line, pairs=True)},\n" for line in lines)
    return f'[\n{body}].join("\\n")'


def json_text(text: str) -> str:
    return _quote(text, pairs=True)


def toml_text(text: str) -> str:
    """A basic TOML string, over several lines if the text has several."""
    if "\n" not in text:
        return _quote(text, pairs=False)
    return '"""\n' + "\n".join(_quote(line, pairs=False)[1:-1] for line in text.split("\n")) + '"""'


def format_text(text: str) -> str:
    """A literal piece of a template for `str.format`.

    >>> format_text('{"a": 1}')
    '{{"a": 1}}'
    """
    return text.replace("{", "{{").replace("}", "}}")


def jinja_text(text: str) -> str:
    """A literal piece of a Jinja template.

    >>> jinja_text("keep {{ this }}")
    'keep {{ "{{" }} this }}'
    """
    return re.sub(r"\{[{%#]", lambda match: f'{{{{ "{match[0]}" }}}}', text)


def _python_lines(text: str) -> list[str]:
    pieces = text.split("\n")
    lines = [f"{piece}\n" for piece in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] or not lines else lines


def _quote(text: str, *, pairs: bool) -> str:
    """A string of JSON, which Python, JavaScript and TOML read as well, with nothing in it that hides or reorders text.
    With `pairs`, what is beyond 16 bits is escaped as two surrogates, as JSON requires; else by its number."""

    def escape(character: str) -> str:
        if character.isprintable():
            return character
        beyond = ord(character) > 0xFFFF and not pairs
        return f"\\U{ord(character):08x}" if beyond else json.dumps(character)[1:-1]

    return "".join(map(escape, json.dumps(text, ensure_ascii=False)))


Conversation = Literal["above", "below"]

_TAG = re.compile(r"</?[\w-]+>")
_ABOVE = re.compile(r"(?i)\babove\b")
_REFERENCE = re.compile(r"(?i)\b(conversation|messages|transcript|history) above\b")
BUDGET = 4096  # tokens that {{ budget }} stands for unless a caller says otherwise: the default of [compressor] budget
BLOCK = "<conversation>\n{{ history }}\n</conversation>\n\n"
BARE = "Write the summary, under the headings that follow."
TASK = "(what the user asked for, as the conversation has it)"
PREFIX = "(the system prompt and the tools, which stay in view)"


@dataclass(frozen=True)
class Prompt:
    """A prompt as the harness gets it, and what was changed or lost on the way."""

    text: str
    losses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prompts:
    """Both prompts; `history` and `previous_summary` are still placeholders, which a plug-in fills."""

    system: str
    first: str
    update: str
    losses: tuple[str, ...] = ()


def one_prompt(
    template: Template,
    budget: int,
    *,
    earlier: str,
    conversation: Conversation | str,
    escape: Callable[[str], str] = str,
    with_system: bool = True,
    fields: Sequence[str] = (),
) -> Prompt:
    """The template as one prompt.

    `earlier` says, as the end of a sentence, where an earlier summary is in the conversation. `conversation` says
    where that is in relation to the prompt, or is the placeholder at which the harness puts it; `escape` is applied to
    everything that is not a placeholder. `fields` are further ones of the harness; what the template lacks of them
    comes at the end.
    """
    placed = conversation not in ("above", "below")
    losses = list(_losses(template, budget))
    if template.first == template.update:
        text = template.framed("first") if placed else _remove_empty_blocks(template.first, conversation)
    else:
        text = (BLOCK if placed else "") + _merge_parts(template, earlier, conversation)
        losses.append("first.md and update.md became one prompt that tells the two cases apart: there is only one here")
    if with_system and template.system.strip():
        text = f"{template.system.rstrip()}\n\n{text}"
        losses.append("system.md was put at the head of the prompt: this harness takes no separate system prompt")
    losses += _misplaced_words(text, conversation)
    values = {**_values(budget), "history": conversation if placed else f"(the conversation {conversation})"}
    values["previous_summary"] = f"(the earlier summary: {earlier})"
    missing = [field for field in fields if field not in placeholders(template.first)]
    filled = fill(text, {**values, **{field: f"{{{field}}}" for field in fields}}, escape)
    return Prompt("\n\n".join([filled.rstrip() if missing else filled, *map("{{{}}}".format, missing)]), tuple(losses))


def both_prompts(template: Template, budget: int, conversation: Conversation | None = None) -> Prompts:
    """The template as two prompts, with everything filled in that no harness has a value for.

    With `conversation` the harness shows the conversation itself, above or below the prompt, and only the previous
    summary is left to fill in; without it, the plug-in fills in both.
    """
    losses = list(_losses(template, budget))
    values = _values(budget)
    texts = [template.framed("first"), template.framed("update")]
    if conversation is not None:
        values["history"] = f"(the conversation {conversation})"
        texts = [_remove_empty_blocks(text, conversation, "history") for text in texts]
        losses += _misplaced_words("\n".join(texts), conversation)
    first, update = (fill(text, values) for text in texts)
    return Prompts(template.system, first, update, tuple(losses))


def _values(budget: int) -> dict[str, str]:
    return {"budget": str(budget), "task": TASK, "prefix": PREFIX}


def _losses(template: Template, budget: int) -> list[str]:
    used = {name for part in ("first", "update") for name in placeholders(template.framed(part))}
    losses = []
    if "budget" in used:
        losses.append(f"{{{{ budget }}}} became {budget}: the harness cannot fill it in (--budget sets it)")
    for name, words in (("task", TASK), ("prefix", PREFIX)):
        if name in used:
            losses.append(f'{{{{ {name} }}}} became "{words}": the harness has no such value')
    return losses


def _merge_parts(template: Template, earlier: str, conversation: str) -> str:
    """One text from both parts: their leads as two cases, and the sections once where they agree."""
    where = conversation if conversation in ("above", "below") else "above"
    leads, sections = _common(
        _remove_empty_blocks(template.first, where), _remove_empty_blocks(template.update, where), where
    )
    if leads[0] == leads[1]:
        return (
            f"If the conversation {where} holds an earlier summary ({earlier}), what you write replaces that as well:"
            f" carry over what still holds.\n\n{leads[0]}{sections}"
        )
    return (
        f"There are two cases. Look first whether the conversation {where} holds an earlier summary: {earlier}.\n\n"
        f"If it does not, this is what to do:\n\n{leads[0] or BARE}\n\n"
        f"If it does, that is the previous summary, the rest of the conversation is what has happened since, and this"
        f" is what to do:\n\n{leads[1] or BARE}{sections}"
    )


def _common(first: str, update: str, where: str) -> tuple[tuple[str, str], str]:
    """The two leads, and what follows them in both cases; where the headings differ, each lead is its whole text."""
    values = {"history": f"(the conversation {where})", "previous_summary": "(the previous summary)"}
    a, b = (parse_sections(fill(text, values)) for text in (first, update))
    if [s.name for s in a if s.level] != [s.name for s in b if s.level] or not any(s.level for s in a):
        return ("".join(s.text for s in a).strip(), "".join(s.text for s in b).strip()), ""
    leads = tuple(s[0].guidance.strip() if not s[0].level else "" for s in (a, b))
    pairs = zip((s for s in a if s.level), (s for s in b if s.level), strict=True)
    return (leads[0], leads[1]), "\n\n" + "".join(_section(x, y) for x, y in pairs)


def _section(first: Section, update: Section) -> str:
    if first.guidance == update.guidance:
        return first.text
    end = "" if first.guidance.endswith("\n") else "\n"
    return f"{first.heading}{first.guidance}{end}If there is an earlier summary:\n{update.guidance}"


def _remove_empty_blocks(text: str, where: str, *names: str) -> str:
    """The text without blocks that hold nothing but tags around the conversation or the previous summary.

    If one was removed and the conversation is shown below, references to it say below, not above.
    """
    wanted = names or ("history", "previous_summary")
    rest = without_blocks(text, lambda block: _is_bare(block, wanted))
    return _REFERENCE.sub(r"\1 below", rest) if where == "below" and rest != text else rest


def _is_bare(block: str, names: tuple[str, ...]) -> bool:
    used = placeholders(block)
    rest = _TAG.sub("", fill(block, dict.fromkeys(used, ""))).strip()
    return bool(used) and set(used) <= set(names) and not rest


def _misplaced_words(text: str, conversation: str) -> list[str]:
    if conversation != "below" or not _ABOVE.search(text):
        return []
    return ['the prompt speaks of something "above", but here the conversation comes after the prompt']


EXPORT = "export"
"""What the manifest of such a directory calls it."""


@dataclass(frozen=True)
class ExportFile:
    """A file of an export. One with a `place` works unchanged once put there; where others go, the instructions say."""

    name: str
    text: str
    place: str = ""

    @property
    def data(self) -> bytes:
        return self.text.encode("utf-8")


@dataclass(frozen=True)
class Export:
    """What makes a harness use a template: files, what to do with them, how to see that they are in force, the traps of
    this harness, and what it cannot carry of the template."""

    files: tuple[ExportFile, ...]
    steps: tuple[str, ...]
    checks: tuple[str, ...]
    traps: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()


def with_pins(export: Export, pins: Sequence[str], title: str, step: str) -> Export:
    """The export with texts that are to survive every compaction: a file of them, and the `step` that puts it where
    this harness keeps it. Without such a step they are a loss."""
    if not pins:
        return export
    if not step:
        loss = (
            f"the pins were left out: no place in {title} is known to survive a compaction. recompact wrap and"
            " Compactor keep them (docs/strategies.md)"
        )
        return replace(export, losses=(*export.losses, loss))
    text = "".join(f"- {' '.join(pin.split())}\n" for pin in pins)
    file = ExportFile("pinned.md", f"## What holds at all times\n\n{text}")
    return replace(export, files=(*export.files, file), steps=(*export.steps, step))


def write_export(export: Export, directory: Path) -> list[Path]:
    """Write all files into a directory of their own: a new one, or over an earlier export."""
    with replaced_directory(directory, EXPORT) as fresh:
        for file in export.files:
            path = fresh / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
    return [directory / file.name for file in export.files]


def install(export: Export, *, force: bool) -> list[tuple[Path, Path | None]]:
    """Put files that have a place there; return each with the earlier file, if one was moved aside."""
    placed = [(file, Path(file.place).expanduser()) for file in export.files if file.place]
    if not placed:
        raise InputError(
            "this harness takes the template in your code or settings, so there is nothing to install:"
            " leave --install out, and follow the steps that are printed"
        )
    taken = [path for file, path in placed if os.path.lexists(path) and not _same(path, file.data)]
    if taken and not force:
        raise InputError(
            f"{taken[0]} already exists: nothing was written; with --force it is moved aside, or leave --install out"
        )
    return [(path, _put(path, file.data)) for file, path in placed]


def _same(path: Path, data: bytes) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == data


def _put(path: Path, data: bytes) -> Path | None:
    earlier = None
    if os.path.lexists(path) and not _same(path, data):
        earlier = _free(path.with_name(f"{path.name}.earlier-{number}") for number in range(1, 1000))
        path.rename(earlier)
    write_file(path, data, "an export", lambda _: True, "--out")
    return earlier


def _free(paths: Iterable[Path]) -> Path:
    for path in paths:
        if not os.path.lexists(path):
            return path
    raise InputError("there are too many earlier files beside the place: remove some, or leave --install out")


def origin(template: Template) -> str:
    """The line in an exported file that says where it comes from."""
    return f"Written by `recompact export` from the template {template.hash[:12]}."
