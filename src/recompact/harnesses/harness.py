"""What is known about a harness: where its prompt is, how a template takes its place, what reads its transcripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recompact.harnesses.exporting import Export
from recompact.harnesses.importing import PromptConstants, PromptFile
from recompact.harnesses.transcripts.reader import Reader
from recompact.values.template import Template


@dataclass(frozen=True)
class Harness:
    """One harness. `export` takes a template and the tokens that a summary may have; `prompts` says where the prompt in
    force is found: in a constant of its Python package, or in one of the user's files. `reader` is for a harness that
    is installed from elsewhere; those of the built-in ones are in `transcripts/`, which knows further formats."""

    name: str
    title: str
    export: Callable[[Template, int], Export]
    prompts: PromptConstants | PromptFile | None = None
    reader: Reader | None = None
