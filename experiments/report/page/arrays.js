// The arrays of the map, unpacked when they are first needed, and their numbers as text.
const packedArrays = new Map();
for (const {model, sample, selector, metric, statistic, digits, text} of namedRows(data.arrays)) {
  const array = {digits, text: data.texts[text], values: null, loading: null};
  packedArrays.set([model, sample, selector, metric, statistic].join(), array);
}

async function unpack(array) {
  array.values = await unpackValues(array.text, array.digits);
  array.text = null;
}

/// The packed array of a metric for the chosen model and sample; that of the exact scores if no selector has it.
function findArray(metric, statistic, selector = state.selector) {
  const at = (which) => packedArrays.get([state.model, state.sample, which, metric, statistic].join());
  return at(selector) ?? at(-1) ?? null;
}

/// Unpacks what is not yet unpacked. The page is busy meanwhile: numbers are missing in what it shows.
let loads = 0;
async function load(arrays) {
  const missing = arrays.filter((array) => array && !array.values);
  if (missing.length === 0) return;
  document.body.ariaBusy = String(++loads > 0);
  try {
    await Promise.all(missing.map((array) => (array.loading ??= unpack(array))));
  } catch (error) {
    showProblem(`Numbers of this page cannot be unpacked (${error.message}): the file is damaged.`);
  } finally {
    document.body.ariaBusy = String(--loads > 0);
  }
}

const settingsIn = (array) => array.values.length / (modelNow().layers.length * modelNow().heads);

/// The stored number of a head; undefined while the array is not there.
function numberAt(array, row, head, setting = state.setting) {
  if (!array?.values) return undefined;
  const settings = settingsIn(array);
  return array.values[(row * modelNow().heads + head) * settings + (settings > 1 ? setting : 0)];
}

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
  const {digits} = metric;
  const stored = metric.share ? 1 - value : value;
  const tiny = Math.abs(stored) < 10 ** (digits - 7);
  const rounded = tiny ? Math.round(stored * 1e7) / 1e7 : Number(stored.toExponential(digits - 1));
  return storedText(rounded, metric, digits);
}

function settingText(selector, setting) {
  return selector.kind === "none" ? DASH : `${selector.kind} ${selector.settings[setting]}`;
}
