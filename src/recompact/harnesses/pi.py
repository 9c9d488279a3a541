"""pi: an extension answers `session_before_compact` with a finished summary, so it asks the model itself."""

from __future__ import annotations

from recompact.harnesses.exporting import FILL, RENDER, Export, ExportFile, both_prompts, javascript_module
from recompact.harnesses.registry import Harness
from recompact.harnesses.transcripts.pi import READER
from recompact.values.template import Template

FILE = "recompact-compaction.js"
_CODE = """\
// Today's package name, then the one before it.
const pi_ai = () => import("@earendil-works/pi-ai").catch(() => import("@mariozechner/pi-ai"));
const pi_agent = () => import("@earendil-works/pi-coding-agent").catch(() => import("@mariozechner/pi-coding-agent"));

export default function (pi) {
  pi.on("session_before_compact", async (event, ctx) => {
    const { messagesToSummarize, turnPrefixMessages = [], previousSummary } = event.preparation;
    const { firstKeptEntryId, tokensBefore } = event.preparation;
    const refuse = (why) => {
      ctx.ui.notify(`Recompact's prompt was not used: ${why}`, "warning"); // and pi compacts with its own
    };
    try {
      const { complete } = await pi_ai();
      const { convertToLlm } = await pi_agent();
      const model = ctx.model;
      const auth = model && (await ctx.modelRegistry.getApiKeyAndHeaders(model));
      if (!auth?.ok) return refuse(auth?.error ?? "no model is selected");
      const history = render(convertToLlm([...messagesToSummarize, ...turnPrefixMessages]));
      const prompt = fill(previousSummary ? UPDATE : FIRST, { history, previous_summary: previousSummary ?? "" });
      const focus = event.customInstructions ? `\\n\\nThe user adds: ${event.customInstructions}` : "";
      const message = { role: "user", content: [{ type: "text", text: prompt + focus }], timestamp: Date.now() };
      const context = SYSTEM.trim() ? { systemPrompt: SYSTEM, messages: [message] } : { messages: [message] };
      const { apiKey, headers } = auth;
      const reply = await complete(model, context, { apiKey, headers, signal: event.signal });
      const summary = reply.content.filter((b) => b.type === "text").map((b) => b.text).join("\\n").trim();
      if (!summary) return refuse(reply.errorMessage ?? "the model wrote no summary");
      return { compaction: { summary, firstKeptEntryId, tokensBefore } };
    } catch (error) {
      return refuse(error instanceof Error ? error.message : String(error));
    }
  });
}
"""


def export(template: Template, budget: int) -> Export:
    prompts = both_prompts(template, budget)
    texts = {"SYSTEM": prompts.system, "FIRST": prompts.first, "UPDATE": prompts.update}
    module = javascript_module(template, "pi", "", texts, f"{FILL}\n{RENDER}\n{_CODE}")
    return Export(
        (ExportFile(FILE, module, f"~/.pi/agent/extensions/{FILE}"),),
        steps=(
            f"copy {FILE} to ~/.pi/agent/extensions/, or to .pi/extensions/ of one project (or export with --install)",
            "restart pi, or type /reload",
        ),
        checks=(
            "type /compact: the `compaction` record in the newest session file then has fromHook true and the headings"
            " of your template; a warning says when the prompt was not used",
        ),
        traps=(
            "pi has no key for the prompt: the extension asks the session's own model and returns the finished summary",
            "pi's own text of the conversation cuts each tool result to 2,000 characters; the extension's does not, so"
            " its requests are larger",
            "where a turn is split, its head is summarized with the rest; pi's lists of read and modified files are not"
            " added",
        ),
        losses=prompts.losses,
    )


HARNESS = Harness("pi", "pi", export, reader=READER)
