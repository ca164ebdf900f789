// A head's curve: the metric against the setting.
const CURVE = {width: 380, height: 190, left: 52, right: 12, top: 12, bottom: 40};

function svgElement(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/// Where settings and parts of the scale lie in the picture. Better numbers stand higher.
function curvePlaces(settings, metric) {
  const {width, height, left, right, top, bottom} = CURVE, room = height - top - bottom;
  return {
    x: (setting) => left + ((width - left - right) * (setting + 0.5)) / settings,
    y: metric.better === "higher" ? (part) => top + room * part : (part) => height - bottom - room * part,
  };
}

/// Lines and numbers of the y axis that do not touch.
function curveTicks(scale, y) {
  const {width, left, right} = CURVE, made = [];
  let lastTick = Infinity;
  for (const [part, text] of [...scale.ticks].sort((a, b) => y(b[0]) - y(a[0]))) {
    if (lastTick - y(part) < 13) continue;
    lastTick = y(part);
    made.push(svgElement("line", {class: "grid", x1: left, x2: width - right, y1: y(part), y2: y(part)}),
      svgElement("text", {x: left - 6, y: y(part) + 4, "text-anchor": "end"}, text));
  }
  return made;
}

/// The x axis: a line at the chosen setting, as many labels as fit, and what a setting is.
function curveSettings(selector, x) {
  const {width, height, left, right, top, bottom} = CURVE;
  const now = x(state.setting);
  const made = [svgElement("line", {class: "now", x1: now, x2: now, y1: top, y2: height - bottom})];
  const longest = Math.max(...selector.settings.map((label) => label.length));
  const every = Math.ceil(selector.settings.length / Math.floor((width - left) / (9 * longest + 8)));
  const addText = (at, y, text) => made.push(svgElement("text", {x: at, y, "text-anchor": "middle"}, text));
  selector.settings.forEach((label, setting) => {
    if (setting % every === 0) addText(x(setting), height - bottom + 16, label);
  });
  addText((left + width - right) / 2, height - 6, selector.kind);
  return made;
}

/// The line of a statistic through `points` [x, y], of which undefined ones are left out, and its name.
function curveLine(points, statistic) {
  let path = "", pen = "M";
  for (const [x, y] of points) {
    if (!Number.isNaN(y)) path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = Number.isNaN(y) ? "M" : "L";
  }
  const marks = points.filter(([, y]) => !Number.isNaN(y))
    .map(([x, y]) => svgElement("circle", {cx: x, cy: y, r: points.length > 40 ? 1.4 : 2.4}));
  const nameAt = {x: CURVE.width - CURVE.right - (1 - statistic) * 46, y: CURVE.height - 6, "text-anchor": "end"};
  return svgElement("g", {class: STATISTICS[statistic]}, svgElement("path", {d: path}), ...marks,
    svgElement("text", nameAt, STATISTICS[statistic]));
}

/// The area of a setting, which shows its numbers and can be clicked.
function curveArea(settings, x, title, choose) {
  const {width, height, left, right, top, bottom} = CURVE, wide = (width - left - right) / settings;
  const area = svgElement("rect", {class: "hit", x: x - wide / 2, y: top, width: wide, height: height - top - bottom},
    svgElement("title", {}, title));
  area.addEventListener("click", choose);
  return area;
}

/// `arrays`: mean and worst, of which one may be null. `choose(setting)` is called for the one that is clicked.
function drawCurve(row, head, arrays, choose) {
  const metric = metricNow(), selector = selectorNow(), settings = selector.settings.length, place = byId("curve");
  const known = arrays.filter((array) => array?.values && settingsIn(array) > 1);
  if (settings < 2 || known.length === 0) {
    const why = selector.kind === "none" ? `${selector.label} has no settings to draw a curve over.`
      : settings < 2 ? `${selector.label} was studied at one setting.`
      : !metric.settings ? `${metric.name} is the same at every setting.`
      : arrays.some((array) => array) ? "" // it is still unpacked
      : `This page does not have ${metric.name} of ${selector.label} for what is shown.`;
    place.replaceChildren(element("p", {class: "quiet"}, why));
    return;
  }
  const numbers = (array) => selector.settings.map((_, setting) => numberAt(array, row, head, setting));
  const text = (array, setting) => storedText(numberAt(array, row, head, setting), metric, array.digits);
  const scale = makeScale(known.map((array) => ({values: numbers(array)})), metric);
  const {x, y} = curvePlaces(settings, metric);
  const said = selector.settings.map((label, s) => `${label}: ${known.map((array) => text(array, s)).join(" / ")}`);
  const where = `layer ${modelNow().layers[row]}, head ${head}`;
  const picture = svgElement("svg", {viewBox: `0 0 ${CURVE.width} ${CURVE.height}`, role: "img",
    "aria-label": `${metric.name} of ${where} against ${selector.kind}: ${said.join(", ")}`});
  picture.append(...curveTicks(scale, y), ...curveSettings(selector, x));
  arrays.forEach((array, statistic) => {
    if (!known.includes(array)) return;
    picture.append(curveLine(numbers(array).map((number, s) => [x(s), y(scale.part(number))]), statistic));
  });
  selector.settings.forEach((label, s) => {
    const each = known.map((array) => `${STATISTICS[arrays.indexOf(array)]} ${text(array, s)}`).join(", ");
    picture.append(curveArea(settings, x(s), `${selector.kind} ${label}: ${each}`, () => choose(s)));
  });
  place.replaceChildren(picture);
}
