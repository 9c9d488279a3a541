"""What is known about a harness, and all of them by name.

Another takes one file in `descriptions/`, or an entry point; nothing else knows its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from recompact.errors import InputError
from recompact.harnesses.built_in import described_names, description, export_described, source_described
from recompact.harnesses.exporting import BUDGET, Export, with_pins, write_export
from recompact.harnesses.importing import PromptConstants, PromptFile
from recompact.harnesses.transcripts.reader import Reader
from recompact.harnesses.transcripts.registry import READERS
from recompact.registry import Registry
from recompact.values.template import Template


@dataclass(frozen=True)
class Harness:
    """One harness. `export` takes a template and the tokens that a summary may have; `prompts` says where the prompt in
    force is found: in a constant of its Python package, or in one of the user's files. `reader` is for a harness that
    is installed from elsewhere; those of the built-in ones are in `transcripts/`, which knows further formats. `pins`
    tells people what to do with pinned.md so that it survives every compaction; empty where nothing does."""

    name: str
    title: str
    export: Callable[[Template, int], Export]
    prompts: PromptConstants | PromptFile | None = None
    reader: Reader | None = None
    pins: str = ""

    def export_with(self, template: Template, budget: int, pins: Sequence[str] = ()) -> Export:
        """The export, with texts that are to survive every compaction."""
        return with_pins(self.export(template, budget), pins, self.title, self.pins)


HARNESSES = Registry(
    "harness", "recompact.harnesses", {name: f"recompact.harnesses.built_in:{name}" for name in described_names()}
)


def load_harness(name: str, directory: Path = Path()) -> Harness:
    """A built-in or installed harness, `file.py:name` or `package.module:name`."""
    if name in HARNESSES.built_in:
        export = partial(export_described, name)
        about = description(name)
        return Harness(name, about["title"], export, source_described(name), pins=about.get("pins", ""))
    harness = HARNESSES.find(name, directory)
    if not isinstance(harness, Harness):
        raise InputError(f"harness {name!r} is a {type(harness).__name__}: it must be a recompact.harnesses Harness")
    return harness


def export(
    template: Template,
    harness: str,
    directory: Path | str | None = None,
    *,
    budget: int = BUDGET,
    pins: Sequence[str] = (),
) -> Export:
    """Write what makes a harness use a template into a directory (default: `compaction-HARNESS`), and return it: its
    files, what to do with them, and what the harness cannot carry. `budget` replaces `{{ budget }}`, and `pins` are
    texts that are to survive every compaction."""
    known = load_harness(harness)
    exported = known.export_with(template, budget, pins)
    write_export(exported, Path(directory or f"compaction-{known.name}"))
    return exported


def importable() -> dict[str, Harness]:
    """The harnesses whose prompt in force can be imported, by name."""
    harnesses = {name: load_harness(name) for name in HARNESSES.names()}
    return {name: harness for name, harness in harnesses.items() if harness.prompts is not None}


def transcript_readers() -> tuple[Reader, ...]:
    """The readers of installed harnesses, which are asked first, and the built-in ones."""
    installed = (load_harness(name) for name in HARNESSES.names() if name not in HARNESSES.built_in)
    return (*(harness.reader for harness in installed if harness.reader is not None), *READERS)
