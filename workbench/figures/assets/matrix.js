// A labelled matrix on one canvas: labels stay put while it scrolls; every cell tells its value.

/** value in 0..1 (or -1..1 where signed) -> [red, green, blue], through the page's colour scale. */
function ramp(signed) {
  const parse = (name) => { const hex = colour(name); return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)); };
  const up = [0, 1, 2, 3].map((i) => parse(`scale-${i}`)), down = [up[0], ...[1, 2, 3].map((i) => parse(`minus-${i}`))];
  return (value) => {
    const stops = signed && value < 0 ? down : up, at = clamp(Math.abs(value), 0, 1) * 3, i = Math.min(2, Math.floor(at));
    return stops[i].map((from, c) => Math.round(from + (stops[i + 1][c] - from) * (at - i)));
  };
}

class Matrix {
  constructor({ rowAxis, columnAxis, square = false, describe }) {
    Object.assign(this, { rowAxis, columnAxis, square, describe, cursor: null, zoom: 1 });
    this.canvas = element("canvas", { role: "img", tabindex: "0" });
    this.space = element("div", { class: "window" }, this.canvas);
    this.stage = element("div", { class: "stage" }, this.space);
    this.readout = element("p", { class: "readout", "aria-live": "polite" }, "Point at a cell to read its value.");
    this.legend = element("p", { class: "quiet" });
    this.window = new Window(this.stage, this.canvas, () => this.size(), (...all) => this.draw(...all));
    this.canvas.addEventListener("pointermove", (e) => this.point(e));
    this.canvas.addEventListener("click", (e) => this.point(e));
    this.canvas.addEventListener("pointerleave", () => { showTip(""); this.select(null); });
    this.canvas.addEventListener("keydown", (e) => this.key(e));
  }

  get parts() { return [this.stage, this.readout, this.legend]; }

  /** `content`: values (row by row, NaN for none), rows, columns, low, high, signed, unit, ringed rows, and how many of
   *  the last columns are numbers of other units, without colours. */
  show(content) {
    Object.assign(this, content);
    this.cursor = null;
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = this.font = "12px system-ui, sans-serif";
    const widest = (names) => Math.min(140, Math.max(...names.map((name) => pen.measureText(name).width)));
    this.left = widest(this.rows) + 14 + 20;
    this.top = widest(this.columns) + 14 + 20;
    this.flat = this.columns.every((name) => pen.measureText(name).width < 22);
    if (this.flat) this.top = 22 + 20;
    const limits = `${short(this.low)} to ${short(this.high)}`;
    this.legend.replaceChildren(short(this.low), element("span", { class: `key ${this.signed ? "signed" : "scale"}` }), `${short(this.high)} ${this.unit}`.trim());
    this.canvas.setAttribute("aria-label", `${this.rows.length} by ${this.columns.length} matrix, ${this.rowAxis} down, ${this.columnAxis} across, ${limits} ${this.unit}; arrow keys move between cells`);
    this.layOut();
    this.window.redraw();
  }

  layOut() {
    const width = this.stage.clientWidth - this.left - 10;
    const fit = clamp(width / this.columns.length, 3, 44), most = this.rows.length > 200 ? 10 : 16;
    this.cell = Math.max(this.uncoloured ? 26 : 3, (this.square || width / this.columns.length >= most ? fit : Math.max(fit, Math.min(most, 16))) * this.zoom);
    this.tall = Math.min(this.cell, this.square ? 44 : 34);
    const [w, h] = [this.left + this.cell * this.columns.length + 8, this.top + this.tall * this.rows.length + 8];
    this.space.style.width = `${w}px`;
    this.space.style.height = `${h}px`;
    this.space.classList.toggle("centred", w < this.stage.clientWidth);
  }

  size() {
    this.layOut();
    return { width: Math.min(this.stage.clientWidth, this.space.offsetWidth), height: Math.min(this.stage.clientHeight, this.space.offsetHeight) };
  }

