"use strict";
// What all views share: elements without markup, packed weights, colours, toolbar, keyboard, help.

const PAGE = JSON.parse(document.getElementById("data").textContent);
const VIEW = document.getElementById("view");

/** An element; strings among the children become text nodes, so no token is ever parsed as markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) made.style.setProperty(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const count = (number) => number.toLocaleString("en");
const short = (value) => (Math.abs(value) < 0.0005 ? "0" : Math.abs(value) < 0.01 ? value.toFixed(3) : value.toFixed(2));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function bytes(base64) {
  const text = atob(base64);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

/** One kind of attention with its tokens; layers are unpacked when first looked at. */
class AttentionMap {
  constructor(record) {
    Object.assign(this, record);
    this.unpacked = new Map();
    this.hidden = new Uint8Array(record.shape[1]);
    for (const key of record.keys.sinks) this.hidden[key] = 1;
  }

  layer(layer) {
    if (!this.unpacked.has(layer)) {
      const raw = bytes(this.weights[layer]);
      this.unpacked.set(layer, {
        weights: this.bits === 16 ? new Uint16Array(raw.buffer) : raw,
        index: this.kept ? new Uint16Array(bytes(this.index[layer]).buffer) : null,
      });
    }
    return this.unpacked.get(layer);
  }

  names(axis, words) {
    return words && this[axis].groups ? this[axis].words : this[axis].tokens;
  }

  /** Non-zero weights of one head as {from, to, weight}, after the sink, sentence and word choices. */
  edges(layer, head, { words, sinks, pair }) {
    const [Q, K] = this.shape;
    const { weights, index } = this.layer(layer);
    const width = this.kept || K, top = this.bits === 16 ? 65535 : 255, middle = this.signed ? (top - 1) / 2 : 0;
    const unit = this.signed ? this.limit / middle : 1 / top; // signed weights lie around the middle number
    const merge = words && this.queries.groups && this.keys.groups ? new WordSums(this) : null;
    const from = [], to = [], weight = [];
    for (let q = 0; q < Q; q++) {
      const start = (head * Q + q) * width;
      for (let j = 0; j < width; j++) {
        const value = weights[start + j] - middle;
        const k = index ? index[start + j] : j;
        if (!value || (sinks && this.hidden[k]) || !inPair(pair, this.split, q, k)) continue;
        if (merge) merge.add(q, k, value * unit);
        else { from.push(q); to.push(k); weight.push(value * unit); }
      }
    }
    return merge ? merge.edges() : { from, to, weight };
  }

  /** Dense weights of one head, row by row: {values, rows, columns}. */
  matrix(layer, head, choices) {
    const rows = this.names("queries", choices.words), columns = this.names("keys", choices.words);
    const values = new Float32Array(rows.length * columns.length);
    const { from, to, weight } = this.edges(layer, head, choices);
    for (let i = 0; i < weight.length; i++) values[from[i] * columns.length + to[i]] = weight[i];
    return { values, rows, columns };
  }
}

/** Word-to-word attention: sums over the pieces attended to, means over the pieces attending. */
class WordSums {
  constructor(map) {
    this.map = map;
    this.width = map.keys.words.length;
    this.sums = new Float32Array(map.queries.words.length * this.width);
    this.pieces = new Float32Array(map.queries.words.length);
    for (const group of map.queries.groups) this.pieces[group] += 1;
  }
  add(q, k, value) {
    const row = this.map.queries.groups[q];
    this.sums[row * this.width + this.map.keys.groups[k]] += value / this.pieces[row];
  }
  edges() {
    const from = [], to = [], weight = [];
    this.sums.forEach((value, i) => {
      if (value !== 0) { from.push(Math.floor(i / this.width)); to.push(i % this.width); weight.push(value); }
    });
    return { from, to, weight };
  }
}

function inPair(pair, split, q, k) {
  if (!split || pair === "all") return true;
  return (pair[0] === "a") === q < split && (pair[1] === "a") === k < split;
}

/** A canvas as large as what is visible of `stage`, redrawn while it scrolls; `draw(context, width, height)`.
 *  `measure()` gives its size, or null before there is anything to draw. */
