// Values go where the placeholders stand, in one pass: braces inside a value stay as they are.
const fill = (text, values) =>
  text.replace(/\{\{\s*(\w+)\s*\}\}/g, (all, name) => (Object.hasOwn(values, name) ? values[name] : all));
