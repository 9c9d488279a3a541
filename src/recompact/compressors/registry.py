"""From the name of a compressor to a way to build one for each episode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recompact.compressors.protocol import Compressor, CompressorKind
from recompact.errors import InputError, OptionError
from recompact.registry import Registry, build, check_options

COMPRESSORS = Registry(
    "compressor",
    "recompact.compressors",
    {
        "prompted": "recompact.compressors.prompted:KIND",
        "fifo": "recompact.compressors.fifo:Fifo",
        "llmlingua2": "recompact.compressors.llmlingua2:LLMLingua2",
        "none": "recompact.compressors.none:KIND",
    },
)


def load_compressor(name: str, options: Mapping[str, Any], directory: Path) -> CompressorKind:
    """A built-in or installed compressor, `file.py:name` or `package.module:name`."""
    return compressor_kind(COMPRESSORS.find(name, directory), options, name, directory)


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
    check_options(plugin, options, "inputs", "config_directory")  # now, and not in the middle of the first episode

    def built(inputs: Any) -> Compressor | None:
        compressor = build(plugin, options, inputs=inputs, config_directory=directory)
        if compressor is not None and not isinstance(compressor, Compressor):
            raise InputError(f"compressor {name!r} gave {type(compressor).__name__}, which has no `compress`")
        return compressor

    return CompressorKind(built, bool(getattr(plugin, "uses_template", False)))
