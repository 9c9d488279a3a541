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
      const focus = event.customInstructions ? `\n\nThe user adds: ${event.customInstructions}` : "";
      const message = { role: "user", content: [{ type: "text", text: prompt + focus }], timestamp: Date.now() };
      const context = SYSTEM.trim() ? { systemPrompt: SYSTEM, messages: [message] } : { messages: [message] };
      const { apiKey, headers } = auth;
      const reply = await complete(model, context, { apiKey, headers, signal: event.signal });
      const summary = reply.content.filter((b) => b.type === "text").map((b) => b.text).join("\n").trim();
      if (!summary) return refuse(reply.errorMessage ?? "the model wrote no summary");
      return { compaction: { summary, firstKeptEntryId, tokensBefore } };
    } catch (error) {
      return refuse(error instanceof Error ? error.message : String(error));
    }
  });
}
