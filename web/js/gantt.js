// One inference as a Gantt chart: a row for each board, time to the right; in it each layer's computing, waiting and
// moving. A board tells for each layer when it began and how long it computed, waited and moved, not in which order: the
// picture puts waiting first, then moving, then computing, and says so. Exchanges are lines from the layer that sent to
// the layer that received, as the plan has them. One stop of the keyboard: arrows go from layer to layer and from board
// to board, + and - zoom.
import { bytes, el, ms, svg } from "./dom.js";
import { ticks, whenSized } from "./axis.js";
import { boxesText, exchangesOf, layerShort } from "./planview.js";
import { splitKey } from "./split.js";

const ROW = 44;
const BAR = 26;
const TOP = 24;
const LEFT = 8;
const ORDER = ["waiting", "moving", "computing"];
const MOST_ZOOM = 64;

const length = (segment) => segment.computing_ms + segment.waiting_ms + segment.moving_ms;

/** A row's segment that an operator belongs to: the last that begins at or before it. */
const segmentOf = (row, op) => row.segments.findLast?.((segment) => segment.op <= op) ?? row.segments.find((segment) => segment.op === op);

/** What goes from board to board, by row and time: drawn from the end of the layer that made it to where it was needed. */
function linesOf(rows, view) {
  const rowOf = new Map(rows.map((row, i) => [row.party, i]));
  return exchangesOf(view).map((move) => {
    const [from, to] = [rowOf.get(move.from), rowOf.get(move.to)];
    if (from == null || to == null) return null;
    const [sent, got] = [segmentOf(rows[from], move.fromOp), segmentOf(rows[to], move.toOp)];
    return sent && got && { ...move, row: from, toRow: to, sent, got, x0: sent.start_ms + length(sent), x1: got.start_ms + got.waiting_ms };
  }).filter(Boolean);
}

/** What is known of one layer on one board, as pairs. */
function describe(row, segment, view, layers) {
  const layer = layers?.[segment.op];
  const boxes = view?.boards.find((board) => board.party === row.party)?.boxes.get(segment.op);
  const moves = (view?.moves ?? []).filter((move) => (move.from === row.party && move.fromOp === segment.op) || (move.to === row.party && move.toOp === segment.op));
  const sum = (is) => moves.filter(is).reduce((total, move) => total + move.bytes, 0);
  const received = sum((move) => move.to === row.party && move.toOp === segment.op);
  const sent = sum((move) => move.from === row.party && move.fromOp === segment.op);
  return [
    ["board", row.name],
    ["layer", segment.op != null ? `${segment.op}: ${layerShort(segment.layer)}` : layerShort(segment.layer)],
    ["operator", layer && `${layer.op}, output ${layer.output?.dims?.join(" × ")}`],
    ["began", `${ms(segment.start_ms)} after the board's start`],
    ["time", `computing ${ms(segment.computing_ms)}, waiting ${ms(segment.waiting_ms)}, moving ${ms(segment.moving_ms)}`],
    ["its box", boxes && boxesText(boxes)],
    ["bytes", view && `${bytes(received)} received for it, ${bytes(sent)} sent after it`],
  ].filter(([, value]) => value);
}

