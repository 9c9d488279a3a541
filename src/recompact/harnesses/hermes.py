"""Hermes: a plug-in registers a context engine, here its own compressor with another prompt."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, ExportFile, both_prompts, origin, packaged_code, python_module
from recompact.harnesses.registry import Harness
from recompact.harnesses.transcripts.hermes import READER
from recompact.values.template import Template

NAME = "recompact"
_CODE = packaged_code("hermes.py.txt")
_IMPORTS = """
    import logging
    import re

    from agent.agent_runtime_helpers import strip_think_blocks
    from agent.auxiliary_client import call_llm
    from agent.context_compressor import ContextCompressor
    from agent.redact import redact_sensitive_text

    logger = logging.getLogger(__name__)
"""


def export(template: Template, budget: int) -> Export:
    prompts = both_prompts(template, budget)
    texts = {"SYSTEM": prompts.system, "FIRST": prompts.first, "UPDATE": prompts.update}
    module = python_module(template, "Hermes", _IMPORTS, texts, _CODE)
    manifest = f'name: {NAME}\nversion: 1.0.0\ndescription: "{origin(template)}"\n'
    setting = f"context:\n  engine: {NAME}\nplugins:\n  enabled:\n    - {NAME}\n"
    place = f"~/.hermes/plugins/{NAME}"
    return Export(
        (
            ExportFile(f"{NAME}/__init__.py", module, f"{place}/__init__.py"),
            ExportFile(f"{NAME}/plugin.yaml", manifest, f"{place}/plugin.yaml"),
            ExportFile("config.yaml", setting),
        ),
        steps=(
            f"copy the folder {NAME} to ~/.hermes/plugins/ (or export with --install)",
            "merge config.yaml into ~/.hermes/config.yaml: plug-ins are off unless they are listed",
        ),
        checks=(
            f'the log says "Using context engine: {NAME}" when an agent starts; "not found": the plug-in is off',
            "type /compress: the summary has the headings of your template",
        ),
        traps=(
            "compression.threshold and the other keys of `compression` do not reach an engine of a plug-in: it works"
            " with the defaults of Hermes's own compressor",
            "long messages are cut to their heads and tails before any prompt sees them",
            "the rule with the current date and the grounding of the newest request belong to Hermes's own prompt and"
            " are not added to yours",
            "it was tried with the compressor of 0.19.0, not within a whole agent",
        ),
        losses=prompts.losses,
    )


HARNESS = Harness("hermes", "Hermes", export, reader=READER)
