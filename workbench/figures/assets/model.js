// Model view: every layer (rows) and head (columns) at once; thumbnails are drawn when they come into sight.

const THUMBNAIL_LINES = 500;
const maps = PAGE.maps.map((record) => new AttentionMap(record));
const longest = Math.max(...maps.flatMap((map) => map.shape));
const state = { ...PAGE.state, pair: "all", heat: longest > 48 };
const bar = element("div", { class: "toolbar" }), kept = element("div");
const grid = element("div", { class: "cells", role: "grid", "aria-label": "layers by heads" });
const stage = element("div", { class: "stage" }, grid);
const detail = new Bipartite();
const dialogTitle = element("h1");
const dialog = element("dialog", { "aria-label": "one head" }, element("div", {},
  element("div", { class: "bar" }, dialogTitle, element("button", { type: "button", onclick: () => dialog.close() }, "Close")), ...detail.parts));

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); drawThumbnail(entry.target); }
}, { root: stage, rootMargin: "120px" });

function drawThumbnail(cell) {
  const map = maps[state.map], layer = Number(cell.dataset.layer), head = Number(cell.dataset.head);
  const edges = map.edges(layer, head, state), canvas = cell.firstChild;
  canvas.classList.toggle("heat", state.heat);
  const sizes = [map.names("queries", state.words).length, map.names("keys", state.words).length];
  if (state.heat) drawHeat(canvas, edges, sizes, map.signed);
  else drawCurves(canvas, edges, sizes, map, map.heads[head]);
  cell.dataset.drawn = "1";
}

function drawCurves(canvas, edges, sizes, map, head) {
  const scale = window.devicePixelRatio || 1, side = Math.max(24, canvas.clientWidth);
  canvas.width = canvas.height = Math.round(side * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const place = (total) => (i) => 4 + ((i + 0.5) * (side - 8)) / total;
  const list = { ...edges, colour: colour(`head-${head % 8}`), signs: signsOf(map), dash: [], shift: 0 };
  const picked = strongest([list], THUMBNAIL_LINES, undefined, map.limit);
  drawLines(context, picked, 4, side - 4, side, place(sizes[0]), place(sizes[1]), side > 60 ? 1.6 : 0.9);
}

/** Queries down, keys across; where tokens outnumber pixels each pixel shows its strongest weight. */
function drawHeat(canvas, { from, to, weight }, [rows, columns], signed) {
  const pixels = Math.max(24, Math.floor(canvas.clientWidth * (window.devicePixelRatio || 1)));
  const height = (canvas.height = Math.min(rows, pixels)), width = (canvas.width = Math.min(columns, pixels));
  const strongestIn = new Float32Array(width * height);
  let top = 0;
  for (let i = 0; i < weight.length; i++) {
    const cell = Math.floor((from[i] * height) / rows) * width + Math.floor((to[i] * width) / columns);
    if (Math.abs(weight[i]) > Math.abs(strongestIn[cell])) strongestIn[cell] = weight[i];
    top = Math.max(top, Math.abs(weight[i]));
  }
  const context = canvas.getContext("2d"), image = context.createImageData(width, height), paint = ramp(signed);
  strongestIn.forEach((value, i) => image.data.set([...paint(top ? value / top : 0), 255], i * 4));
  context.putImageData(image, 0, 0);
}

function fill() {
  const map = maps[state.map];
  watcher.disconnect();
  const columns = map.heads.length;
  grid.style.gridTemplateColumns = `max-content repeat(${columns}, minmax(52px, 1fr))`;
  grid.style.maxWidth = `${columns * 150}px`;
  const head = [element("span", { class: "number row column" }, ""), ...map.heads.map((n) => element("span", { class: "number column" }, `head ${n}`))];
  const rows = map.layers.flatMap((number, layer) => [
    element("span", { class: "number row" }, String(number)),
    ...map.heads.map((n, h) => element("button", {
      type: "button", "data-layer": layer, "data-head": h, tabindex: layer || h ? "-1" : "0",
      "aria-label": `layer ${number}, head ${n}`, title: `layer ${number}, head ${n}`, onclick: () => open(layer, h),
    }, element("canvas", { "aria-hidden": "true" }))),
  ]);
  if (columns > 8) head.slice(1).forEach((label, i) => { label.textContent = map.heads[i]; });
  head[0].textContent = columns > 8 ? "head →\nlayer ↓" : "layer";
  grid.replaceChildren(...head, ...rows);
  for (const cell of grid.querySelectorAll("button")) watcher.observe(cell);
}

function open(layer, head) {
  const map = maps[state.map];
  dialogTitle.textContent = `Layer ${map.layers[layer]}, head ${map.heads[head]}`;
  if (!dialog.open) dialog.showModal();
  Object.assign(state, { layer, head });
  detail.show(map, layer, [head], state);
}

function update(change) {
  Object.assign(state, change);
  const map = maps[state.map];
  replaceToolbar(bar, [...commonChoices(maps, state, update),
    toggle("Heat maps", state.heat, (heat) => update({ heat }), "Draw each head as a heat map, queries down and keys across (m)")]);
  kept.replaceChildren(...[keptNote(map, state.words)].filter(Boolean));
  fill();
}

onKeys((key, event) => {
  const cell = event.target.closest?.(".cells button"), map = maps[state.map];
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
  if (step && dialog.open) {
    open(clamp(state.layer + step[0], 0, map.layers.length - 1), clamp(state.head + step[1], 0, map.heads.length - 1));
  } else if (step) {
    const from = cell ?? grid.querySelector('button[tabindex="0"]');
    const layer = clamp(Number(from.dataset.layer) + (cell ? step[0] : 0), 0, map.layers.length - 1);
    const head = clamp(Number(from.dataset.head) + (cell ? step[1] : 0), 0, map.heads.length - 1);
    const next = grid.querySelector(`button[data-layer="${layer}"][data-head="${head}"]`);
    from.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  } else if (key === "w" && map.queries.groups) update({ words: !state.words });
  else if (key === "s" && map.keys.sinks.length) update({ sinks: !state.sinks });
  else if (key === "m") update({ heat: !state.heat });
  else return false;
  return true;
});

VIEW.replaceChildren(element("h1", {}, PAGE.title), bar, kept, stage,
  element("p", { class: "quiet" }, "Rows are layers, columns heads; each picture is scaled to its own strongest weight. Choose one to read it."), dialog, help([
    ["← → ↑ ↓", "move between heads and layers, also in the large picture"], ["Enter", "open the head"], ["Esc", "close it"],
    ["w s", "words; hide sinks"], ["m", "lines or heat maps"],
  ], `Lines: left attends, right is attended to; at most ${THUMBNAIL_LINES} a picture. Heat maps: queries down, keys across. Hiding sinks does not renormalise the rest. `
    + "Look for diagonals (next or previous token), columns (separators, first token) and broad, even heads."));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", fill);
update({});
document.documentElement.dataset.ready = "1";
