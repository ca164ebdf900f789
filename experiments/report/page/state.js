// What is shown: one object, which the address carries after '#', so that a link restores it.
const data = JSON.parse(byId("data").textContent);
const STATE_KEYS = ["model", "sample", "metric", "statistic", "selector", "setting", "order", "layer", "head"];

/// Indices into `data`; sample -1: all; layer and head are numbers, or null while none is chosen.
const state = {
  model: 0, sample: -1, metric: 0, statistic: 0, selector: 0, setting: 0, order: "number", layer: null, head: null,
};
const STATISTICS = ["mean", "worst"];

const modelNow = () => data.models[state.model];
const selectorNow = () => modelNow().selectors[state.selector];
const metricNow = () => data.metrics[state.metric];
const metricNamed = (name) => data.metrics.find((metric) => metric.name === name);

function resetState(model = 0) {
  Object.assign(state, {model, sample: -1, statistic: 0, selector: 0, order: "number", layer: null, head: null});
  state.metric = Math.max(0, data.metrics.findIndex((metric) => metric.name === "recall"));
  // The exact computation has nothing to show.
  state.selector = Math.max(0, modelNow().selectors.findIndex((selector) => selector.kind !== "none"));
  state.setting = selectorNow().usual;
}

function stateText() {
  const model = modelNow(), selector = selectorNow();
  const words = {
    model: data.models.length > 1 ? model.name : null,
    sample: state.sample >= 0 ? model.samples[state.sample] : null,
    metric: metricNow().name,
    statistic: state.statistic ? STATISTICS[state.statistic] : null,
    selector: selector.label,
    setting: selector.kind === "none" ? null : selector.settings[state.setting],
    order: state.order === "number" ? null : state.order,
    layer: state.layer, head: state.head,
  };
  const known = STATE_KEYS.filter((key) => words[key] !== null);
  return known.map((key) => `${key}=${encodeURIComponent(words[key])}`).join("&");
}

/// Takes over what a link says. Returns a sentence on what this report does not have, or "".
function restoreState(text) {
  const words = new URLSearchParams(text.replaceAll("+", "%2B"));
  const unknown = [];
  const choose = (key, list, use) => {
    if (!words.has(key)) return;
    const index = list.indexOf(words.get(key));
    if (index >= 0) use(index);
    else unknown.push(`${key} ${words.get(key)}`);
  };
  resetState();
  choose("model", data.models.map((model) => model.name), resetState);
  const model = modelNow();
  choose("sample", model.samples, (i) => (state.sample = i));
  choose("metric", data.metrics.map((metric) => metric.name), (i) => (state.metric = i));
  choose("statistic", STATISTICS, (i) => (state.statistic = i));
  choose("selector", model.selectors.map((selector) => selector.label), (i) => (state.selector = i));
  state.setting = selectorNow().usual;
  choose("setting", selectorNow().settings, (i) => (state.setting = i));
  if (words.get("order") === "worst") state.order = "worst";
  const whole = (text) => (/^\d+$/.test(text) ? Number(text) : NaN);
  const layer = whole(words.get("layer")), head = whole(words.get("head") ?? "0");
  if (words.has("layer") || words.has("head")) {
    if (model.layers.includes(layer) && head < model.heads) {
      state.layer = layer;
      state.head = head;
    } else {
      const given = ["layer", "head"].filter((name) => words.has(name));
      unknown.push(given.map((name) => `${name} ${words.get(name) || "''"}`).join(", "));
    }
  }
  return unknown.length ? `This report does not have ${unknown.join("; ")}.` : "";
}

const isState = (hash) => hash.includes("=");

/// Puts the state into the address without a new entry in the history: at once, then at most four times a second, as
/// browsers take only so many.
let addressTimer = 0, addressAt = -Infinity;
function showStateInAddress() {
  const write = () => {
    addressTimer = 0;
    addressAt = performance.now();
    history.replaceState(null, "", `#${stateText()}`);
  };
  const wait = addressAt + 250 - performance.now();
  if (wait <= 0) write();
  else addressTimer ||= setTimeout(write, wait);
}
