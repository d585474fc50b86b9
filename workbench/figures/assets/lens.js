// Lens grid: what each layer would say at each position; the colour is one of several quantities.

const { grid } = PAGE;
const layers = grid.layers.length, positions = grid.tokens.length;
let chosen = 0;
const readout = element("p", { class: "readout", "aria-live": "polite" }, "Point at a cell to read its layer's predictions.");
const legend = element("p", { class: "quiet" });
const table = element("table", { class: "lens" });
const stage = element("div", { class: "stage" }, table);
const bar = element("div", { class: "toolbar" });

const number = (value) => (Math.abs(value) >= 1000 ? value.toExponential(1) : Number.isInteger(value) ? String(value) : short(value));

/** Share of the scale: -1..1 where signed, else 0..1; ranks on a logarithmic scale, the first the darkest. */
function shade(quantity, value) {
  if (quantity.logarithmic) return 1 - Math.log(value) / Math.log(quantity.high);
  if (quantity.signed) return value / (quantity.high || 1);
  return (value - quantity.low) / (quantity.high - quantity.low || 1);
}

function words(layer, position) {
  const cell = grid.cells[layer][position];
  const best = cell.tokens.map((token, i) => `${token}  ${short(cell.probabilities[i])}`);
  const numbers = grid.quantities.map((q) => `${q.name}: ${number(q.values[layer][position])} ${q.unit}`.trim());
  return [`layer ${grid.layers[layer]}, after ${grid.tokens[position]}`, ...best, "", ...numbers].join("\n");
}

function tell(event, layer, position) {
  const text = words(layer, position);
  readout.textContent = text.replaceAll("\n\n", "\n").replaceAll("\n", "; ");
  showTip(text, event.clientX ?? 0, event.clientY ?? 0);
}

function cellOf(layer, position, paint, quantity) {
  const rgb = paint(shade(quantity, quantity.values[layer][position]));
  const dark = rgb[0] * 0.3 + rgb[1] * 0.59 + rgb[2] * 0.11 <= 140;
  const cell = element("td", { tabindex: "0", class: grid.settling[position] === layer ? "settled" : "" }, grid.cells[layer][position].tokens[0]);
  cell.style.background = `rgb(${rgb})`;
  cell.style.color = dark ? "#fff" : "#000";
  cell.addEventListener("pointermove", (e) => tell(e, layer, position));
  cell.addEventListener("pointerleave", () => showTip(""));
  cell.addEventListener("focus", () => { readout.textContent = words(layer, position).replaceAll("\n", "; "); });
  return cell;
}

function render() {
  const quantity = grid.quantities[chosen], paint = ramp(quantity.signed);
  const head = element("tr", {}, element("th", {}, "layer"), ...grid.tokens.map((t) => element("th", {}, t)));
  const rows = [...Array(layers).keys()].reverse().map((layer) => element("tr", {}, element("th", {}, String(grid.layers[layer])),
    ...[...Array(positions).keys()].map((position) => cellOf(layer, position, paint, quantity))));
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  const ends = quantity.logarithmic ? [number(quantity.high), "1"] : [number(quantity.signed ? -quantity.high : quantity.low), number(quantity.high)];
  legend.replaceChildren(ends[0], element("span", { class: `key ${quantity.signed ? "signed" : "scale"}` }), `${ends[1]} ${quantity.unit}; a frame marks the layer from which on the prediction stays`);
  replaceToolbar(bar, [choose("Colour", grid.quantities.map((q, i) => [String(i), q.name]), String(chosen), (v) => { chosen = Number(v); render(); })]);
}

const note = PAGE.note ? [element("p", { class: "quiet" }, PAGE.note)] : [];
VIEW.replaceChildren(element("h1", {}, PAGE.title), ...note, bar, stage, readout, legend);
render();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
document.documentElement.dataset.ready = "1";
