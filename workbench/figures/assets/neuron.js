// Neuron view: one query vector against every key vector, element by element.

const map = new AttentionMap(PAGE.maps[0]);
const state = { ...PAGE.state, pair: "all", words: false, sinks: false };
const signed = new Map();
const bar = element("div", { class: "toolbar" }), kept = element("div");
const picker = element("div", { class: "text-flow", role: "group", "aria-label": "query token" });
const canvas = element("canvas", { role: "img", tabindex: "0" }), space = element("div", { class: "window" }, canvas);
const stage = element("div", { class: "stage" }, space);
const readout = element("p", { class: "readout", "aria-live": "polite" });
const legend = element("p", { class: "quiet" }, element("span", { class: "key signed" }), "negative, zero, positive; each column is scaled to its own largest magnitude");
const view = new Window(stage, canvas, size, draw);
const ROW = map.shape[1] <= 40 ? 24 : 18, HEAD = 62;
let shown = null, cursor = null;

/** Vectors of one layer and head: 16-bit integers times a scale, (token, width). */
function vectors(kind, layer, head) {
  const name = `${kind}/${layer}`;
  if (!signed.has(name)) signed.set(name, new Int16Array(bytes(PAGE[kind].values[layer]).buffer));
  const tokens = kind === "queries" ? map.shape[0] : map.shape[1], size = tokens * PAGE.width;
  const scale = PAGE[kind].scales[layer][head], all = signed.get(name).subarray(head * size, (head + 1) * size);
  return Float32Array.from(all, (value) => value * scale);
}

function prepare() {
  const { layer, head, query } = state, width = PAGE.width;
  const q = vectors("queries", layer, head).subarray(query * width, (query + 1) * width), keys = vectors("keys", layer, head);
  const products = keys.map((value, i) => value * q[i % width]);
  const dots = Float32Array.from({ length: map.shape[1] }, (_, k) => products.subarray(k * width, (k + 1) * width).reduce((a, b) => a + b, 0));
  const attention = map.matrix(layer, head, state).values.subarray(query * map.shape[1], (query + 1) * map.shape[1]);
  const largest = (values) => values.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
  shown = { q, keys, products, dots, attention, largest: { q: largest(q), keys: largest(keys), products: largest(products), dots: largest(dots) } };
}

function columns(width) {
  const label = clamp(width * 0.16, 62, 150), bar_ = clamp(width * 0.13, 48, 110), strip = (width - label - 2 * bar_ - 44) / 2;
  return { label, strip, bar: bar_, k: label + 8, product: label + 16 + strip, dot: label + 26 + 2 * strip, share: label + 36 + 2 * strip + bar_ };
}

function size() {
  const height = HEAD + ROW * map.shape[1] + 6;
  space.style.height = `${height}px`;
  return { width: stage.clientWidth, height: Math.min(stage.clientHeight, height) };
}

function draw(context, width, height) {
  const place = columns(width), paint = ramp(true), sy = stage.scrollTop;
  const strip = (x, y, values, start, top) => {
    const one = place.strip / PAGE.width;
    for (let i = 0; i < PAGE.width; i++) {
      context.fillStyle = `rgb(${paint(values[start + i] / top)})`;
      context.fillRect(x + i * one, y + 3, one + 0.4, ROW - 6);
    }
    context.strokeStyle = colour("rule");
    context.strokeRect(x - 0.5, y + 2.5, place.strip + 1, ROW - 5);
  };
  const first = Math.max(0, Math.floor(sy / ROW)), last = Math.min(map.shape[1], Math.ceil((sy + height) / ROW));
  for (let k = first; k < last; k++) {
    const y = HEAD + k * ROW - sy;
    if (y < HEAD - ROW) continue;
    if (cursor?.key === k) { context.fillStyle = colour("panel"); context.fillRect(0, y, width, ROW); }
    write(context, map.keys.tokens[k], place.label, y + ROW / 2, { align: "right", on: cursor?.key === k, clip: place.label - 4 });
    strip(place.k, y, shown.keys, k * PAGE.width, shown.largest.keys);
    strip(place.product, y, shown.products, k * PAGE.width, shown.largest.products);
    drawBar(context, place.dot, y, place.bar, shown.dots[k], shown.largest.dots, true);
    drawBar(context, place.share, y, place.bar, shown.attention[k], 1, false);
  }
  context.clearRect(0, 0, width, HEAD);
  const name = (text, x, w) => write(context, text, x + w / 2, HEAD - 12, { align: "center", muted: true, clip: w });
  name("keys k", place.k, place.strip);
  name("q × k", place.product, place.strip);
  name("q · k", place.dot, place.bar);
  name(width < 500 ? "weight" : "attention", place.share, place.bar);
  write(context, "query q", place.label, 8 + ROW / 2, { align: "right", muted: true, clip: place.label });
  strip(place.k, 8, shown.q, 0, shown.largest.q);
  write(context, map.queries.tokens[state.query], place.product, 8 + ROW / 2, { align: "left", on: true, clip: place.strip });
  context.strokeStyle = colour("rule");
  context.strokeRect(-1, HEAD - 0.5, width + 2, 0);
}

