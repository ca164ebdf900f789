// The numbers of one head, and the worst heads.

/// Every metric of the chosen selector with its arrays [mean, worst].
function arraysOfHead() {
  return data.metrics.map((metric, index) => ({metric, index, arrays: [findArray(index, 0), findArray(index, 1)]}))
    .filter(({arrays}) => arrays[0] || arrays[1]);
}

const textOf = (array, metric, row, head) =>
  array ? storedText(numberAt(array, row, head), metric, array.digits) : DASH;

const settingNow = () => (selectorNow().kind === "none" ? "" : ` at ${settingText(selectorNow(), state.setting)}`);

function readoutText(place) {
  const row = modelNow().layers.indexOf(place.layer), metric = metricNow();
  const numbers = STATISTICS.map((name, statistic) => [name, findArray(state.metric, statistic)])
    .filter(([, array]) => array)
    .map(([name, array]) => `${name} ${textOf(array, metric, row, place.head)}`).join(", ") || "not defined";
  return `Layer ${place.layer}, head ${place.head}: ${metric.name} ${numbers}${settingNow()}`;
}

/// Shows the hovered head, else the chosen one.
function showHead(chooseSetting) {
  const place = map.hovered ?? (state.layer === null ? null : {layer: state.layer, head: state.head});
  byId("readout").textContent = place ? readoutText(place) : "";
  byId("head-title").textContent = place ? `Layer ${place.layer}, head ${place.head}` : "No head chosen";
  if (!place) {
    const advice = "Choose a head in the map to see its curve and its numbers.";
    byId("curve").replaceChildren(element("p", {class: "quiet"}, advice));
    byId("head-numbers").hidden = true;
    return;
  }
  const row = modelNow().layers.indexOf(place.layer);
  byId("head-numbers").hidden = false;
  byId("head-numbers").tBodies[0].replaceChildren(...arraysOfHead().map(({metric, index, arrays}) =>
    element("tr", index === state.metric ? {class: "current"} : {},
      element("td", {title: metric.definition}, metric.name),
      ...arrays.map((array) => element("td", {class: "num"}, textOf(array, metric, row, place.head))))));
  drawCurve(row, place.head, [findArray(state.metric, 0), findArray(state.metric, 1)], chooseSetting);
}

/// The heads with a number, the worst first; where none is better than another, the largest.
function headsByBadness() {
  const model = modelNow(), metric = metricNow(), heads = [];
  for (let row = 0; row < model.layers.length; ++row)
    for (let head = 0; head < model.heads; ++head) {
      const stored = numberAt(map.array, row, head);
      if (stored !== undefined && !Number.isNaN(stored)) heads.push({layer: model.layers[row], head, stored});
    }
  const worse = metric.better === "higher" && !metric.share ? -1 : 1;
  return heads.sort((a, b) => worse * (b.stored - a.stored) || a.layer - b.layer || a.head - b.head);
}

/// Where a reader begins who has chosen no head.
function worstHead() {
  const [worst] = headsByBadness();
  return worst ? {layer: worst.layer, head: worst.head} : {};
}

function showWorstHeads(choose) {
  const metric = metricNow(), array = map.array;
  byId("worst-heads").hidden = metric.better === "neither" || !array?.values;
  if (byId("worst-heads").hidden) return;
  const items = headsByBadness().slice(0, 12).map(({layer, head, stored}) => {
    const pressed = String(layer === state.layer && head === state.head);
    const button = element("button", {type: "button", "aria-pressed": pressed},
      `layer ${layer}, head ${head}: ${storedText(stored, metric, array.digits)}`);
    button.addEventListener("click", () => choose({layer, head}));
    return element("li", {}, button);
  });
  byId("worst-heads").querySelector("ol").replaceChildren(...items);
}