class Window {
  constructor(stage, canvas, measure, draw) {
    Object.assign(this, { stage, canvas, measure, drawOn: draw, waiting: false });
    stage.addEventListener("scroll", () => this.redraw(), { passive: true });
    new ResizeObserver(() => this.redraw()).observe(stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.now(); });
  }
  now() {
    const visible = this.measure();
    if (!visible) return; // nothing shown yet
    const { width, height } = visible, scale = window.devicePixelRatio || 1;
    const pixels = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) {
      [this.canvas.width, this.canvas.height] = pixels;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    this.drawOn(context, width, height);
  }
}

// ---- controls -------------------------------------------------------------------------------------

function group(name, ...children) {
  return element("div", { class: "group", role: "group", "aria-label": name }, element("span", { class: "name" }, name), ...children);
}

function stepper(name, numbers, current, change) {
  const select = element("select", { "aria-label": name, onchange: () => change(select.selectedIndex) });
  numbers.forEach((number, i) => select.append(element("option", { value: i }, String(number))));
  select.selectedIndex = current;
  const step = (by) => change(clamp(select.selectedIndex + by, 0, numbers.length - 1));
  const low = name.toLowerCase();
  return group(name,
    element("button", { type: "button", "aria-label": `previous ${low}`, onclick: () => step(-1) }, "‹"), select,
    element("button", { type: "button", "aria-label": `next ${low}`, onclick: () => step(1) }, "›"));
}

function toggle(name, pressed, change, hint) {
  return element("button", { type: "button", class: "toggle", "aria-pressed": String(pressed), title: hint, onclick: () => change(!pressed) }, name);
}

function choose(name, options, current, change) {
  const select = element("select", { "aria-label": name, onchange: () => change(select.value) });
  for (const [value, label] of options) select.append(element("option", { value }, label));
  select.value = current;
  return group(name, select);
}

const PAIRS = [["all", "all"], ["aa", "A → A"], ["ab", "A → B"], ["ba", "B → A"], ["bb", "B → B"]];

/** Which attention, sentences, words and sinks: the choices that several views share. */
function commonChoices(maps, state, update) {
  const map = maps[state.map], controls = [];
  if (maps.length > 1) {
    controls.push(choose("Attention", maps.map((m, i) => [String(i), m.name]), String(state.map), (v) => update({ map: Number(v) })));
  }
  if (map.split) controls.push(choose("Sentences", PAIRS, state.pair, (pair) => update({ pair })));
  const switches = element("div", { class: "group" });
  if (map.queries.groups && map.keys.groups) {
    switches.append(toggle("Words", state.words, (words) => update({ words }), "Join word pieces: sum over pieces attended to, mean over pieces attending (w)"));
  }
  if (map.keys.sinks.length) {
    switches.append(toggle("Hide sinks", state.sinks, (sinks) => update({ sinks }), "Leave out attention to the first token and separators; the rest is not renormalised (s)"));
  }
  if (switches.children.length) controls.push(switches);
  return controls;
}

/** Why edges are missing, if they are. */
function keptNote(map, words) {
  if (!map.kept) return null;
  const merged = words ? " Word sums add up only these." : "";
  return element("p", { class: "warning" },
    `Large: only the ${map.kept} strongest keys of each query are kept in this file. They carry ${Math.round(map.share * 100)} % of the attention.${merged}`);
}

function help(rows, about) {
  const list = element("dl");
  for (const [keys, meaning] of rows) {
    list.append(element("dt", {}, ...keys.split(" ").map((k) => element("kbd", {}, k))), element("dd", {}, meaning));
  }
  return element("details", {}, element("summary", {}, "How to read this, and keys"), element("p", {}, about), list);
}

/** Keys that act on the whole view; not while typing in a control, and never with Ctrl, Alt or Meta. */
function onKeys(handle) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
    if (handle(event.key, event)) event.preventDefault();
  });
}

function replaceToolbar(bar, controls) {
  const active = bar.contains(document.activeElement) ? [...bar.querySelectorAll("button, select")].indexOf(document.activeElement) : -1;
  bar.replaceChildren(...controls);
  if (active >= 0) bar.querySelectorAll("button, select")[active]?.focus();
}

const tip = element("div", { class: "tip", hidden: "" });
document.body.append(tip);
function showTip(text, x, y) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${clamp(x + 12, 4, innerWidth - box.width - 4)}px`;
  tip.style.top = `${y + 16 + box.height > innerHeight ? y - box.height - 8 : y + 16}px`;
}
