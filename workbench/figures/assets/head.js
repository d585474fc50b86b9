// Head view: one layer, any of its heads.

const maps = PAGE.maps.map((record) => new AttentionMap(record));
const state = { ...PAGE.state, pair: "all", heads: new Set(PAGE.state.heads) };
const drawing = new Bipartite();
const bar = element("div", { class: "toolbar" }), kept = element("div");

function headButton(map, head) {
  const number = map.heads[head];
  return element("button", {
    type: "button", class: "head", "data-dash": Math.floor(number / 8) % 4, "--colour": `var(--head-${number % 8})`,
    "aria-pressed": String(state.heads.has(head)), "aria-label": `head ${number}`, title: "Click: on or off. Double click: only this head.",
    onclick: () => flip(head), ondblclick: () => update({ heads: new Set([head]) }),
  }, String(number));
}

function headControls(map) {
  const every = map.heads.map((_, head) => head);
  return group("Heads", ...every.map((head) => headButton(map, head)),
    element("button", { type: "button", onclick: () => update({ heads: new Set(every) }) }, "all"),
    element("button", { type: "button", onclick: () => update({ heads: new Set() }) }, "none"));
}

function flip(head) {
  const heads = new Set(state.heads);
  if (!heads.delete(head)) heads.add(head);
  update({ heads });
}

function update(change) {
  Object.assign(state, change);
  const map = maps[state.map];
  state.layer = clamp(state.layer, 0, map.layers.length - 1);
  state.heads = new Set([...state.heads].filter((head) => head < map.heads.length));
  replaceToolbar(bar, [stepper("Layer", map.layers, state.layer, (layer) => update({ layer })), headControls(map), ...commonChoices(maps, state, update)]);
  kept.replaceChildren(...[keptNote(map, state.words)].filter(Boolean));
  drawing.show(map, state.layer, [...state.heads].sort((a, b) => a - b), state);
}

/** Up and down: from all heads to one at a time. */
function stepHead(by) {
  const last = maps[state.map].heads.length - 1, one = state.heads.size === 1 ? [...state.heads][0] + by : by > 0 ? 0 : last;
  update({ heads: new Set([clamp(one, 0, last)]) });
}

onKeys((key, event) => {
  const map = maps[state.map], digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code);
  if (digit) {
    const head = map.heads.indexOf(Number(digit[1]) + (event.shiftKey ? 10 : 0));
    if (head >= 0) flip(head);
  } else if (key === "ArrowLeft" || key === "ArrowRight") update({ layer: state.layer + (key === "ArrowLeft" ? -1 : 1) });
  else if (key === "ArrowUp" || key === "ArrowDown") stepHead(key === "ArrowUp" ? -1 : 1);
  else if (key === "a") update({ heads: new Set(map.heads.keys()) });
  else if (key === "w" && map.queries.groups) update({ words: !state.words });
  else if (key === "s" && map.keys.sinks.length) update({ sinks: !state.sinks });
  else if (key === "Escape") drawing.unpin();
  else return false;
  return true;
});

VIEW.replaceChildren(element("h1", {}, PAGE.title), bar, kept, ...drawing.parts, help([
  ["← →", "previous or next layer"], ["↑ ↓", "one head at a time"], ["0 … 9", "head on or off; with Shift, heads 10 to 19"],
  ["a", "all heads"], ["w s", "words; hide sinks"], ["Tab", "into the tokens, where ↑ ↓ move and Enter keeps one"], ["Esc", "let go of the token"],
], `Each line joins a token that attends (left) to a token it attends to (right); its colour and dash are the head, its strength the weight (dashes only among up to ${MAX_DASHED} lines). `
  + "Numbers beside tokens are weights, averaged over the heads that are on. Hiding sinks leaves out attention to the first token and separators without renormalising the rest. "
  + "Attention shows where a head reads from; on its own it does not explain a prediction."));
update({});
document.documentElement.dataset.ready = "1";
