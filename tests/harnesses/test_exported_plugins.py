"""Exported plug-ins do what they should when their harness calls them; stand-ins take the place of the harness."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import needs

from recompact.harnesses.registry import load_harness
from recompact.values.template import Template

NODE = shutil.which("node")
TEMPLATE = Template(
    "You keep {records}.",
    "<log>\n{{ history }}\n</log>\n\nFIRST of the conversation above. {{ unknown }}\n## A\na",
    "<log>\n{{ history }}\n</log>\n\n<old>\n{{ previous_summary }}\n</old>\n\nUPDATE\n## A\na",
)
TALK = [
    {"role": "user", "content": "read {{ previous_summary }} $& it"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hidden"},
            {"type": "text", "text": "I read."},
            {"type": "toolCall", "id": "1", "name": "read", "arguments": {"page": 1}},
        ],
    },
    {"role": "toolResult", "toolCallId": "1", "toolName": "read", "content": [{"type": "text", "text": "x" * 5000}]},
]
TOLD = (
    '[user]\nread {{ previous_summary }} $& it\n\n[assistant]\nI read.\n-> read({"page":1})\n\n[result of read]\n'
    + "x" * 5000
)


def called(harness: str, folder: Path, script: str, stubs: dict[str, str] | None = None) -> Any:
    """What a script prints that has the plug-in's module as `plugin`; stubs are packages in its node_modules."""
    for file in load_harness(harness).export(TEMPLATE, 99).files:
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_text(file.text, encoding="utf-8")
    [module] = [path for path in folder.rglob("*.js") if "node_modules" not in path.parts]
    for name, source in (stubs or {}).items():
        package = folder / "node_modules" / name
        package.mkdir(parents=True)
        (package / "package.json").write_text(json.dumps({"name": name, "type": "module", "exports": {".": "./i.js"}}))
        (package / "i.js").write_text(source)
    (module.parent / "package.json").write_text('{"type": "module"}')
    head = f"import * as plugin from {json.dumps(module.as_uri())};\nconst TALK = {json.dumps(TALK)};\n"
    (module.parent / "main.mjs").write_text(head + script)
    done = subprocess.run([str(NODE), str(module.parent / "main.mjs")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs("node")
@pytest.mark.parametrize("scope", ["@earendil-works", "@mariozechner"])
def test_pi(tmp_path: Path, scope: str) -> None:
    stubs = {
        f"{scope}/pi-ai": "export const complete = async (model, context, options) => {\n"
        "  globalThis.asked.push([context, options.apiKey]);\n"
        "  return { content: [{ type: 'thinking', thinking: 'h' }, { type: 'text', text: ' S1 ' }] };\n};",
        f"{scope}/pi-coding-agent": "export const convertToLlm = (messages) => messages;",
    }
    script = """
        globalThis.asked = [];
        let hook; const notes = [];
        plugin.default({ on: (name, handler) => { hook = [name, handler]; } });
        const ctx = { model: {}, ui: { notify: (text) => notes.push(text) },
          modelRegistry: { getApiKeyAndHeaders: async () => globalThis.auth ?? { ok: true, apiKey: "k" } } };
        const event = (extra, more) => ({ ...more, preparation: { messagesToSummarize: TALK.slice(0, 1),
          turnPrefixMessages: TALK.slice(1), firstKeptEntryId: "e", tokensBefore: 7, ...extra } });
        const results = [await hook[1](event({}), ctx),
          await hook[1](event({ previousSummary: "OLD $1" }, { customInstructions: "be kind" }), ctx)];
        globalThis.auth = { ok: false, error: "no key" };
        results.push((await hook[1](event({}), ctx)) ?? null);
        console.log(JSON.stringify({ name: hook[0], asked: globalThis.asked, results, notes }));
    """
    heard = called("pi", tmp_path, script, stubs)
    assert heard["name"] == "session_before_compact"
    expected = {"compaction": {"summary": "S1", "firstKeptEntryId": "e", "tokensBefore": 7}}
    assert heard["results"] == [expected, expected, None]
    assert heard["notes"] == ["Recompact's prompt was not used: no key"]
    (one, key), (two, _) = heard["asked"]
    assert (one["systemPrompt"], key) == ("You keep {records}.", "k")
    assert (
        one["messages"][0]["content"][0]["text"]
        == f"<log>\n{TOLD}\n</log>\n\nFIRST of the conversation above. {{{{ unknown }}}}\n## A\na"
    )
    told = two["messages"][0]["content"][0]["text"]
    assert told == f"<log>\n{TOLD}\n</log>\n\n<old>\nOLD $1\n</old>\n\nUPDATE\n## A\na\n\nThe user adds: be kind"


@needs("node")
def test_openclaw(tmp_path: Path) -> None:
    stub = "export const definePluginEntry = (entry) => entry;"
    package = tmp_path / "node_modules" / "openclaw"
    package.mkdir(parents=True)
    exports = {"./plugin-sdk/plugin-entry": "./i.js"}
    (package / "package.json").write_text(json.dumps({"name": "openclaw", "type": "module", "exports": exports}))
    (package / "i.js").write_text(stub)
    script = """
        const asked = []; let provider;
        plugin.default.register({ registerCompactionProvider: (given) => { provider = given; },
          runtime: { llm: { complete: async (request) => { asked.push(request); return { text: " S " }; } } } });
        const results = [await provider.summarize({ messages: TALK }),
          await provider.summarize({ messages: TALK, previousSummary: "OLD", customInstructions: "be kind" })];
        console.log(JSON.stringify({ asked, results, id: [plugin.default.id, provider.id] }));
    """
    heard = called("openclaw", tmp_path, script)
    setting = json.loads((tmp_path / "openclaw.json").read_text())["agents"]["defaults"]["compaction"]["provider"]
    manifest = json.loads((tmp_path / "recompact-compaction" / "openclaw.plugin.json").read_text())
    assert heard["id"] == [setting, manifest["id"]]
    assert heard["results"] == ["S", "S"]
    one, two = heard["asked"]
    assert one["systemPrompt"] == "You keep {records}."
    assert f"<log>\n{TOLD}\n</log>\n\nFIRST" in one["messages"][0]["content"]
    assert "<old>\nOLD\n</old>\n\nUPDATE" in two["messages"][0]["content"]
    assert two["messages"][0]["content"].endswith("The user adds: be kind")


@needs("node")
def test_opencode(tmp_path: Path) -> None:
    script = """
        const text = (text) => ({ type: "text", text });
        const info = { role: "assistant", summary: true, finish: "stop" };
        const old = [{ info, parts: [text("OLDER")] }, { info, parts: [text("OLD $&"), { type: "x" }] },
          { info: { ...info, error: {} }, parts: [text("BROKEN")] }, { info: { role: "user" }, parts: [text("no")] }];
        const sessions = { new: [], old };
        const client = { session: { messages: async ({ path }) => ({ data: sessions[path.id] }) } };
        const hooks = await plugin.RecompactCompaction({ client });
        const prompts = [];
        for (const sessionID of ["new", "old"]) {
          const output = { context: [] };
          await hooks["experimental.session.compacting"]({ sessionID }, output);
          prompts.push(output.prompt);
        }
        console.log(JSON.stringify(prompts));
    """
    assert called("opencode", tmp_path, script) == [
        "You keep {records}.\n\nFIRST of the conversation below. {{ unknown }}\n## A\na",
        "You keep {records}.\n\n<old>\nOLD $&\n</old>\n\nUPDATE\n## A\na",
    ]


@needs("node")
def test_claude_code(tmp_path: Path) -> None:
    script = """
        let hook; const asked = [];
        plugin.register((name, handler) => { hook = [name, handler]; });
        const answers = [{ isAnswered: true, text: " S1 " }, { isAnswered: true, text: "S2" }, { isAnswered: false }];
        const $ = { model: { fork: async ({ prompt }) => { asked.push(prompt); return answers.shift(); } } };
        const next = async (event) => ({ next: event.trigger });
        const say = (text) => ({ role: "user", text });
        const one = await hook[1]($, { messages: [say("hello")] }, next);
        const two = await hook[1]($, { messages: [...one.messages, say("go on")], instructions: "be kind" }, next);
        const built_in = "This session is being continued from a previous conversation that was long";
        const three = await hook[1]($, { trigger: "auto", messages: [say(built_in)] }, next);
        console.log(JSON.stringify({ asked, results: [one, two, three] }));
    """
    heard = called("claude-code", tmp_path, script)
    lead = "Earlier steps of this task were replaced by the following summary of them."
    assert heard["results"][0] == {"messages": [{"role": "user", "text": f"{lead}\n\nS1", "toolUses": []}]}
    assert heard["results"][2] == {"next": "auto"}
    one, two, three = heard["asked"]
    assert one == "You keep {records}.\n\nFIRST of the conversation above. {{ unknown }}\n## A\na"
    assert two == "You keep {records}.\n\n<old>\nS1\n</old>\n\nUPDATE\n## A\na\n\nThe user adds: be kind"
    assert "<old>\nThis session is being continued from a previous conversation that was long\n</old>" in three


HERMES = {
    "agent/__init__.py": "",
    "agent/agent_runtime_helpers.py": "def strip_think_blocks(_, text): return text.replace('<think>x</think>', '')",
    "agent/redact.py": "def redact_sensitive_text(text): return text.replace('sk-1', '***')",
    "agent/auxiliary_client.py": """
from types import SimpleNamespace as Value
asked, answers = [], []
def call_llm(**request):
    asked.append(request)
    answer = answers.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return Value(choices=[Value(message=Value(content=answer))])
""",
    "agent/context_compressor.py": """
class ContextCompressor:
    def __init__(self, model, quiet_mode=False, config_context_length=None):
        self.model, self.provider, self.base_url, self.api_key, self.api_mode = model, "p", "u", "k", "m"
        self.summary_model, self._previous_summary = "", None
    def _serialize_for_summary(self, turns): return "|".join(turns)
    def _generate_summary(self, turns, focus, memory): return "BUILT-IN"
    def _clear_compression_failure_cooldown(self): pass
    def _with_summary_prefix(self, summary): return "PREFIX " + summary
""",
    "main.py": """
import json
from agent import auxiliary_client
import recompact_plugin
engines = []
class Context:
    def register_context_engine(self, engine): engines.append(engine)
recompact_plugin.register(Context())
[engine] = engines
auxiliary_client.answers += [" <think>x</think>S1 sk-1 ", RuntimeError("down"), "", "S2"]
results = [engine._generate_summary(["a", "{{ previous_summary }}"]) for _ in range(3)]
results.append(engine._generate_summary(["b"], "ships", "MEMORY"))
print(json.dumps({"name": engine.name, "results": results, "asked": auxiliary_client.asked}))
""",
}


def test_hermes(tmp_path: Path) -> None:
    files = {file.name: file.text for file in load_harness("hermes").export(TEMPLATE, 99).files}
    for name, text in {**HERMES, "recompact_plugin/__init__.py": files["recompact/__init__.py"]}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "-S", "main.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    heard = json.loads(done.stdout)
    assert heard["name"] == "recompact"
    assert heard["results"] == ["PREFIX S1 ***", "BUILT-IN", "BUILT-IN", "PREFIX S2"]
    one, _, _, four = heard["asked"]
    assert one["task"] == "compression"
    assert one["main_runtime"]["base_url"] == "u"
    assert one["messages"][0] == {"role": "system", "content": "You keep {records}."}
    assert one["messages"][1]["content"].startswith("<log>\na|{{ previous_summary }}\n</log>\n\nFIRST")
    assert "<old>\nS1 ***\n</old>\n\nUPDATE" in four["messages"][1]["content"]
    assert four["messages"][1]["content"].endswith("The user asks to keep above all what concerns: ships")
    assert "MEMORY" in four["messages"][1]["content"]
