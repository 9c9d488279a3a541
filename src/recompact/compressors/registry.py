"""From the name of a compressor to a way to build one for each episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from recompact.compressors.protocol import Compressor, CompressorInputs, CompressorKind, InTurn
from recompact.errors import InputError, OptionError
from recompact.registry import Registry, build, check_options, has_parameter

COMPRESSORS = Registry(
    "compressor",
    "recompact.compressors",
    {
        "prompted": "recompact.compressors.prompted:KIND",
        "fifo": "recompact.compressors.fifo:Fifo",
        "llmlingua2": "recompact.compressors.llmlingua2:LLMLingua2",
        "none": "recompact.compressors.registry:NONE",
        "masking": "recompact.compressors.masking:Masking",
        "clear_tool_results": "recompact.compressors.masking:ClearToolResults",
        "anchors": "recompact.compressors.anchors:Anchors",
        "checked": "recompact.compressors.checked:Checked",
        "native": "recompact.compressors.native:Native",
        "pinned": "recompact.compressors.pinned:Pinned",
        "recall": "recompact.compressors.pinned:Recall",
    },
)
NONE = CompressorKind(lambda inputs: None)
"""No compression: the agent keeps its whole history."""

PLUS = "+"
WRAPPING = ("anchors", "checked", "pinned", "recall")
"""Those that need another one to work on."""


def load_compressor(name: str, options: Mapping[str, Any], directory: Path) -> CompressorKind:
    """A built-in or installed compressor, `file.py:name` or `package.module:name`, or several of them as in
    `masking+prompted`, whose options are then given under their names."""
    names = stages_of(name)
    if len(names) == 1:
        kinds = [compressor_kind(COMPRESSORS.find(name, directory), options, name, directory)]
    else:
        if unknown := [key for key in options if key not in names]:
            hint = f"the options of each stage of {name!r} stand under its name: {', '.join(names)}"
            raise OptionError(f"there is no stage {unknown[0]!r}; {hint}", unknown[0])
        kinds = [compressor_kind(COMPRESSORS.find(n, directory), options.get(n, {}), n, directory) for n in names]
    return compose(kinds, name)


def stages_of(name: str) -> list[str]:
    """The names of which a compressor is made up. A path may have a plus in it.

    >>> stages_of("masking+prompted"), stages_of("c++/mine.py:Half")
    (['masking', 'prompted'], ['c++/mine.py:Half'])
    """
    return [name] if "/" in name or "\\" in name else name.split(PLUS)


def compose(kinds: Sequence[CompressorKind], name: str = "") -> CompressorKind:
    """Several as one, from left to right: one that wraps works on all that follow; any other is asked first, and what
    follows only where that leaves too little room."""
    if kinds[-1].wraps:
        raise InputError(f"compressor {name!r} needs another one to work on: write {name}{PLUS}prompted")
    if len(kinds) == 1:
        return kinds[0]

    def build_all(inputs: CompressorInputs) -> Compressor | None:
        compressor: Compressor | None = None
        for kind in reversed(kinds):
            stage = kind.build(replace(inputs, inner=compressor) if kind.wraps else inputs)
            compressor = stage if kind.wraps or compressor is None or stage is None else InTurn(stage, compressor)
        return compressor

    uses_template, recall = any(kind.uses_template for kind in kinds), max(kind.recall for kind in kinds)
    return CompressorKind(build_all, uses_template, recall=recall)


def compressor_kind(
    plugin: Any, options: Mapping[str, Any], name: str = "", directory: Path = Path()
) -> CompressorKind:
    """A plug-in as a `CompressorKind`: it may be one, a compressor, or anything that is called with the options (and
    with `inputs` and `config_directory`, if it has such parameters) and returns a compressor."""
    if isinstance(plugin, CompressorKind) or (isinstance(plugin, Compressor) and not isinstance(plugin, type)):
        if options:
            raise OptionError(f"compressor {name!r} takes no options", next(iter(options)))
        return plugin if isinstance(plugin, CompressorKind) else CompressorKind(lambda inputs: plugin)
    if not callable(plugin):
        raise InputError(f"compressor {name!r} is not a compressor: it needs `async def compress(context, budget)`")

    if (missing := getattr(plugin, "missing", None)) and (problem := missing()):
        raise InputError(f"compressor {name!r}: {problem}")
    # now, and not in the middle of the first episode
    check_options(plugin, options, "inputs", "config_directory", "inner")

    def built(inputs: Any) -> Compressor | None:
        compressor = build(
            plugin, options, inputs=inputs, config_directory=directory, inner=getattr(inputs, "inner", None)
        )
        if compressor is not None and not isinstance(compressor, Compressor):
            raise InputError(f"compressor {name!r} gave {type(compressor).__name__}, which has no `compress`")
        return compressor

    recall = getattr(plugin, "recall_tokens", 0)
    return CompressorKind(
        built,
        bool(getattr(plugin, "uses_template", False)),
        has_parameter(plugin, "inner"),
        int(options.get("tokens", recall)) if recall else 0,
    )
