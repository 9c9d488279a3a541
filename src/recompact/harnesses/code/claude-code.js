// Where an earlier compaction left its summary: this mod's own message, or the built-in one.
const BUILT_IN = "This session is being continued from a previous conversation";
const previous = (messages) => {
  const texts = messages.filter((m) => m.role === "user").map((m) => m.text ?? "");
  const own = texts.findLast((text) => text.startsWith(LEAD));
  return own ? own.slice(LEAD.length).trim() : texts.findLast((text) => text.startsWith(BUILT_IN));
};

export const register = (on) =>
  on("session.compact", async ($, event, next) => {
    const summary = previous(event.messages ?? []);
    const prompt = summary ? fill(UPDATE, { previous_summary: summary }) : FIRST;
    const focus = event.instructions ? `\n\nThe user adds: ${event.instructions}` : "";
    const head = SYSTEM.trim() ? `${SYSTEM.trimEnd()}\n\n` : "";
    // The same system prompt, tools and messages, then this; without a request to fork there is no answer.
    const reply = await $.model.fork({ prompt: head + prompt + focus });
    if (!reply.isAnswered || !reply.text.trim()) return next(event); // the built-in prompt
    return { messages: [{ role: "user", text: `${LEAD}\n\n${reply.text.trim()}`, toolUses: [] }] };
  });
