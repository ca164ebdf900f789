// Elements, and rows of tables.
const DASH = "\u2013";
const byId = (id) => document.getElementById(id);

/// element("td", {class: "num"}, "text", child...): text is text, never markup.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/// Fills a select element with [value, text]; without `chosen` the first is chosen.
function options(select, entries, chosen = entries[0]?.[0]) {
  select.replaceChildren(...entries.map(([value, text]) => element("option", {value: String(value)}, text)));
  select.value = String(chosen);
}

/// Objects of rows whose columns have names.
const namedRows = ({columns, rows}) => rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
