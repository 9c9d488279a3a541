"""Source files around exported prompts."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from recompact.harnesses.exporting.export import Export, ExportFile
from recompact.harnesses.exporting.literals import javascript_text, python_text
from recompact.harnesses.exporting.prompt import Prompt
from recompact.values.template import Template


def origin(template: Template) -> str:
    """The line in an exported file that says where it comes from."""
    return f"Written by `recompact export` from the template {template.hash[:12]}."


def python_module(template: Template, title: str, imports: str, texts: Mapping[str, str], code: str) -> str:
    """A Python module: the prompts as constants, and code that uses them."""
    constants = "\n".join(f"{name} = {python_text(text)}" for name, text in texts.items())
    head = f'"""Compaction in {title} with a template of Recompact\'s.\n\n{origin(template)}\n"""\n'
    return f"{head}\n{_dedent(imports)}\n{constants}\n\n\n{_dedent(code)}"


def python_export(
    template: Template,
    prompt: Prompt,
    *,
    title: str,
    module: str,
    imports: str,
    texts: Mapping[str, str],
    code: str,
    steps: tuple[str, ...],
    checks: tuple[str, ...],
    traps: tuple[str, ...],
) -> Export:
    """An export that is one Python module, for a library that takes the prompt as an argument."""
    file = ExportFile(f"{module}.py", python_module(template, title, imports, texts, code))
    return Export((file,), steps, checks, traps, prompt.losses)


def javascript_module(template: Template, title: str, imports: str, texts: Mapping[str, str], code: str) -> str:
    """An ES module: the prompts as constants, and code that uses them."""
    constants = "\n".join(f"const {name} = {javascript_text(text)};" for name, text in texts.items())
    head = f"// Compaction in {title} with a template of Recompact's. {origin(template)}\n"
    imported = f"{_dedent(imports)}\n" if imports else ""
    return f"{head}{imported}{constants}\n\n{_dedent(code)}"


FILL = """\
// Values go where the placeholders stand, in one pass: braces inside a value stay as they are.
const fill = (text, values) =>
  text.replace(/\\{\\{\\s*(\\w+)\\s*\\}\\}/g, (all, name) => (Object.hasOwn(values, name) ? values[name] : all));
"""

RENDER = """\
// The conversation as text, whole: no tool result is cut.
const blocks = (content) => (Array.isArray(content) ? content : [{ type: "text", text: String(content ?? "") }]);
const plain = (content) => blocks(content).map((b) => b.text ?? `[${b.type}]`).join("\\n");
const render = (messages) => messages.map((message) => {
  if (message.role === "toolResult") return `[result of ${message.toolName ?? "a tool"}]\\n${plain(message.content)}`;
  const other = message.content ?? message.summary ?? message.output;
  if (message.role !== "assistant") return `[${message.role}]\\n${plain(other)}`;
  const said = blocks(message.content).filter((b) => b.type === "text").map((b) => b.text);
  const calls = blocks(message.content).filter((b) => b.type === "toolCall");
  return ["[assistant]", ...said, ...calls.map((b) => `-> ${b.name}(${JSON.stringify(b.arguments)})`)].join("\\n");
}).join("\\n\\n");
"""


def _dedent(code: str) -> str:
    return textwrap.dedent(code).strip("\n") + "\n"