/** The chart of an inference; `view` (readPlan) and `layers` may be null: then no boxes, bytes and lines. */
export function gantt(inference, view, layers) {
  const rows = inference.timeline.filter((row) => row.segments?.length).sort((a, b) => a.party - b.party);
  const lines = view ? linesOf(rows, view) : [];
  const end = Math.max(inference.latency_ms ?? 0, ...rows.flatMap((row) => row.segments.map((segment) => segment.start_ms + length(segment))));
  const height = TOP + rows.length * ROW + 4;
  const names = el("div", { class: "gantt-names", "aria-hidden": "true" }, rows.map((row) => el("div", {}, row.name)));
  const picture = svg("svg", { class: "gantt", height, tabindex: 0, role: "application",
    "aria-label": `Time line of ${rows.length} boards over ${ms(end)}. Arrow keys go from layer to layer and board to board, plus and minus zoom.` });
  const port = el("div", { class: "gantt-port" }, picture);
  const detail = el("dl", { class: "detail" });
  const said = el("p", { class: "aside", role: "status" });
  const exchanges = el("input", { type: "checkbox", checked: rows.length <= 8, onchange: () => paint() });
  let zoom = 1;
  let width = 0;
  let chosen = null; // {row, index}
  let mark = null;

  const scale = () => ((width - 2 * LEFT) * zoom) / end;
  const x = (time) => LEFT + time * scale();
  const y = (row) => TOP + row * ROW + (ROW - BAR) / 2;

  function bars(row, i) {
    return row.segments.flatMap((segment) => {
      let at = segment.start_ms;
      return ORDER.map((kind) => {
        const time = segment[`${kind}_ms`];
        at += time;
        // A layer's waiting is lower than its work: form tells the kinds apart, not colour alone.
        const inset = { waiting: 8, moving: 4, computing: 0 }[kind];
        return time > 0 && svg("rect", { class: kind, x: x(at - time).toFixed(2), width: Math.max(0.4, time * scale()).toFixed(2), y: y(i) + inset, height: BAR - 2 * inset });
      }).filter(Boolean);
    });
  }

  const route = (line) => {
    const down = line.toRow > line.row;
    return `M${x(line.x0).toFixed(1)} ${y(line.row) + (down ? BAR : 0)}L${x(line.x1).toFixed(1)} ${y(line.toRow) + (down ? 0 : BAR)}`;
  };

  function axis() {
    const marks = ticks(end / zoom, Math.max(2, Math.floor(width / 110)));
    const step = marks[1];
    return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step).map((time) => svg("g", {},
      svg("line", { class: "grid", x1: x(time), x2: x(time), y1: TOP - 6, y2: height }),
      // The last text stands before its line where it would be cut off behind it.
      svg("text", { class: "tick-text", x: x(time) + (x(time) > width * zoom - 44 ? -3 : 3), y: TOP - 9, "text-anchor": x(time) > width * zoom - 44 ? "end" : "start" }, time === 0 ? "0 ms" : ms(time).replace(/\.0+ /, " "))));
  }

  function paint() {
    if (!width) return;
    const whole = Math.ceil(width * zoom);
    picture.setAttribute("width", whole);
    picture.setAttribute("viewBox", `0 0 ${whole} ${height}`);
    mark = svg("g", { class: "mark" });
    picture.replaceChildren(...axis(), ...rows.map((row, i) => svg("g", {}, bars(row, i))),
      exchanges.checked ? svg("path", { class: lines.length > 200 ? "exchange many" : "exchange", d: lines.map(route).join("") }) : svg("g"), mark);
    paintMark(false);
  }

  function paintMark(follow) {
    if (!chosen || !mark) return;
    const row = rows[chosen.row];
    const segment = row.segments[chosen.index];
    const own = lines.filter((line) => line.sent === segment || line.got === segment);
    const [from, to] = [x(segment.start_ms), x(segment.start_ms + length(segment))];
    mark.replaceChildren(
      svg("rect", { class: "chosen", x: from - 1.5, width: Math.max(3, to - from + 3), y: y(chosen.row) - 4, height: BAR + 8, rx: 3 }),
      svg("path", { class: "exchange own", d: own.map(route).join("") }));
    if (follow && (from < port.scrollLeft || to > port.scrollLeft + width)) port.scrollLeft = from - width / 3;
  }

  function choose(next, follow) {
    if (!next || (chosen && next.row === chosen.row && next.index === chosen.index)) return;
    chosen = next;
    const row = rows[chosen.row];
    const pairs = describe(row, row.segments[chosen.index], view, layers);
    detail.replaceChildren(...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
    if (follow) said.textContent = pairs.slice(0, 5).map(([name, value]) => `${name} ${value}`).join("; ");
    paintMark(follow);
  }

  /** The segment of a row at a time, or the one nearest to it. */
  function near(row, time) {
    let best = 0;
    let least = Infinity;
    rows[row].segments.forEach((segment, i) => {
      const far = Math.max(segment.start_ms - time, time - segment.start_ms - length(segment), 0);
      if (far < least) [best, least] = [i, far];
    });
    return { row, index: best };
  }

  function setZoom(next, keep) {
    const time = (keep ?? port.scrollLeft + width / 2) / scale();
    const offset = (keep ?? port.scrollLeft + width / 2) - port.scrollLeft;
    zoom = Math.max(1, Math.min(MOST_ZOOM, next));
    paint();
    port.scrollLeft = time * scale() - offset;
  }

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - TOP) / ROW);
    if (row >= 0 && row < rows.length) choose(near(row, (event.clientX - box.left - LEFT) / scale()), false);
  });
  picture.addEventListener("focus", () => !chosen && rows.length && choose({ row: 0, index: 0 }, true));
  picture.addEventListener("keydown", (event) => {
    const acts = {
      "+": () => setZoom(zoom * 2), "=": () => setZoom(zoom * 2), "-": () => setZoom(zoom / 2), 0: () => setZoom(1),
      ArrowRight: () => choose({ row: chosen.row, index: Math.min(chosen.index + 1, rows[chosen.row].segments.length - 1) }, true),
      ArrowLeft: () => choose({ row: chosen.row, index: Math.max(chosen.index - 1, 0) }, true),
      ArrowDown: () => chosen.row + 1 < rows.length && choose(near(chosen.row + 1, rows[chosen.row].segments[chosen.index].start_ms), true),
      ArrowUp: () => chosen.row > 0 && choose(near(chosen.row - 1, rows[chosen.row].segments[chosen.index].start_ms), true),
      Home: () => choose({ row: chosen.row, index: 0 }, true),
      End: () => choose({ row: chosen.row, index: rows[chosen.row].segments.length - 1 }, true),
    };
    if (!acts[event.key] || !chosen || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
  });

  // Something is chosen from the start: what took a board longest to compute.
  const longest = rows.flatMap((row, i) => row.segments.map((segment, index) => ({ row: i, index, time: segment.computing_ms })))
    .reduce((best, one) => (best && best.time >= one.time ? best : one), null);
  choose(longest && { row: longest.row, index: longest.index }, false);

  const stop = whenSized(port, (now) => {
    width = now;
    paint();
  });
  const tool = (text, label, call) => el("button", { type: "button", "aria-label": label, onclick: call }, text);
  const element = el("section", { class: "gantt-box" },
    el("div", { class: "bar" }, el("span", { class: "keys" }, splitKey(), el("span", { class: "key-line" }), "exchange"),
      el("span", { class: "zoom" }, lines.length ? el("label", { class: "check" }, exchanges, " exchanges") : null,
        tool("−", "zoom out", () => setZoom(zoom / 2)), tool("+", "zoom in", () => setZoom(zoom * 2)), tool("whole", "show the whole inference", () => setZoom(1)))),
    el("div", { class: "gantt-frame" }, names, port), said, detail,
    el("p", { class: "faint" }, "Boards tell when each layer began and how long it computed, waited and moved; within a layer waiting is drawn first, then moving, then computing. ",
      view ? "Boxes, bytes and exchanges are the plan's; all exchanges go through the server." : "The plan of that generation is not kept any more, so boxes and exchanges are not shown."));
  return { element, end: stop };
}
