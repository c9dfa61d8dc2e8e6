// Who holds which part of each layer: a column for each layer, a row for each board. A cell stands for the layer's whole
// output along the axis over which it is cut (rows or channels, top to bottom); filled is where the board's boxes lie.
// One stop of the keyboard: arrows go from cell to cell, and the part is said in words.
import { el, svg } from "./dom.js";
import { whenSized } from "./axis.js";
import { boxesText, layerShort, volume } from "./planview.js";

const ROW = 34;
const TOP = 4;
const LEAST_CELL = 9;

/** Parts of 1: [board][column]. Boards may make some values twice, so that parts may add up to more than 1. */
function partsOf(boards, ops, layers) {
  const whole = ops.map((op) => {
    const dims = layers[op]?.output?.dims ?? [];
    return dims.reduce((product, n) => product * n, 1) || 1;
  });
  return boards.map((board) => ops.map((op, i) => (board.boxes.get(op) ?? []).reduce((sum, box) => sum + volume(box), 0) / whole[i]));
}

/** Where boxes lie, [from, to] in parts of 1, along the axis of which they take less: rows or channels. */
function span(boxes, dims) {
  const along = (lo, hi, whole) => [Math.min(...boxes.map((box) => box[lo])) / whole, Math.max(...boxes.map((box) => box[hi])) / whole];
  const rows = along(0, 1, dims.at(-3) ?? 1);
  const channels = along(4, 5, dims.at(-1) ?? 1);
  return rows[1] - rows[0] < channels[1] - channels[0] ? rows : channels;
}

export function heatMap(view, layers) {
  const boards = view.boards.filter((board) => board.used);
  const ops = [...new Set(boards.flatMap((board) => [...board.boxes.keys()]))].sort((a, b) => a - b);
  const parts = partsOf(boards, ops, layers);
  const height = TOP + boards.length * ROW + 18;
  const picture = svg("svg", { class: "heat", height, tabindex: 0, role: "application",
    "aria-label": `${ops.length} layers over ${boards.length} boards. Arrow keys go from cell to cell.` });
  const port = el("div", { class: "gantt-port" }, picture);
  const said = el("p", { class: "said", role: "status" }, "A cell is a layer's whole output; filled is where the board's part lies. Hover or use the arrow keys for the boxes.");
  let cell = LEAST_CELL;
  let chosen = null;
  let mark = svg("rect");

  const percent = (part) => `${part >= 0.0995 || part === 0 ? Math.round(part * 100) : (part * 100).toFixed(1)} %`;
  function paint() {
    const width = ops.length * cell + 2;
    picture.setAttribute("width", width);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    mark = svg("rect", { class: "chosen", rx: 2 });
    const cells = parts.flatMap((row, b) => row.map((part, i) => {
      const x = 1 + i * cell;
      const y = TOP + b * ROW;
      const whole = ROW - 4;
      const [from, to] = part > 0 ? span(boards[b].boxes.get(ops[i]), layers[ops[i]]?.output?.dims ?? []) : [0, 0];
      return [svg("rect", { class: "heat-cell", x, y, width: cell - 1, height: whole }),
        part > 0 && svg("rect", { class: "heat-part", x, y: y + from * whole, width: cell - 1, height: Math.max(1.5, (to - from) * whole) })];
    }));
    const step = Math.ceil(40 / cell);
    const labels = ops.map((op, i) => i % step === 0 && svg("text", { class: "tick-text", x: 1 + i * cell, y: height - 4 }, op)).filter(Boolean);
    picture.replaceChildren(...cells.flat().filter(Boolean), ...labels, mark);
    paintMark();
  }
  function paintMark() {
    if (!chosen) return;
    for (const [name, value] of Object.entries({ x: chosen.i * cell, y: TOP + chosen.b * ROW - 1, width: cell + 1, height: ROW - 2 })) mark.setAttribute(name, value);
  }
  function choose(b, i, follow) {
    chosen = { b: Math.max(0, Math.min(boards.length - 1, b)), i: Math.max(0, Math.min(ops.length - 1, i)) };
    const layer = layers[ops[chosen.i]];
    const boxes = boards[chosen.b].boxes.get(ops[chosen.i]);
    said.textContent = `${boards[chosen.b].name}, layer ${ops[chosen.i]} (${layer?.op ?? ""}, ${layerShort(layer?.name)}): ${percent(parts[chosen.b][chosen.i])}${boxes ? `: ${boxesText(boxes)}` : ", nothing of it"}`;
    paintMark();
    const x = chosen.i * cell;
    if (follow && (x < port.scrollLeft || x > port.scrollLeft + port.clientWidth - cell)) port.scrollLeft = x - port.clientWidth / 2;
  }
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    choose(Math.floor((event.clientY - box.top - TOP) / ROW), Math.floor((event.clientX - box.left) / cell), false);
  });
  picture.addEventListener("focus", () => chosen ?? choose(0, 0, true));
  picture.addEventListener("keydown", (event) => {
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -1e6], End: [0, 1e6] }[event.key];
    if (!move) return;
    event.preventDefault();
    choose((chosen?.b ?? 0) + move[0], (chosen?.i ?? 0) + move[1], true);
  });
  const stop = whenSized(port, (width) => {
    cell = Math.max(LEAST_CELL, Math.min(40, Math.floor((width - 2) / Math.max(1, ops.length))));
    paint();
  });
  const element = el("div", {}, el("div", { class: "gantt-frame heat-frame" },
    el("div", { class: "gantt-names", "aria-hidden": "true" }, boards.map((board) => el("div", {}, board.name))), port), said);
  return { element, end: stop };
}
