// The conversation as text, whole: no tool result is cut.
const blocks = (content) => (Array.isArray(content) ? content : [{ type: "text", text: String(content ?? "") }]);
const plain = (content) => blocks(content).map((b) => b.text ?? `[${b.type}]`).join("\n");
const render = (messages) => messages.map((message) => {
  if (message.role === "toolResult") return `[result of ${message.toolName ?? "a tool"}]\n${plain(message.content)}`;
  const other = message.content ?? message.summary ?? message.output;
  if (message.role !== "assistant") return `[${message.role}]\n${plain(other)}`;
  const said = blocks(message.content).filter((b) => b.type === "text").map((b) => b.text);
  const calls = blocks(message.content).filter((b) => b.type === "toolCall");
  return ["[assistant]", ...said, ...calls.map((b) => `-> ${b.name}(${JSON.stringify(b.arguments)})`)].join("\n");
}).join("\n\n");
