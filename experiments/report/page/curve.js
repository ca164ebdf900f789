// A head's curve: the metric against the setting.
const CURVE = {width: 380, height: 190, left: 52, right: 12, top: 12, bottom: 40};

function svgElement(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/// `arrays`: mean and worst, of which one may be null. `choose(setting)` is called for the one that is clicked.
function drawCurve(row, head, arrays, choose) {
  const {width, height, left, right, top, bottom} = CURVE, metric = metricNow(), selector = selectorNow();
  const settings = selector.settings.length, place = byId("curve");
  const known = arrays.filter((array) => array?.values && settingsIn(array) > 1);
  if (settings < 2 || known.length === 0) {
    place.replaceChildren(element("p", {class: "quiet"}, settings < 2 ? `${selector.label} has no settings to draw a curve over.` :
      `${metric.name} is the same at every setting.`));
    return;
  }
  const scale = makeScale(known.map((array) => ({values: selector.settings.map((_, s) => numberAt(array, row, head, s))})), metric);
  const x = (s) => left + ((width - left - right) * (s + 0.5)) / settings;
  const worseUp = (part) => height - bottom - (height - top - bottom) * part;
  const y = metric.better === "higher" ? (part) => top + (height - top - bottom) * part : worseUp; // better numbers stand higher
  const picture = svgElement("svg", {viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${metric.name} of layer ${modelNow().layers[row]}, head ${head} against ${selector.kind}: ` +
      selector.settings.map((label, s) => `${label}: ${known.map((array) => storedText(numberAt(array, row, head, s), metric, array.digits)).join(" / ")}`).join(", ")});
  let lastTick = Infinity;
  for (const [part, text] of [...scale.ticks].sort((a, b) => y(b[0]) - y(a[0]))) {
    if (lastTick - y(part) < 13) continue;
    lastTick = y(part);
    picture.append(svgElement("line", {class: "grid", x1: left, x2: width - right, y1: y(part), y2: y(part)}),
      svgElement("text", {x: left - 6, y: y(part) + 4, "text-anchor": "end"}, text));
  }
  picture.append(svgElement("line", {class: "now", x1: x(state.setting), x2: x(state.setting), y1: top, y2: height - bottom}));
  const every = Math.ceil(settings / Math.floor((width - left) / (9 * Math.max(...selector.settings.map((label) => label.length)) + 8)));
  selector.settings.forEach((label, s) => {
    if (s % every === 0) picture.append(svgElement("text", {x: x(s), y: height - bottom + 16, "text-anchor": "middle"}, label));
  });
  picture.append(svgElement("text", {x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, selector.kind));
  arrays.forEach((array, statistic) => {
    if (!known.includes(array)) return;
    const points = selector.settings.map((_, s) => [x(s), y(scale.part(numberAt(array, row, head, s)))]);
    const group = svgElement("g", {class: STATISTICS[statistic]});
    let path = "", pen = "M";
    for (const [px, py] of points) {
      if (!Number.isNaN(py)) path += `${pen}${px.toFixed(1)} ${py.toFixed(1)}`;
      pen = Number.isNaN(py) ? "M" : "L";
    }
    group.append(svgElement("path", {d: path}));
    for (const [px, py] of points) if (!Number.isNaN(py)) group.append(svgElement("circle", {cx: px, cy: py, r: settings > 40 ? 1.4 : 2.4}));
    group.append(svgElement("text", {x: width - right - (1 - statistic) * 46, y: height - 6, "text-anchor": "end"}, STATISTICS[statistic]));
    picture.append(group);
  });
  selector.settings.forEach((label, s) => {
    const hit = svgElement("rect", {class: "hit", x: x(s) - (width - left - right) / settings / 2, y: top, width: (width - left - right) / settings,
      height: height - top - bottom}, svgElement("title", {}, `${selector.kind} ${label}: ` +
        known.map((array) => `${STATISTICS[arrays.indexOf(array)]} ${storedText(numberAt(array, row, head, s), metric, array.digits)}`).join(", ")));
    hit.addEventListener("click", () => choose(s));
    picture.append(hit);
  });
  place.replaceChildren(picture);
}
