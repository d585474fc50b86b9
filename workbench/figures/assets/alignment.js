// Alignment view: each target token (row) over the source tokens (columns), one head at a time or the heads' mean.

const maps = PAGE.maps.map((record) => new AttentionMap(record));
const state = { ...PAGE.state, pair: "all" };
const drawing = new Matrix({
  rowAxis: "target (attends)", columnAxis: "source (attended to)",
  describe: (row, column, value) => `${drawing.rows[row]} → ${drawing.columns[column]}\n${value}`,
});
const bar = element("div", { class: "toolbar" }), kept = element("div");
const ALL = "mean";

function weights(map) {
  const heads = state.head === null ? [...map.heads.keys()] : [state.head];
  const parts = heads.map((head) => map.matrix(state.layer, head, state));
  const values = parts[0].values;
  for (const part of parts.slice(1)) part.values.forEach((value, i) => { values[i] += value; });
  return { ...parts[0], values: values.map((value) => value / heads.length) };
}

/** The strongest source token of each target token. */
function bestPerRow({ values, rows, columns }) {
  return rows.map((_, row) => {
    const own = values.subarray(row * columns.length, (row + 1) * columns.length);
    return [row, own.indexOf(Math.max(...own))];
  });
}

function update(change) {
  Object.assign(state, change);
  const map = maps[state.map];
  replaceToolbar(bar, [
    stepper("Layer", map.layers, state.layer, (layer) => update({ layer })),
    stepper("Head", [ALL, ...map.heads], state.head === null ? 0 : state.head + 1, (i) => update({ head: i ? i - 1 : null })),
    element("div", { class: "group" }, toggle("Mark strongest", state.rings, (rings) => update({ rings }), "Frame each row's strongest cell (b)")),
    ...commonChoices(maps, state, update),
  ]);
  kept.replaceChildren(...[keptNote(map, state.words)].filter(Boolean));
  const shown = weights(map);
  drawing.show({ ...shown, low: 0, high: shown.values.reduce((a, b) => Math.max(a, b), 0), signed: false, unit: "", rings: state.rings ? bestPerRow(shown) : [] });
}

onKeys((key) => {
  const map = maps[state.map], head = state.head === null ? -1 : state.head;
  if (key === "ArrowLeft" || key === "ArrowRight") update({ layer: clamp(state.layer + (key === "ArrowLeft" ? -1 : 1), 0, map.layers.length - 1) });
  else if (key === "ArrowUp" || key === "ArrowDown") {
    const next = clamp(head + (key === "ArrowUp" ? -1 : 1), -1, map.heads.length - 1);
    update({ head: next < 0 ? null : next });
  } else if (/^\d$/.test(key) && map.heads.includes(Number(key))) update({ head: map.heads.indexOf(Number(key)) });
  else if (key === "w" && map.queries.groups) update({ words: !state.words });
  else if (key === "s" && map.keys.sinks.length) update({ sinks: !state.sinks });
  else if (key === "b") update({ rings: !state.rings });
  else return false;
  return true;
});

VIEW.replaceChildren(element("h1", {}, PAGE.title), bar, kept, ...drawing.parts, help([
  ["← →", "previous or next layer"], ["↑ ↓", "previous or next head; above head 0 is their mean"], ["0 … 9", "that head"],
  ["b", "frame the strongest cell of each row"], ["w s", "words; hide sinks"], ["Tab", "into the matrix, where arrows move between cells"],
], "Each row is a target token and says where in the source it looks; darker is more. Hiding sinks does not renormalise the rest."));
update({});
document.documentElement.dataset.ready = "1";
