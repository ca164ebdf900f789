// The layer x head map: a canvas with a ring over the hovered and one over the chosen head.
const map = {array: null, scale: null, cellWidth: 0, cellHeight: 0, left: 0, top: 0, heads: [], hovered: null};

/// Heads of a row from left to right.
function headsOfRow(row) {
  const heads = Array.from({length: modelNow().heads}, (_, head) => head);
  if (state.order !== "worst" || !map.array?.values) return heads;
  const badness = heads.map((head) => map.scale.part(numberAt(map.array, row, head)));
  const key = (head) => (Number.isNaN(badness[head]) ? -1 : badness[head]);
  return heads.sort((a, b) => key(b) - key(a) || a - b);
}

function layOutMap() {
  const model = modelNow(), room = byId("map-frame").clientWidth - 10;
  map.left = 12 + 8 * String(model.layers.at(-1) ?? 0).length;
  map.top = state.order === "number" ? 18 : 4;
  map.cellWidth = Math.min(34, Math.max(4.5, (room - map.left - 2) / model.heads));
  map.cellHeight = Math.max(model.layers.length > 48 ? 8 : 11, Math.min(24, map.cellWidth));
  const width = map.left + map.cellWidth * model.heads + 1, height = map.top + map.cellHeight * model.layers.length + 1;
  return {width, height};
}

function prepareCanvas(canvas, width, height) {
  const sharp = Math.max(1, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  return context;
}

function drawHatched(context, x, y, width, height, colour) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = x - height; at < x + width; at += 4) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}

/// `ink`: of the numbers at the edges; that of the theme by default.
function drawMap(ink) {
  const model = modelNow(), {width, height} = layOutMap();
  const context = prepareCanvas(byId("canvas"), width, height);
  const style = getComputedStyle(document.documentElement);
  const quiet = style.getPropertyValue("--quiet"), hatch = style.getPropertyValue("--hatch");
  const gap = map.cellWidth >= 9 ? 1 : 0;
  map.heads = model.layers.map((_, row) => headsOfRow(row));
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = ink ?? quiet;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const everyLayer = Math.ceil(13 / map.cellHeight);
  model.layers.forEach((layer, row) => {
    if (row % everyLayer === 0) context.fillText(layer, map.left - 5, map.top + (row + 0.5) * map.cellHeight);
  });
  if (state.order === "number") {
    context.textAlign = "center";
    const everyHead = [1, 2, 4, 8, 16, 32, 64].find((step) => step * map.cellWidth >= 22) ?? 128;
    for (let head = 0; head < model.heads; head += everyHead)
      context.fillText(head, map.left + (head + 0.5) * map.cellWidth, map.top - 9);
  }
  for (let row = 0; row < model.layers.length; ++row)
    for (let column = 0; column < model.heads; ++column) {
      const x = map.left + column * map.cellWidth, y = map.top + row * map.cellHeight;
      const part = map.array?.values ? map.scale.part(numberAt(map.array, row, map.heads[row][column])) : NaN;
      if (Number.isNaN(part)) {
        drawHatched(context, x, y, map.cellWidth - gap, map.cellHeight - gap, hatch);
      } else {
        context.fillStyle = colourOf(part);
        // Without a gap cells overlap a little, so that no seam shows between them.
        context.fillRect(x, y, map.cellWidth - gap + (gap ? 0 : 0.5), map.cellHeight - gap + (gap ? 0 : 0.5));
      }
    }
  placeRings();
}

function placeRing(ring, place) {
  ring.hidden = !place;
  if (!place) return;
  const row = modelNow().layers.indexOf(place.layer), column = map.heads[row]?.indexOf(place.head);
  ring.style.left = `${map.left + column * map.cellWidth - 1.5}px`;
  ring.style.top = `${map.top + row * map.cellHeight - 1.5}px`;
  ring.style.width = `${map.cellWidth + 2}px`;
  ring.style.height = `${map.cellHeight + 2}px`;
}

function placeRings() {
  placeRing(byId("hover-ring"), map.hovered);
  placeRing(byId("chosen-ring"), state.layer === null ? null : {layer: state.layer, head: state.head});
}

/// The head under the pointer.
function headAt(event) {
  const box = byId("canvas").getBoundingClientRect(), model = modelNow();
  const column = Math.floor((event.clientX - box.left - map.left) / map.cellWidth);
  const row = Math.floor((event.clientY - box.top - map.top) / map.cellHeight);
  if (column < 0 || column >= model.heads || row < 0 || row >= model.layers.length) return null;
  return {layer: model.layers[row], head: map.heads[row][column]};
}

/// Where an arrow key leads from the chosen head, as the heads lie on the screen.
function headByKey(key) {
  const model = modelNow(), rows = model.layers.length;
  if (state.layer === null) return {layer: model.layers[0], head: map.heads[0][0]};
  let row = model.layers.indexOf(state.layer), column = map.heads[row].indexOf(state.head);
  const steps = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
    PageUp: [-8, 0], PageDown: [8, 0], Home: [0, -model.heads], End: [0, model.heads]};
  if (!(key in steps)) return null;
  row = Math.min(rows - 1, Math.max(0, row + steps[key][0]));
  column = Math.min(model.heads - 1, Math.max(0, column + steps[key][1]));
  return {layer: model.layers[row], head: map.heads[row][column]};
}

function drawLegend() {
  const bar = byId("legend-bar"), ticks = byId("legend-ticks"), scale = map.scale, metric = metricNow();
  const width = bar.clientWidth || 240, context = prepareCanvas(bar, width, 10);
  bar.style.width = "";
  for (let x = 0; x < width; ++x) {
    context.fillStyle = colourOf(x / Math.max(1, width - 1));
    context.fillRect(x, 0, 1.5, 10);
  }
  let nextFree = -Infinity;
  const labels = [];
  for (const [part, text] of [...scale.ticks].sort((a, b) => a[0] - b[0])) {
    const room = 7 * text.length, x = Math.min(width - room / 2, Math.max(room / 2, part * width));
    if (x - room / 2 < nextFree) continue;
    nextFree = x + room / 2 + 6;
    const label = element("span", {}, text);
    label.style.left = `${x}px`;
    labels.push(label);
  }
  ticks.replaceChildren(...labels);
  const numbers = scale.ticks.map(([, text]) => text).join(", ") || "no numbers";
  const brighter = metric.better === "neither" ? "more" : "worse";
  byId("brighter").textContent = `Brighter is ${brighter}.`;
  byId("legend").setAttribute("aria-label", `Colours: ${numbers} ${metric.unit}; brighter is ${brighter}`);
}
