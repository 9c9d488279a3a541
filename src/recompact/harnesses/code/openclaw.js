export default definePluginEntry({
  id: ID,
  name: "Compaction with a template of Recompact's",
  description: "Summarizes with the prompts in this file",
  register(api) {
    api.registerCompactionProvider({
      id: ID,
      label: "Recompact",
      async summarize({ messages, previousSummary, customInstructions, signal }) {
        const prompt = fill(previousSummary ? UPDATE : FIRST, {
          history: render(messages),
          previous_summary: previousSummary ?? "",
        });
        const focus = customInstructions ? `\n\nThe user adds: ${customInstructions}` : "";
        const result = await api.runtime.llm.complete({
          messages: [{ role: "user", content: prompt + focus }],
          ...(SYSTEM.trim() ? { systemPrompt: SYSTEM } : {}),
          purpose: `${ID}.summary`,
          signal,
        });
        return result.text.trim(); // where it is empty, or the call fails, OpenClaw uses its own prompt
      },
    });
  },
});
