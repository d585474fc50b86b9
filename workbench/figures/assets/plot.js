// Curves with bands, or labelled points, as SVG that fits its frame; the nearest mark tells its values.

const { plot } = PAGE;
const SVG = "http://www.w3.org/2000/svg";
const host = document.createElementNS(SVG, "svg");
const readout = element("p", { class: "readout", "aria-live": "polite" }, "Point at a mark to read it.");

function draw(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  host.append(made);
  return made;
}

/** Round steps that cover low..high in about `wanted` ticks. */
function ticks(low, high, wanted) {
  const rough = (high - low || 1) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power, out = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) out.push(Number(at.toPrecision(12)));
  return out;
}

/** Limits widened so that one unit is as long across as up. */
function sameScale([x0, x1, y0, y1], aspect) {
  const wanted = Math.max(x1 - x0, (y1 - y0) * aspect), tall = wanted / aspect;
  const middle = [(x0 + x1) / 2, (y0 + y1) / 2];
  return [middle[0] - wanted / 2, middle[0] + wanted / 2, middle[1] - tall / 2, middle[1] + tall / 2];
}

/** Boxes of the labels written so far; one that would overlap is left to the pointer. */
const written = [];
function roomFor(x, y, text) {
  const box = [x - 12, y - 9, x + 7 * text.length, y + 5];
  if (written.some((b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) return false;
  written.push(box);
  return true;
}

function render() {
  const width = host.clientWidth || 600, height = host.clientHeight || 360, edge = { left: 58, right: 16, top: 10, bottom: 44 };
  const [x0, x1, y0, y1] = plot.equal ? sameScale(plot.limits, (width - edge.left - edge.right) / (height - edge.top - edge.bottom)) : plot.limits;
  written.length = 0;
  const x = (v) => edge.left + ((v - x0) / (x1 - x0 || 1)) * (width - edge.left - edge.right);
  const y = (v) => height - edge.bottom - ((v - y0) / (y1 - y0 || 1)) * (height - edge.top - edge.bottom);
  host.replaceChildren();
  host.setAttribute("viewBox", `0 0 ${width} ${height}`);
  for (const at of ticks(x0, x1, width / 90)) {
    if (plot.grid) draw("line", { x1: x(at), x2: x(at), y1: edge.top, y2: height - edge.bottom, class: "axis" });
    if (plot.axes_shown) draw("text", { x: x(at), y: height - edge.bottom + 16, "text-anchor": "middle", class: "quiet" }, at);
  }
  for (const at of ticks(y0, y1, height / 60)) {
    if (plot.grid) draw("line", { x1: edge.left, x2: width - edge.right, y1: y(at), y2: y(at), class: "axis" });
    if (plot.axes_shown) draw("text", { x: edge.left - 6, y: y(at) + 4, "text-anchor": "end", class: "quiet" }, at);
  }
  draw("text", { x: (edge.left + width - edge.right) / 2, y: height - 6, "text-anchor": "middle" }, plot.x);
  draw("text", { x: 14, y: (height - edge.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(height - edge.bottom) / 2})` }, plot.y);
  plot.series.forEach((series, i) => (series.labels ? points(series, i, x, y) : curve(series, i, x, y)));
}

const hue = (series, i) => `var(--head-${(series.colour ?? i) % 8})`;

function curve(series, i, x, y) {
  const path = (values) => values.map((v, n) => (v === null ? null : `${x(series.x[n])},${y(v)}`)).filter(Boolean);
  if (series.low) draw("polygon", { points: [...path(series.low), ...path(series.high).reverse()].join(" "), fill: hue(series, i), opacity: 0.18 });
  draw("polyline", { points: path(series.y).join(" "), fill: "none", stroke: hue(series, i), "stroke-width": 2.2, "stroke-dasharray": ["", "7 4", "2 3", "9 3 2 3"][i % 4] });
  series.y.forEach((v, n) => {
    if (v === null) return;
    const range = series.low ? ` (${short(series.low[n])} to ${short(series.high[n])})` : "";
    mark(x(series.x[n]), y(v), hue(series, i), `${series.name}\n${plot.x} ${series.x[n]}: ${short(v)}${range}`, 3);
  });
}

function points(series, i, x, y) {
  series.x.forEach((v, n) => {
    mark(x(v), y(series.y[n]), hue(series, i), series.labels[n], 5, series.mark);
    if (plot.write_labels && roomFor(x(v) + 7, y(series.y[n]) + 4, series.short[n])) draw("text", { x: x(v) + 7, y: y(series.y[n]) + 4, class: "quiet" }, series.short[n]);
  });
}

/** A dot that tells its values; with `square`, a square one (the ninth series on, where colours repeat). */
function mark(cx, cy, fill, text, r, square) {
  const shape = square ? ["rect", { x: cx - r, y: cy - r, width: 2 * r, height: 2 * r }] : ["circle", { cx, cy, r }];
  const dot = draw(shape[0], { ...shape[1], fill, tabindex: "0", role: "img", "aria-label": text.replaceAll("\n", ", ") });
  const tell = (event) => { readout.textContent = text.replaceAll("\n", "; "); showTip(text, event.clientX ?? cx, event.clientY ?? cy); };
  dot.addEventListener("pointerenter", tell);
  dot.addEventListener("click", tell);
  dot.addEventListener("focus", () => { readout.textContent = text.replaceAll("\n", "; "); });
  dot.addEventListener("pointerleave", () => showTip(""));
}

host.setAttribute("class", "plot");
host.setAttribute("role", "group");
host.setAttribute("aria-label", PAGE.title);
const legend = element("div", { class: "toolbar quiet" }, ...plot.series.filter((series) => series.name).map((series, i) => element("span", {},
  element("span", { "--colour": hue(series, i), class: "dot" }), ` ${series.name}`)));
const note = PAGE.note ? [element("p", { class: "quiet" }, PAGE.note)] : [];
VIEW.replaceChildren(element("h1", {}, PAGE.title), ...note, legend, host, readout);
new ResizeObserver(render).observe(host);
render();
document.documentElement.dataset.ready = "1";
