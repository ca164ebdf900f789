// Colours of numbers: those of the pictures, brighter for worse, linear or logarithmic.
const COLOURS = data.colours.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));

function colourOf(part) {
  const place = Math.min(1, Math.max(0, part)) * (COLOURS.length - 1);
  const below = Math.min(Math.floor(place), COLOURS.length - 2);
  const mixed = COLOURS[below].map((low, k) => Math.round(low + (COLOURS[below + 1][k] - low) * (place - below)));
  return `rgb(${mixed.join()})`;
}

/// A scale over all numbers of `arrays`, so that colours can be compared between settings. part(stored) is 1 for the
/// worst; ticks are [part, text].
function makeScale(arrays, metric) {
  let low = Infinity, high = -Infinity, leastPositive = Infinity;
  for (const array of arrays)
    for (const value of array?.values ?? [])
      if (Number.isFinite(value)) {
        low = Math.min(low, value);
        high = Math.max(high, value);
        if (value > 0) leastPositive = Math.min(leastPositive, value);
      }
  if (low > high) return {empty: true, part: () => NaN, ticks: []};
  const bright = metric.better === "higher" && !metric.share ? (part) => 1 - part : (part) => part;
  const logarithmic = metric.log && high > 0;
  if (logarithmic) low = Math.max(leastPositive, high * 1e-5);
  const of = logarithmic ? (value) => Math.log10(Math.max(value, low)) : (value) => value;
  const begin = of(low), span = of(high) - begin;
  const place = (stored) => (span > 0 ? Math.min(1, (of(stored) - begin) / span) : 0);
  const part = (stored) => (Number.isNaN(stored) ? NaN : bright(place(stored)));
  const {values, text} = logarithmic ? decadeTicks(low, high) : evenTicks(low, high);
  return {empty: false, part, ticks: values.map((value) => [part(value), tickText(text(value), metric)])};
}

/// Powers of ten, or both ends where there is at most one.
function decadeTicks(low, high) {
  const values = [];
  for (let decade = Math.ceil(Math.log10(low) - 1e-9); decade <= Math.log10(high) + 1e-9; ++decade)
    values.push(10 ** decade);
  return {values: values.length > 1 ? values : [low, high], text: (value) => value.toPrecision(3)};
}

/// Multiples of a round step, with as many decimals as the step has.
function evenTicks(low, high) {
  if (!(high > low)) return {values: [low], text: (value) => value.toPrecision(3)};
  const values = [], rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((nice) => nice * power >= rough) * power;
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) values.push(i * step);
  const decimals = Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return {values, text: (value) => value.toFixed(decimals)};
}

/// Of a share that is stored as what it lacks: the share itself.
function tickText(text, metric) {
  const value = Number(text);
  if (metric.share) return String(Number((1 - value).toFixed(7)));
  return Math.abs(value) < 1e-3 && value !== 0 ? value.toExponential() : String(value);
}