function write(context, text, x, y, { align, on = false, muted = false, clip }) {
  context.font = `${on ? "600 " : ""}13px system-ui, sans-serif`;
  context.fillStyle = colour(muted ? "muted" : "ink");
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(clipped(context, text, clip), x, y);
}

function drawBar(context, x, y, width, value, top, centred) {
  const text = 34, room = width - text, zero = centred ? x + room / 2 : x, reach = ((centred ? room / 2 : room) * value) / top;
  context.fillStyle = colour(value < 0 ? "head-1" : "head-0");
  context.fillRect(Math.min(zero, zero + reach), y + 5, Math.abs(reach), ROW - 10);
  if (centred) { context.fillStyle = colour("muted"); context.fillRect(zero - 0.5, y + 3, 1, ROW - 6); }
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colour("ink");
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : short(value), x + width, y + ROW / 2);
}

function point(event) {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, place = columns(box.width);
  const key = Math.floor((y - HEAD + stage.scrollTop) / ROW);
  if (y < HEAD || key < 0 || key >= map.shape[1]) { cursor = null; showTip(""); return view.redraw(); }
  const start = [place.k, place.product].find((left) => x >= left && x < left + place.strip);
  cursor = { key, neuron: start === undefined ? null : Math.floor(((x - start) / place.strip) * PAGE.width) };
  tell();
  showTip(cursor.neuron === null ? "" : neuronText(), event.clientX, event.clientY);
  view.redraw();
}

function neuronText() {
  const { key, neuron } = cursor, at = key * PAGE.width + neuron;
  return `dimension ${neuron}\nq ${shown.q[neuron].toFixed(2)} × k ${shown.keys[at].toFixed(2)} = ${shown.products[at].toFixed(2)}`;
}

function tell() {
  if (!cursor) return readout.replaceChildren("Choose a query token above; point at a row to read it.");
  const { key } = cursor;
  readout.replaceChildren(element("bdi", {}, map.queries.tokens[state.query]), " → ", element("bdi", {}, map.keys.tokens[key]), `: q · k ${shown.dots[key].toFixed(2)}, attention ${short(shown.attention[key])}`);
}

function update(change) {
  Object.assign(state, change);
  cursor = null;
  replaceToolbar(bar, [stepper("Layer", map.layers, state.layer, (layer) => update({ layer })), stepper("Head", map.heads, state.head, (head) => update({ head }))]);
  [...picker.children].forEach((button, i) => { button.setAttribute("aria-pressed", String(i === state.query)); button.tabIndex = i === state.query ? 0 : -1; });
  prepare();
  tell();
  canvas.setAttribute("aria-label", `query ${map.queries.tokens[state.query]} against ${map.shape[1]} keys, layer ${map.layers[state.layer]}, head ${map.heads[state.head]}`);
  view.redraw();
}

map.queries.tokens.forEach((token, i) => picker.append(element("button", { type: "button", "data-index": i, "aria-label": `query ${i + 1}: ${token}`, onclick: () => update({ query: i }) }, token)));
picker.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  update({ query: clamp(state.query + by, 0, map.shape[0] - 1) });
  picker.children[state.query].focus();
});
canvas.addEventListener("pointermove", point);
canvas.addEventListener("click", point);
canvas.addEventListener("pointerleave", () => { cursor = null; showTip(""); view.redraw(); });
canvas.addEventListener("keydown", (event) => {
  const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  cursor = { key: clamp((cursor?.key ?? -1) + by, 0, map.shape[1] - 1), neuron: null };
  stage.scrollTop = clamp(stage.scrollTop, (cursor.key + 1) * ROW + HEAD - stage.clientHeight, cursor.key * ROW);
  tell();
  view.redraw();
});
onKeys((key) => {
  if (key === "ArrowLeft" || key === "ArrowRight") update({ layer: clamp(state.layer + (key === "ArrowLeft" ? -1 : 1), 0, map.layers.length - 1) });
  else if (key === "ArrowUp" || key === "ArrowDown") update({ head: clamp(state.head + (key === "ArrowUp" ? -1 : 1), 0, map.heads.length - 1) });
  else if (/^\d$/.test(key) && map.heads.includes(Number(key))) update({ head: map.heads.indexOf(Number(key)) });
  else if (key === "," || key === ".") update({ query: clamp(state.query + (key === "," ? -1 : 1), 0, map.shape[0] - 1) });
  else return false;
  return true;
});

kept.replaceChildren(...[keptNote(map, false)].filter(Boolean));
VIEW.replaceChildren(element("h1", {}, PAGE.title), bar, group("Query"), picker, kept, stage, readout, legend, help([
  ["← →", "previous or next layer"], ["↑ ↓", "previous or next head"], ["0 … 9", "that head"], [", .", "previous or next query token"],
  ["Tab", "into the query tokens (← → move) or the table (↑ ↓ move)"],
], "The query vector on top is multiplied element by element with each key vector; the products sum to q · k, which the model scales, masks and turns into attention by a softmax over the keys."));
update({});
document.documentElement.dataset.ready = "1";
