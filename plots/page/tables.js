// Tables that sort by a click on a heading, and filter.
const ROWS_WORTH_A_FILTER = 8;

/// A number for what reads as one; undefined numbers come last.
function sortKey(text) {
  const plain = text.trim().replace("\u2212", "-").replace("\u221e", "Infinity").replace(/ ?%$/, "");
  return plain === DASH || plain === "" ? NaN : Number(plain);
}

function compareTexts(a, b) {
  return a.localeCompare(b, "en", {numeric: true});
}

/// Turns headings into buttons. `sort(column, descending)` puts the rows into their order.
function makeSortable(headings, sort) {
  headings.forEach((heading, column) => {
    const button = element("button", {type: "button"}, ...heading.childNodes);
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const sorted = heading.getAttribute("aria-sort"); // null: not by this column
      const descending = sorted !== "descending" && (heading.classList.contains("num") || sorted !== null);
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sort(column, descending);
    });
  });
}

function enhanceTable(table) {
  const body = table.tBodies[0], rows = [...body.rows], headings = [...table.tHead.rows[0].cells];
  makeSortable(headings, (column, descending) => {
    const numeric = headings[column].classList.contains("num");
    const texts = new Map(rows.map((row) => [row, row.cells[column].textContent]));
    const order = (a, b) => {
      if (!numeric) return compareTexts(texts.get(a), texts.get(b)) * (descending ? -1 : 1);
      const x = sortKey(texts.get(a)), y = sortKey(texts.get(b));
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return (x - y) * (descending ? -1 : 1);
    };
    body.append(...[...rows].sort(order));
  });
  if (rows.length < ROWS_WORTH_A_FILTER) return;
  const field = element("input", {type: "search", placeholder: "Filter rows", "aria-label": "Filter rows"});
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  table.closest(".scroll").before(field);
}
