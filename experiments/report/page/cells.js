// The worst cells: sorted by what is worst, filtered, a page of rows at a time.
const CELL_ROWS = 20;
const cellView = {rows: CELL_ROWS, column: null, descending: false};
const cells = namedRows(data.cells);

function tokenSpans(cell) {
  const before = cell.tokens.slice(0, cell.before).join(" "), after = cell.tokens.slice(cell.before + 1).join(" ");
  const itself = element("b", {}, String(cell.tokens[cell.before]));
  return [before && `${before} `, itself, after && ` ${after}`].filter(Boolean);
}

const cellColumns = [
  {title: "selector", text: (cell) => data.models[cell.model].selectors[cell.selector].label},
  {title: "setting", text: (cell) => settingText(data.models[cell.model].selectors[cell.selector], cell.setting)},
  {title: "sample", text: (cell) => data.models[cell.model].samples[cell.sample]},
  {title: "layer", number: (cell) => cell.layer},
  {title: "head", number: (cell) => cell.head},
  {title: "query at", number: (cell) => cell.query},
  ...data.cell_metrics.map((metric) => ({title: metric.title, number: (cell) => cell[metric.name],
    text: (cell) => cellText(cell[metric.name], metricNamed(metric.name) ?? metric)})),
  {title: `enough for ${data.enough}`, number: (cell) => (cell.enough < 0 ? null : cell.enough), text: (cell) => {
    const selector = data.models[cell.model].selectors[cell.selector];
    return cell.enough < 0 ? "none" : selector.settings[cell.enough];
  }},
  {title: "token ids around the query", tokens: true, text: (cell) => cell.tokens.join(" ")},
];
if (!cells.some((cell) => cell.tokens.length)) cellColumns.pop();

const columnText = (column, cell) => (column.text ? column.text(cell) : String(column.number(cell)));

function cellsShown() {
  const by = byId("cell-order").value, chosen = byId("cell-selector").value;
  const words = byId("cell-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = cells.filter((cell) => cell.model === state.model &&
    (chosen === "" || cell.selector === Number(chosen)) &&
    (!byId("cell-head").checked || (cell.layer === state.layer && cell.head === state.head)) &&
    words.every((word) => cellColumns.some((column) => columnText(column, cell).toLowerCase().includes(word))));
  const {share} = data.cell_metrics.find((metric) => metric.name === by);
  const badness = (cell) => (cell[by] === null ? -Infinity : share ? -cell[by] : cell[by]);
  shown.sort((a, b) => badness(b) - badness(a) || a.layer - b.layer || a.head - b.head);
  const column = cellColumns[cellView.column];
  if (column) {
    const sign = cellView.descending ? -1 : 1;
    shown.sort((a, b) => {
      if (!column.number) return compareTexts(columnText(column, a), columnText(column, b)) * sign;
      const x = column.number(a), y = column.number(b);
      return x === null || y === null ? (x === null) - (y === null) : (x - y) * sign;
    });
  }
  return shown;
}

/// `choose(cell)` shows a cell's head in the map.
function showCells(choose) {
  const shown = cellsShown(), listed = shown.slice(0, cellView.rows);
  byId("cell-count").textContent =
    shown.length ? `${listed.length} of ${shown.length} cells` : "None of the listed cells.";
  byId("more-cells").hidden = listed.length === shown.length;
  byId("cell-table").hidden = shown.length === 0;
  const cellOf = (cell, column) => {
    if (column.tokens) return element("td", {class: "tokens"}, ...(cell.tokens.length ? tokenSpans(cell) : [DASH]));
    if (column.title !== "head") return element("td", column.number ? {class: "num"} : {}, columnText(column, cell));
    const label = `Show layer ${cell.layer}, head ${cell.head} in the map`;
    const button = element("button", {type: "button", "aria-label": label}, String(cell.head));
    button.addEventListener("click", () => choose(cell));
    return element("td", {class: "num"}, button);
  };
  const rows = listed.map((cell) => element("tr", {}, ...cellColumns.map((column) => cellOf(cell, column))));
  byId("cell-table").tBodies[0].replaceChildren(...rows);
}

function setUpCells(choose) {
  byId("cell-controls").hidden = false;
  options(byId("cell-order"), data.cell_metrics.map((metric) => [metric.name, metric.worst]));
  const show = () => showCells(choose);
  const fromTheTop = () => {
    cellView.rows = CELL_ROWS;
    show();
  };
  byId("cell-table").tHead.rows[0].replaceChildren(...cellColumns.map((column) =>
    element("th", {scope: "col", ...(column.number ? {class: "num"} : {})}, column.title)));
  const headings = [...byId("cell-table").tHead.rows[0].cells];
  makeSortable(headings, (column, descending) => {
    Object.assign(cellView, {column, descending});
    show();
  });
  byId("cell-order").addEventListener("change", () => {
    cellView.column = null;
    headings.forEach((heading) => heading.removeAttribute("aria-sort"));
    fromTheTop();
  });
  for (const id of ["cell-selector", "cell-head"]) byId(id).addEventListener("change", fromTheTop);
  byId("cell-filter").addEventListener("input", fromTheTop);
  byId("more-cells").addEventListener("click", () => {
    cellView.rows += 5 * CELL_ROWS;
    show();
  });
  byId("cell-controls").addEventListener("submit", (event) => event.preventDefault());
}

function fillCellSelectors() {
  const names = modelNow().selectors.map((selector, index) => [index, selector.label]).filter(([index]) =>
    cells.some((cell) => cell.model === state.model && cell.selector === index));
  byId("cell-selector").replaceChildren(element("option", {value: ""}, "all"),
    ...names.map(([index, label]) => element("option", {value: String(index)}, label)));
}
