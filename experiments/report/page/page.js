// Puts the parts together: controls, keys, the address, the theme.
const scales = new Map();

function scaleNow(array) {
  if (!array?.values) return {empty: true, part: () => NaN, ticks: []};
  if (!scales.has(array)) scales.set(array, makeScale([array], metricNow()));
  return scales.get(array);
}

const BETTER = {
  higher: "higher is better", lower: "lower is better", neither: "neither high nor low is better",
};
let filledFor = "";

/// The lists to choose from: they depend on all but setting and head.
function fillControls() {
  const key = [state.model, state.sample, state.metric, state.statistic, state.selector, state.order].join();
  if (key === filledFor) return;
  filledFor = key;
  const model = modelNow(), selector = selectorNow();
  options(byId("model"), data.models.map((one, i) => [i, one.name]), state.model);
  const number = model.samples.length, all = [-1, number === 1 ? model.samples[0] : `all ${number}`];
  const hasArrays = (i) => [...packedArrays.keys()].some((key) => key.startsWith(`${state.model},${i},`));
  const single = model.samples.map((name, i) => [i, name]).filter(([i]) => number > 1 && hasArrays(i));
  options(byId("sample"), [all, ...single], state.sample);
  options(byId("selector"), model.selectors.map((one, i) => [i, one.label]), state.selector);
  const has = (i) => i === state.metric || model.selectors.some((_, s) => findArray(i, 0, s) || findArray(i, 1, s));
  const groups = [["at each setting", true], ["the same at every setting", false]].map(([title, settings]) =>
    element("optgroup", {label: title}, ...data.metrics.map((one, i) => [one, i])
      .filter(([one, i]) => one.settings === settings && has(i))
      .map(([one, i]) => element("option", {value: String(i)}, one.name))));
  byId("metric").replaceChildren(...groups.filter((group) => group.children.length));
  byId("metric").value = String(state.metric);
  byId("statistic").value = STATISTICS[state.statistic];
  byId("order").value = state.order;
  document.querySelector(".choice-model").hidden = data.models.length < 2;
  document.querySelector(".choice-sample").hidden = byId("sample").options.length < 2;
  document.querySelector(".choice-setting").hidden = selector.settings.length < 2;
  byId("setting-name").textContent = selector.kind;
  byId("setting").max = String(selector.settings.length - 1);
  const metric = metricNow(), better = BETTER[metric.better];
  byId("definition").textContent = `${metric.name} (${metric.unit}): ${metric.definition}; ${better}.`;
}

function showSetting() {
  const selector = selectorNow();
  byId("setting").value = String(state.setting);
  byId("setting").setAttribute("aria-valuetext", settingText(selector, state.setting));
  byId("setting-value").textContent = selector.settings[state.setting];
}

let drawing = 0;

/// Shows the state. Later calls overtake earlier ones that still wait for their array.
async function show() {
  const mine = ++drawing;
  fillControls();
  showSetting();
  const other = 1 - state.statistic, array = findArray(state.metric, state.statistic);
  const found = array ?? findArray(state.metric, other);
  await load([found]);
  if (mine !== drawing) return;
  map.array = found;
  const scale = scaleNow(found), sameScale = scale === map.scale;
  map.scale = scale;
  if (state.layer === null) Object.assign(state, worstHead());
  drawMap();
  if (!sameScale) drawLegend();
  showHead(chooseSetting);
  showWorstHeads(chooseHead);
  const others = arraysOfHead().flatMap(({arrays}) => arrays).filter((one) => one && !one.values);
  if (others.length === 0) return;
  await load(others);
  if (mine === drawing) showHead(chooseSetting);
}

function change(changes) {
  Object.assign(state, changes);
  showStateInAddress();
  show();
  if (byId("cell-head").checked) showCells(chooseCell);
}

function chooseHead(place) {
  map.hovered = null;
  change(place);
}

function chooseSetting(setting) {
  change({setting});
}

function goToMap() {
  byId("map").scrollIntoView({behavior: "instant"});
  byId("grid").focus({preventScroll: true});
}

function chooseCell(cell) {
  const by = data.metrics.findIndex((metric) => metric.name === byId("cell-order").value);
  const {selector, setting, layer, head} = cell;
  change({selector, setting, layer, head, metric: by < 0 ? state.metric : by, statistic: 1, sample: -1});
  goToMap();
}

