// Elements, rows of tables, and packed bytes.
const DASH = "\u2013";
const byId = (id) => document.getElementById(id);

/// element("td", {class: "num"}, "text", child...): text is text, never markup.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/// Objects of rows whose columns have names.
const namedRows = ({columns, rows}) => rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));

/// The bytes of packed_values.h: base64 of a zlib stream.
async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
