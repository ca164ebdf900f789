// Elements, and numbers as text.
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

const decadeOf = (size) => Number(size.toExponential().split("e")[1]);

/// The decimals that a number stored with so many significant digits has: at most 7, the step of arrays.
function decimalsOf(stored, digits) {
  const decade = stored === 0 ? 0 : decadeOf(Math.abs(stored));
  return Math.min(7, Math.max(0, digits - 1 - decade));
}

/// `stored` as it is in an array; of a share that is what is missing to 1.
function storedText(stored, metric, digits) {
  if (stored === undefined || Number.isNaN(stored)) return DASH;
  if (!Number.isFinite(stored)) return stored > 0 === !metric.share ? "\u221e" : "\u2212\u221e";
  if (stored === 0) return metric.share ? "1" : "0";
  const decimals = decimalsOf(stored, digits);
  if (metric.share) return (1 - stored).toFixed(decimals);
  const size = Math.abs(stored);
  if (size >= 1e6) return stored.toExponential(digits - 1);
  if (size < 1e-4) return stored.toExponential(Math.max(0, Math.min(digits - 1, decadeOf(size) + 7)));
  return stored.toFixed(decimals);
}

/// A number of a cell, rounded as arrays are.
function cellText(value, metric) {
  if (value === null) return DASH;
  const digits = metric.share ? 3 : 4;
  const stored = metric.share ? 1 - value : value;
  const rounded = Math.abs(stored) < 10 ** (digits - 7) ? Math.round(stored * 1e7) / 1e7 : Number(stored.toExponential(digits - 1));
  return storedText(rounded, metric, digits);
}

function settingText(selector, setting) {
  return selector.kind === "none" ? DASH : `${selector.kind} ${selector.settings[setting]}`;
}
