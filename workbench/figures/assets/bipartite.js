// Two columns of tokens with attention drawn between them: left attends (query), right is attended to (key).

const MAX_LINES = 2500;
const MAX_DASHED = 400; // dashes take long to draw and cannot be told apart among more lines
const FAINTEST = 0.03; // share of the strongest weight below which a line would not be seen
const BINS = 1024;
const DASHES = [[], [5, 2], [1.5, 1.5], [6, 2, 1.5, 2]];

/** The `limit` strongest of several heads' edges, whose magnitudes are `largest` at most: counted into bins, so no
 *  sort. `total` counts those strong enough to be seen beside the strongest, `shown` how many of them are picked. */
function strongest(lists, limit, keep = () => true, largest = 1) {
  const bins = new Uint32Array(BINS + 1), bin = (weight) => Math.min(BINS, Math.floor((Math.abs(weight) / largest) * BINS));
  let most = 0;
  for (const { from, to, weight } of lists) {
    for (let i = 0; i < weight.length; i++) {
      if (!keep(from[i], to[i])) continue;
      bins[bin(weight[i])] += 1;
      most = Math.max(most, Math.abs(weight[i]));
    }
  }
  const total = bins.subarray(bin(most * FAINTEST)).reduce((sum, n) => sum + n, 0);
  let edge = BINS, above = 0;
  while (edge > 0 && above + bins[edge] <= limit) above += bins[edge--];
  let spare = limit - above;
  const picked = lists.map((list) => {
    const chosen = [];
    for (let i = 0; i < list.weight.length; i++) {
      if (!keep(list.from[i], list.to[i])) continue;
      const own = bin(list.weight[i]);
      if (own > edge || (own === edge && spare-- > 0)) chosen.push(i);
    }
    return { ...list, chosen };
  });
  return { lists: picked, total, most, shown: Math.min(total, limit) };
}

/** Curves of the picked edges, the strongest last and so on top. `placeFrom` and `placeTo` give each end's height,
 *  a list's `shift` moves it apart from other heads'. One stroke a line: a shared path is slower to fill in. */