  at(x, y) {
    const column = Math.floor((x - this.left + this.stage.scrollLeft) / this.cell), row = Math.floor((y - this.top + this.stage.scrollTop) / this.tall);
    return x < this.left || y < this.top || row < 0 || column < 0 || row >= this.rows.length || column >= this.columns.length ? null : { row, column };
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), spot = this.at(event.clientX - box.left, event.clientY - box.top);
    this.select(spot);
    showTip(spot ? this.text(spot) : "", event.clientX, event.clientY);
  }

  text({ row, column }) {
    const value = this.values[row * this.columns.length + column];
    const unit = column >= this.columns.length - (this.uncoloured ?? 0) ? "" : this.unit;
    const shown = Number.isNaN(value) ? "no value" : `${short(value)} ${unit}`.trim();
    return this.describe ? this.describe(row, column, shown) : `${this.rows[row]} → ${this.columns[column]}: ${shown}`;
  }

  select(spot) {
    this.cursor = spot;
    if (spot) this.readout.textContent = this.text(spot).replaceAll("\n", "; ");
    this.window.redraw();
  }

  key(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const { row, column } = this.cursor ?? { row: -step[0], column: -step[1] };
    const spot = { row: clamp(row + step[0], 0, this.rows.length - 1), column: clamp(column + step[1], 0, this.columns.length - 1) };
    const [x, y] = [spot.column * this.cell, spot.row * this.tall];
    const [seenX, seenY] = [this.stage.clientWidth - this.left - this.cell, this.stage.clientHeight - this.top - this.tall];
    this.stage.scrollTo(clamp(this.stage.scrollLeft, x - seenX, x), clamp(this.stage.scrollTop, y - seenY, y));
    this.select(spot);
  }

  draw(context, width, height) {
    const { scrollLeft: sx, scrollTop: sy } = this.stage;
    const firstRow = Math.floor(sy / this.tall), lastRow = Math.min(this.rows.length, Math.ceil((sy + height) / this.tall));
    const firstColumn = Math.floor(sx / this.cell), lastColumn = Math.min(this.columns.length, Math.ceil((sx + width) / this.cell));
    context.save();
    context.beginPath();
    context.rect(this.left, this.top, width, height);
    context.clip();
    this.drawCells(context, firstRow, lastRow, firstColumn, lastColumn, sx, sy);
    context.restore();
    this.drawLabels(context, firstRow, lastRow, firstColumn, lastColumn, sx, sy);
  }

  drawCells(context, firstRow, lastRow, firstColumn, lastColumn, sx, sy) {
    const paint = ramp(this.signed), span = this.signed ? Math.max(Math.abs(this.low), Math.abs(this.high)) : this.high - this.low;
    const gap = this.cell > 8 ? 1 : 0, written = this.cell >= 30 && this.tall >= 16;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let row = firstRow; row < lastRow; row++) {
      for (let column = firstColumn; column < lastColumn; column++) {
        const value = this.values[row * this.columns.length + column];
        const x = this.left + column * this.cell - sx, y = this.top + row * this.tall - sy;
        if (Number.isNaN(value)) continue;
        if (column >= this.columns.length - (this.uncoloured ?? 0)) {
          context.fillStyle = colour("ink");
          context.fillText(compact(value), x + this.cell / 2, y + this.tall / 2);
          continue;
        }
        const rgb = paint(span ? (this.signed ? value : value - this.low) / span : 0);
        context.fillStyle = `rgb(${rgb})`;
        context.fillRect(x, y, this.cell - gap, this.tall - gap);
        if (written) {
          context.fillStyle = rgb[0] * 0.3 + rgb[1] * 0.59 + rgb[2] * 0.11 > 140 ? "#000" : "#fff";
          context.fillText(compact(value), x + this.cell / 2, y + this.tall / 2);
        }
      }
    }
    context.strokeStyle = colour("focus");
    context.lineWidth = 2;
    const box = (row, column) => context.strokeRect(this.left + column * this.cell - sx, this.top + row * this.tall - sy, this.cell - gap, this.tall - gap);
    for (const [row, column] of this.rings ?? []) if (row >= firstRow && row < lastRow) box(row, column);
    if (this.cursor) { context.strokeStyle = colour("ink"); box(this.cursor.row, this.cursor.column); }
  }

  drawLabels(context, firstRow, lastRow, firstColumn, lastColumn, sx, sy) {
    const ink = colour("ink"), muted = colour("muted");
    context.font = this.font;
    context.textBaseline = "middle";
    const label = (text, on) => { context.fillStyle = on ? ink : muted; context.font = on ? `600 ${this.font}` : this.font; return clipped(context, text, 140); };
    const rowStep = Math.ceil(13 / this.tall), columnStep = Math.ceil(13 / this.cell);
    context.textAlign = "right";
    for (let row = firstRow; row < lastRow; row++) {
      const y = this.top + (row + 0.5) * this.tall - sy, on = this.cursor?.row === row;
      if ((row % rowStep && !on) || y < this.top) continue;
      const text = label(this.rows[row], on);
      context.fillText(text, this.left - 6, y);
    }
    for (let column = firstColumn; column < lastColumn; column++) {
      const x = this.left + (column + 0.5) * this.cell - sx, on = this.cursor?.column === column;
      if ((column % columnStep && !on) || x < this.left) continue;
      const text = label(this.columns[column], on);
      context.save();
      context.translate(x, this.top - 7);
      if (!this.flat) context.rotate(-Math.PI / 2);
      context.textAlign = this.flat ? "center" : "left";
      context.fillText(text, 0, 0);
      context.restore();
    }
    context.fillStyle = muted;
    context.font = this.font;
    context.textAlign = "center";
    context.fillText(`${this.columnAxis} →`, Math.max(this.left + 30, (this.left + context.canvas.clientWidth) / 2), 12);
    context.translate(12, Math.max(this.top + 30, (this.top + context.canvas.clientHeight) / 2));
    context.rotate(-Math.PI / 2);
    context.fillText(`← ${this.rowAxis}`, 0, 0);
  }
}

function compact(value) {
  const size = Math.abs(value);
  if (size < 0.005) return "0";
  if (size < 1) return value.toFixed(2).replace("0.", ".");
  return size < 10 ? value.toFixed(1) : size < 1e4 ? value.toFixed(0) : value.toExponential(0);
}

function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let kept = [...text];
  while (kept.length > 1 && context.measureText(`${kept.join("")}…`).width > width) kept.pop();
  return `${kept.join("")}…`;
}
