"""OpenClaw: a plug-in registers a compaction provider, and the config names it."""

from __future__ import annotations

import json

from recompact.harnesses.exporting import (
    FILL,
    RENDER,
    Export,
    ExportFile,
    both_prompts,
    javascript_module,
    packaged_code,
)
from recompact.harnesses.registry import Harness
from recompact.harnesses.transcripts.pi import OPENCLAW
from recompact.values.template import Template

ID = "recompact-compaction"
LONGEST = 16_000  # characters that OpenClaw keeps of a provider's summary
_CODE = packaged_code("openclaw.js")


def export(template: Template, budget: int) -> Export:
    prompts = both_prompts(template, budget)
    imports = 'import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";'
    texts = {"ID": ID, "SYSTEM": prompts.system, "FIRST": prompts.first, "UPDATE": prompts.update}
    module = javascript_module(template, "OpenClaw", imports, texts, f"{FILL}\n{RENDER}\n{_CODE}")
    manifest = {
        "id": ID,
        "name": "Compaction with a template of Recompact's",
        "description": "Summarizes with a template of Recompact's",
        "activation": {"onStartup": True},
        "configSchema": {"type": "object", "additionalProperties": False},
    }
    package = {"name": ID, "version": "1.0.0", "type": "module", "openclaw": {"extensions": ["./index.js"]}}
    setting = {"agents": {"defaults": {"compaction": {"provider": ID}}}}
    return Export(
        (
            ExportFile(f"{ID}/index.js", module),
            ExportFile(f"{ID}/openclaw.plugin.json", json.dumps(manifest, indent=2) + "\n"),
            ExportFile(f"{ID}/package.json", json.dumps(package, indent=2) + "\n"),
            ExportFile("openclaw.json", json.dumps(setting, indent=2) + "\n"),
        ),
        steps=(
            f"openclaw plugins install --link {ID}",
            "merge openclaw.json into ~/.openclaw/openclaw.json, and restart the gateway",
        ),
        checks=(
            f"openclaw plugins inspect {ID} --runtime --json lists the compaction provider",
            "type /compact: the new summary has the headings of your template",
        ),
        traps=(
            f"OpenClaw keeps {LONGEST:,} characters of a provider's summary: give --budget at most about 4,000 tokens",
            "a provider turns mode `safeguard` on; its own suffixes (recent turns, tool failures, files) follow your"
            " summary, and its five headings are not asked of it",
            "customInstructions and other keys for prompts are stripped from the config by its doctor: only a provider"
            " replaces the prompt",
            "this was read in the source of 2026.9.6 and not run",
        ),
        losses=prompts.losses,
    )


HARNESS = Harness("openclaw", "OpenClaw", export, reader=OPENCLAW)
