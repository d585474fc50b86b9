// Curves with bands as SVG that fits its frame; the nearest mark tells its values.

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

function render() {
  const width = host.clientWidth || 600, height = host.clientHeight || 360, edge = { left: 58, right: 16, top: 10, bottom: 44 };
  const [x0, x1, y0, y1] = plot.limits;
  const x = (v) => edge.left + ((v - x0) / (x1 - x0 || 1)) * (width - edge.left - edge.right);
  const y = (v) => height - edge.bottom - ((v - y0) / (y1 - y0 || 1)) * (height - edge.top - edge.bottom);
  host.replaceChildren();
  host.setAttribute("viewBox", `0 0 ${width} ${height}`);
  for (const at of ticks(x0, x1, width / 90)) {
    draw("line", { x1: x(at), x2: x(at), y1: edge.top, y2: height - edge.bottom, class: "axis" });
    draw("text", { x: x(at), y: height - edge.bottom + 16, "text-anchor": "middle", class: "quiet" }, at);
  }
  for (const at of ticks(y0, y1, height / 60)) {
    draw("line", { x1: edge.left, x2: width - edge.right, y1: y(at), y2: y(at), class: "axis" });
    draw("text", { x: edge.left - 6, y: y(at) + 4, "text-anchor": "end", class: "quiet" }, at);
  }
  draw("text", { x: (edge.left + width - edge.right) / 2, y: height - 6, "text-anchor": "middle" }, plot.x);
  draw("text", { x: 14, y: (height - edge.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(height - edge.bottom) / 2})` }, plot.y);
  plot.series.forEach((series, i) => curve(series, i, x, y));
}

const hue = (i) => `var(--head-${i % 8})`;

function curve(series, i, x, y) {
  const path = (values) => values.map((v, n) => (v === null ? null : `${x(series.x[n])},${y(v)}`)).filter(Boolean);
  if (series.low) draw("polygon", { points: [...path(series.low), ...path(series.high).reverse()].join(" "), fill: hue(i), opacity: 0.18 });
  draw("polyline", { points: path(series.y).join(" "), fill: "none", stroke: hue(i), "stroke-width": 2.2, "stroke-dasharray": ["", "7 4", "2 3", "9 3 2 3"][i % 4] });
  series.y.forEach((v, n) => {
    if (v === null) return;
    const range = series.low ? ` (${short(series.low[n])} to ${short(series.high[n])})` : "";
    mark(x(series.x[n]), y(v), hue(i), `${series.name}\n${plot.x} ${series.x[n]}: ${short(v)}${range}`, 3);
  });
}

/** A dot that tells its values. */
function mark(cx, cy, fill, text, r) {
  const dot = draw("circle", { cx, cy, r, fill, tabindex: "0", role: "img", "aria-label": text.replaceAll("\n", ", ") });
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
  element("span", { "--colour": hue(i), class: "dot" }), ` ${series.name}`)));
const note = PAGE.note ? [element("p", { class: "quiet" }, PAGE.note)] : [];
VIEW.replaceChildren(element("h1", {}, PAGE.title), ...note, legend, host, readout);
new ResizeObserver(render).observe(host);
render();
document.documentElement.dataset.ready = "1";