function drawLines(context, picked, left, right, height, placeFrom, placeTo, widest) {
  const bend = (right - left) * 0.42, top = picked.most || 1, lines = [];
  for (const list of picked.lists) {
    for (const i of list.chosen) {
      const strength = Math.abs(list.weight[i]) / top;
      const a = placeFrom(list.from[i]) + list.shift, b = placeTo(list.to[i]) + list.shift;
      const hue = list.signs ? list.signs[list.weight[i] < 0 ? 1 : 0] : list.colour;
      if (strength >= FAINTEST && Math.max(a, b) > -4 && Math.min(a, b) < height + 4) lines.push({ strength, a, b, hue, list });
    }
  }
  lines.sort((one, other) => one.strength - other.strength);
  const dashed = lines.length <= MAX_DASHED && picked.lists.length > 1;
  for (const { strength, a, b, hue, list } of lines) {
    context.strokeStyle = hue;
    context.globalAlpha = Math.min(1, 1.05 * strength ** 1.3);
    context.lineWidth = 0.6 + widest * strength;
    if (dashed) context.setLineDash(list.dash);
    context.beginPath();
    context.moveTo(left, a);
    context.bezierCurveTo(left + bend, a, right - bend, b, right, b);
    context.stroke();
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
}

/** Colours of positive and negative weights, where a map has both; its lines then tell no heads apart. */
const signsOf = (map) => (map.signed ? [colour("scale-2"), colour("minus-2")] : null);

class Bipartite {
  constructor() {
    this.caption = { from: element("div", { class: "caption from" }, "attends (query)"), to: element("div", { class: "caption" }, "attended to (key)") };
    this.from = element("ol", { class: "tokens from", "aria-label": "attending tokens (queries)" });
    this.to = element("ol", { class: "tokens to", "aria-label": "tokens attended to (keys)" });
    this.canvas = element("canvas", { role: "img", "aria-label": "attention lines" });
    this.lines = element("div", { class: "lines" }, this.canvas);
    this.columns = element("div", { class: "columns" }, this.caption.from, element("div", { class: "caption" }), this.caption.to, this.from, this.lines, this.to);
    this.stage = element("div", { class: "stage", tabindex: "-1" }, this.columns);
    this.readout = element("p", { class: "readout", "aria-live": "polite" });
    this.note = element("p", { class: "quiet" });
    this.pinned = this.hovered = null;
    this.window = new Window(this.stage, this.canvas, () => this.size(), (...all) => this.draw(...all));
    for (const side of ["from", "to"]) this.listen(side);
  }

  get parts() { return [this.stage, this.readout, this.note]; }

  size() {
    if (!this.names) return null;
    const all = this.rows * Math.max(this.names.from.length, this.names.to.length);
    const visible = Math.max(60, this.stage.clientHeight - this.caption.from.offsetHeight);
    return { width: this.lines.clientWidth, height: Math.min(all, visible) };
  }

  /** Show one layer: `heads` are positions, `choices` the word, sink and sentence choices. */
  show(map, layer, heads, choices) {
    Object.assign(this, { map, layer, heads, choices });
    const names = { from: map.names("queries", choices.words), to: map.names("keys", choices.words) };
    if (names.from !== this.names?.from || names.to !== this.names?.to) this.fill(names);
    const dropped = choices.sinks && !choices.words ? map.hidden : [];
    [...this.to.children].forEach((item, i) => item.firstChild.classList.toggle("dropped", Boolean(dropped[i])));
    this.lists = heads.map((head) => ({
      ...map.edges(layer, head, choices), head, dash: DASHES[Math.floor(map.heads[head] / 8) % 4], hue: `head-${map.heads[head] % 8}`,
    }));
    this.refresh();
  }

  fill(names) {
    this.names = names;
    this.pinned = this.hovered = null;
    const most = Math.max(names.from.length, names.to.length);
    this.rows = most <= 40 ? 26 : most <= 160 ? 21 : 18;
    this.columns.style.setProperty("--row", `${this.rows}px`);
    this.columns.style.setProperty("--text", most <= 40 ? "15px" : "13px");
    for (const side of ["from", "to"]) {
      this[side].replaceChildren(...names[side].map((name, i) => this.item(side, name, i)));
    }
  }

  item(side, name, i) {
    return element("li", {}, element("button", {
      type: "button", tabindex: i ? "-1" : "0", "data-index": i, title: name,
      "aria-label": `${side === "from" ? "query" : "key"} ${i + 1} of ${this.names[side].length}: ${name}`,
    }, element("span", { class: "text" }, name), element("span", { class: "value", "aria-hidden": "true" })));
  }

  listen(side) {
    const list = this[side];
    const at = (event) => {
      const button = event.target.closest("button");
      return button && { side, index: Number(button.dataset.index) };
    };
    list.addEventListener("pointerover", (e) => { if (e.pointerType === "mouse") this.hover(at(e)); });
    list.addEventListener("pointerleave", () => this.hover(null));
    list.addEventListener("focusin", (e) => { if (e.target.matches(":focus-visible")) this.hover(at(e)); });
    list.addEventListener("focusout", () => this.hover(null));
    list.addEventListener("click", (e) => { const spot = at(e); if (spot) this.pin(spot); });
    list.addEventListener("keydown", (e) => {
      const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[e.key];
      if (!by || !e.target.dataset.index) return;
      e.preventDefault();
      e.stopPropagation();
      const next = list.children[clamp(Number(e.target.dataset.index) + by, 0, list.children.length - 1)].firstChild;
      e.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }

  pin(spot) {
    const same = this.pinned && this.pinned.side === spot.side && this.pinned.index === spot.index;
    this.pinned = same ? null : spot;
    this.hovered = null;
    this.refresh();
  }
  unpin() { this.pinned = this.hovered = null; this.refresh(); }
  hover(spot) { this.hovered = spot; this.refresh(); }

  refresh() {
    const spot = this.hovered ?? this.pinned;
    const keep = !spot ? undefined : spot.side === "from" ? (from) => from === spot.index : (_, to) => to === spot.index;
    this.picked = strongest(this.lists, MAX_LINES, keep, this.map.limit);
    this.mark(spot);
    this.say(spot);
    this.window.redraw();
  }

  /** Mean weight over the active heads for each token opposite `spot`. */
  means(spot) {
    const other = spot.side === "from" ? "to" : "from";
    const sums = new Float32Array(this.names[other].length);
    for (const list of this.lists) {
      const mine = list[spot.side], theirs = list[other];
      for (let i = 0; i < mine.length; i++) if (mine[i] === spot.index) sums[theirs[i]] += list.weight[i] / this.lists.length;
    }
    return { other, sums };
  }

  mark(spot) {
    for (const button of this.marked ?? []) {
      button.classList.remove("chosen");
      button.style.removeProperty("--share");
      button.lastChild.textContent = "";
    }
    this.marked = [];
    if (!spot || !this.lists.length) return;
    const { other, sums } = this.means(spot), top = sums.reduce((most, sum) => Math.max(most, Math.abs(sum)), 0) || 1;
    const own = this[spot.side].children[spot.index].firstChild;
    own.classList.add("chosen");
    this.marked.push(own);
    sums.forEach((sum, i) => {
      if (Math.abs(sum) < 0.005) return;
      const button = this[other].children[i].firstChild;
      button.style.setProperty("--share", (Math.abs(sum) / top).toFixed(3));
      button.lastChild.textContent = sum.toFixed(2).replace(/^(-?)0/, "$1");
      this.marked.push(button);
    });
  }

  say(spot) {
    const { total, shown, most } = this.picked, heads = this.lists.length;
    const missing = total > shown ? `The ${count(shown)} strongest of ${count(total)} visible edges are drawn; choose a token to see its own. ` : "";
    const signs = this.map.signed ? ". Weights may be negative here: blue lines are positive, orange ones negative." : "";
    this.note.replaceChildren(`${missing}Line strength: 0`, element("span", { class: "key" }), `${short(most)} (the strongest drawn)${signs}`);
    if (!heads) return this.readout.replaceChildren("No head chosen.");
    if (!spot) return this.readout.replaceChildren("Point at a token to follow its attention; click to keep it.");
    const { other, sums } = this.means(spot);
    const best = [...sums.keys()].sort((a, b) => Math.abs(sums[b]) - Math.abs(sums[a])).slice(0, 5).filter((i) => sums[i] !== 0);
    const listed = best.flatMap((i, n) => [n ? ", " : "", element("bdi", {}, this.names[other][i]), ` ${short(sums[i])}`]);
    const verb = spot.side === "from" ? " attends to " : " is attended to by ";
    const rest = heads > 1 ? ` (mean of ${heads} heads)` : "";
    this.readout.replaceChildren(element("bdi", {}, this.names[spot.side][spot.index]), verb, ...(listed.length ? listed : ["nothing shown"]), rest);
  }

  draw(context, width, height) {
    const scroll = Math.max(0, this.stage.scrollTop), half = this.rows / 2;
    const place = (i) => i * this.rows + half - scroll;
    const lists = this.picked.lists, spread = this.rows * 0.6;
    lists.forEach((list, i) => { list.colour = colour(list.hue); list.signs = signsOf(this.map); list.shift = ((i + 0.5) / lists.length - 0.5) * spread; });
    drawLines(context, this.picked, 2, width - 2, height, place, place, 2.6);
    const heads = this.heads.map((h) => this.map.heads[h]).join(", ");
    this.canvas.setAttribute("aria-label", `attention lines of layer ${this.map.layers[this.layer]}, heads ${heads || "none"}`);
  }
}
