// Heat map: any labelled matrix of numbers.

const { matrix } = PAGE;
const errors = matrix.errors ? new Float32Array(bytes(matrix.errors).buffer) : null;
const drawing = new Matrix({
  rowAxis: matrix.axes[0], columnAxis: matrix.axes[1], square: matrix.square,
  describe: (row, column, value) => {
    const error = errors ? errors[row * matrix.columns.length + column] : NaN;
    const where = matrix.square ? `${matrix.axes[0]} ${matrix.rows[row]}, ${matrix.axes[1]} ${matrix.columns[column]}` : `${matrix.rows[row]} → ${matrix.columns[column]}`;
    return `${where}\n${value}${Number.isNaN(error) ? "" : ` ± ${short(error)} (standard error)`}`;
  },
});
const note = PAGE.note ? [element("p", { class: "quiet" }, PAGE.note)] : [];
VIEW.replaceChildren(element("h1", {}, PAGE.title), ...note, ...drawing.parts);
drawing.show({ ...matrix, values: new Float32Array(bytes(matrix.values).buffer) });
document.documentElement.dataset.ready = "1";