function setUpControls() {
  const number = (id, use) => byId(id).addEventListener("change", () => use(Number(byId(id).value)));
  number("model", (model) => {
    resetState(model);
    change({});
    fillCellSelectors();
    showCells(chooseCell);
  });
  number("sample", (sample) => change({sample}));
  number("metric", (metric) => change({metric}));
  byId("statistic").addEventListener("change", () => change({statistic: STATISTICS.indexOf(byId("statistic").value)}));
  number("selector", (selector) => {
    const before = selectorNow(), after = modelNow().selectors[selector];
    const same = before.kind === after.kind ? after.settings.indexOf(before.settings[state.setting]) : -1;
    change({selector, setting: same >= 0 ? same : after.usual});
  });
  byId("setting").addEventListener("input", () => chooseSetting(Number(byId("setting").value)));
  byId("order").addEventListener("change", () => change({order: byId("order").value}));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
}

function setUpMap() {
  const grid = byId("grid");
  const hover = (place) => {
    if (place?.layer === map.hovered?.layer && place?.head === map.hovered?.head) return;
    map.hovered = place;
    placeRings();
    showHead(chooseSetting);
  };
  grid.addEventListener("pointermove", (event) => event.pointerType === "touch" || hover(headAt(event)));
  grid.addEventListener("pointerleave", () => hover(null));
  grid.addEventListener("click", (event) => {
    const place = headAt(event);
    if (place) chooseHead(place);
  });
  grid.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const settings = selectorNow().settings.length, step = {"+": 1, "=": 1, "-": -1}[event.key];
    if (step) chooseSetting(Math.min(settings - 1, Math.max(0, state.setting + step)));
    const enter = event.key === "Enter";
    const place = step ? null : enter && map.hovered ? map.hovered : headByKey(enter ? "" : event.key);
    const moves = event.key.startsWith("Arrow") || ["Home", "End", "PageUp", "PageDown", "Enter"].includes(event.key);
    if (place && moves) chooseHead(place);
    if (step || moves) event.preventDefault();
  });
  new ResizeObserver(() => {
    if (!map.scale) return;
    drawMap();
    drawLegend();
  }).observe(byId("map-frame"));
}

const THEMES = ["auto", "light", "dark"];

function setUpTheme() {
  const button = byId("theme");
  let theme = "auto";
  try {
    theme = localStorage.getItem("attest-theme") ?? "auto";
  } catch {} // a browser may keep nothing for a local file
  const use = (name) => {
    theme = THEMES.includes(name) ? name : "auto";
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    try {
      localStorage.setItem("attest-theme", theme);
    } catch {}
    if (map.scale) drawMap();
  };
  button.hidden = false;
  use(theme);
  button.addEventListener("click", () => use(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map.scale && drawMap());
}

/// On paper everything is unfolded and the colours are light.
function setUpPrinting() {
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details.more:not([open])")];
    for (const details of unfolded) details.open = true;
    if (map.scale) drawMap("#444");
  });
  addEventListener("afterprint", () => {
    for (const details of unfolded) details.open = false;
    if (map.scale) drawMap();
  });
}

/// Says it above the map; nothing if it is "".
function showProblem(sentence) {
  byId("problem").textContent = sentence;
  byId("problem").hidden = sentence === "";
}

function restoreFromAddress() {
  const hash = location.hash.slice(1);
  if (!isState(hash)) return false;
  showProblem(restoreState(hash));
  return true;
}

function start() {
  setUpTheme();
  setUpPrinting();
  document.querySelectorAll("table.data").forEach(enhanceTable);
  if (typeof DecompressionStream === "undefined") {
    showProblem("Map and figures take a browser of 2023 or later (DecompressionStream).");
    return;
  }
  const figures = showFigures();
  for (const id of ["controls", "explorer"]) byId(id).hidden = false;
  resetState();
  const linked = restoreFromAddress();
  setUpControls();
  setUpMap();
  setUpCells(chooseCell);
  fillCellSelectors();
  const shown = show();
  showCells(chooseCell);
  Promise.all([shown, figures]).then(() => (document.documentElement.dataset.ready = "true"));
  if (linked) goToMap();
  addEventListener("hashchange", () => {
    if (!restoreFromAddress()) return;
    show();
    fillCellSelectors();
    showCells(chooseCell);
    goToMap();
  });
}

start();
