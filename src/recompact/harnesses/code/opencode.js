// OpenCode leaves the previous summary out once a hook has set the prompt, so it is looked up in the session.
const previous = async (client, sessionID) => {
  const { data } = await client.session.messages({ path: { id: sessionID } });
  const finished = (info) => info.role === "assistant" && info.summary && info.finish && !info.error;
  const summaries = (data ?? []).filter(({ info }) => finished(info));
  const parts = summaries.at(-1)?.parts ?? [];
  return parts.filter((part) => part.type === "text").map((part) => part.text).join("\n").trim();
};

export const RecompactCompaction = async ({ client }) => ({
  "experimental.session.compacting": async (input, output) => {
    const summary = await previous(client, input.sessionID);
    const prompt = summary ? fill(UPDATE, { previous_summary: summary }) : FIRST;
    output.prompt = SYSTEM.trim() ? `${SYSTEM.trimEnd()}\n\n${prompt}` : prompt;
  },
});
