// A network as a picture: boxes and arrows from top to bottom, zoom and pan by wheel, drag, pinch and keys. Selecting a
// box calls back; the owner may select one too.
import { el, svg } from "./dom.js";
import { layout } from "./graph-layout.js";

const WIDTH = 176;
const HEIGHT = 50;
const CLASS = {
  conv: "window", depthwise: "window", average_pool: "pool", max_pool: "pool", mean: "pool",
  add: "join", sub: "join", mul: "join", concat: "join", softmax: "bend", logistic: "bend", relu: "bend", relu6: "bend",
};
const [MIN, MAX] = [0.05, 3];
const MARGIN = 24; // around the picture

export const dims = (shape) => (shape ?? []).slice(shape?.length > 1 ? 1 : 0).join("×") || "1";

/** "conv 3×3 /2": operator, kernel where it is not 1x1 of a plain layer, stride where it is not 1. */
export function operator(layer) {
  const { kernel, stride } = layer.window ?? {};
  return [layer.op.replaceAll("_", " "), kernel && kernel.join("×"), stride && Math.max(...stride) > 1 && `/${Math.max(...stride)}`]
    .filter(Boolean).join(" ");
}

/** What layers read: number of a tensor, or its name in versions that were stored without numbers. */
const key = (tensor) => tensor.tensor ?? tensor.name;

/** Nodes and edges: graph inputs, layers, graph outputs. */
export function graphOf(layers) {
  const nodes = [];
  const edges = [];
  const maker = new Map();
  const node = (value) => nodes.push({ width: WIDTH, height: value.layer ? HEIGHT : 30, ...value }) - 1;
  const made = new Set(layers.map((layer) => key(layer.output)));
  for (const input of layers.flatMap((layer) => layer.inputs)) {
    if (input.constant || made.has(key(input)) || maker.has(key(input))) continue;
    maker.set(key(input), node({ end: "input", text: dims(input.dims) }));
  }
  const read = new Set();
  for (const layer of layers) {
    const at = node({ layer, text: operator(layer) });
    for (const input of layer.inputs) {
      if (input.constant) continue;
      read.add(key(input));
      edges.push({ from: maker.get(key(input)), to: at, text: dims(input.dims) });
    }
    maker.set(key(layer.output), at);
  }
  for (const layer of layers) {
    if (read.has(key(layer.output))) continue;
    edges.push({ from: maker.get(key(layer.output)), to: node({ end: "output", text: dims(layer.output.dims) }), text: "" });
  }
  return { nodes, edges };
}

/** A smooth line through points that goes up and down at each of them. */
function path(points) {
  let d = `M${points[0].join(" ")}`;
  for (let i = 1; i < points.length; i++) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const bend = (y1 - y0) * 0.55;
    d += x0 === x1 ? `L${x1} ${y1}` : `C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}`;
  }
  return d;
}

function box(node, place, id) {
  const x = place.x - node.width / 2;
  if (!node.layer)
    return svg("g", { class: "end" },
      svg("rect", { x, y: place.y, width: node.width, height: node.height, rx: 15 }),
      svg("text", { x: place.x, y: place.y + 20, "text-anchor": "middle" }, `${node.end} ${node.text}`));
  const { layer } = node;
  const label = `layer ${layer.index}: ${node.text}, makes ${dims(layer.output.dims)}${layer.activation ? `, ${layer.activation}` : ""}`;
  return svg("g", { class: `layer ${CLASS[layer.op] ?? "move"}`, id, role: "option", "aria-label": label, "aria-selected": "false", "data-layer": layer.index },
    svg("title", {}, `${label}\n${layer.name ?? ""}`),
    svg("rect", { x, y: place.y, width: node.width, height: node.height, rx: 6 }),
    svg("path", { class: "side", d: `M${x + 6} ${place.y}h-0a6 6 0 0 0 -6 6v${node.height - 12}a6 6 0 0 0 6 6z` }),
    svg("text", { class: "name", x: x + 14, y: place.y + 21 }, node.text),
    svg("text", { class: "shape", x: x + 14, y: place.y + 39 }, `${dims(layer.output.dims)}${layer.activation ? `, ${layer.activation}` : ""}`),
    svg("text", { class: "index", x: x + node.width - 8, y: place.y + 21, "text-anchor": "end" }, layer.index));
}

let counter = 0;

/**
 * The picture of `layers` as GET .../layers lists them. `chosen(index)` is called when a person selects a layer.
 * Returns {element, select(index)}; select shows the layer without calling back.
 */
export function graph(layers, chosen) {
  const { nodes, edges } = graphOf(layers);
  const plan = layout(nodes, edges);
  const prefix = `graph${++counter}-`;
  const stage = svg("g", {});
  const picture = svg("svg", {
    class: "graph", tabindex: 0, role: "listbox",
    "aria-label": `The graph of ${layers.length} layers. Arrow keys select a layer, plus and minus zoom, 0 shows the whole.`,
  }, svg("defs", {}, svg("marker", { id: `${prefix}tip`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    svg("path", { class: "tip", d: "M0 0L8 4L0 8z" }))), stage);
  stage.append(...plan.edges.map((points, e) => svg("path", { class: "arrow", d: path(points), "marker-end": `url(#${prefix}tip)` },
    svg("title", {}, edges[e].text))));
  const boxes = new Map();
  nodes.forEach((node, i) => {
    const element = box(node, plan.nodes[i], `${prefix}${i}`);
    stage.append(element);
    if (node.layer) boxes.set(node.layer.index, { element, place: plan.nodes[i] });
  });

  const view = { x: 0, y: 0, k: 1 };
  const size = () => ({ w: picture.clientWidth || 600, h: picture.clientHeight || 400 });
  const put = () => stage.setAttribute("transform", `translate(${view.x.toFixed(2)} ${view.y.toFixed(2)}) scale(${view.k.toFixed(4)})`);
  /** Keeps some of the picture in sight. */
  function clamp() {
    const { w, h } = size();
    const [pw, ph] = [plan.width * view.k, plan.height * view.k];
    view.x = pw + 2 * MARGIN < w ? (w - pw) / 2 : Math.min(MARGIN, Math.max(w - pw - MARGIN, view.x));
    view.y = ph + 2 * MARGIN < h ? (h - ph) / 2 : Math.min(MARGIN, Math.max(h - ph - MARGIN, view.y));
    put();
  }
  function zoom(factor, cx = size().w / 2, cy = size().h / 2) {
    const k = Math.min(MAX, Math.max(MIN, view.k * factor));
    view.x = cx - ((cx - view.x) * k) / view.k;
    view.y = cy - ((cy - view.y) * k) / view.k;
    view.k = k;
    clamp();
  }
  function whole() {
    const { w, h } = size();
    view.k = Math.min(1, (w - 2 * MARGIN) / plan.width, (h - 2 * MARGIN) / plan.height);
    clamp();
  }
  /** As wide as it fits and readable, from the top. */
  function begin() {
    const { w } = size();
    view.k = Math.max(0.55, Math.min(1, (w - 2 * MARGIN) / plan.width));
    view.x = w / 2 - (plan.width * view.k) / 2;
    view.y = MARGIN;
    clamp();
  }
  let chosenLayer = null;
  function select(index, follow = true) {
    boxes.get(chosenLayer)?.element.setAttribute("aria-selected", "false");
    const found = boxes.get(index);
    chosenLayer = found ? index : null;
    if (!found) return;
    found.element.setAttribute("aria-selected", "true");
    picture.setAttribute("aria-activedescendant", found.element.id);
    if (!follow) return;
    const { w, h } = size();
    const [x, y] = [found.place.x * view.k + view.x, found.place.y * view.k + view.y];
    if (x > 60 && x < w - 60 && y > 30 && y < h - 80) return;
    view.x += w / 2 - x;
    view.y += h / 2 - y;
    clamp();
  }
  function choose(index) {
    select(index);
    if (chosenLayer != null) chosen(index);
  }
  control(picture, { view, clamp, zoom, whole, choose, layers, current: () => chosenLayer });
  const button = (text, label, call) => el("button", { type: "button", title: label, "aria-label": label, onclick: call }, text);
  const element = el("div", { class: "graph-box" }, picture,
    el("div", { class: "graph-tools" }, button("+", "zoom in", () => zoom(1.3)), button("−", "zoom out", () => zoom(1 / 1.3)),
      button("whole", "show the whole graph", whole), button("top", "back to the top", begin)));
  let wide = 0;
  new ResizeObserver(() => {
    if (picture.clientWidth && !wide) begin();
    else clamp();
    wide = picture.clientWidth;
  }).observe(picture);
  return { element, select };
}

/** Wheel, drag, pinch, click and keys. */
function control(picture, { view, clamp, zoom, whole, choose, layers, current }) {
  const at = (event) => {
    const frame = picture.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };
  // The wheel scrolls like any box and lets the page go on at the ends; with Ctrl (and a pinch on a touchpad) it zooms.
  picture.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 240), ...at(event));
      return;
    }
    const { x, y } = view;
    const unit = event.deltaMode === 1 ? 18 : 1;
    view.x -= (event.shiftKey ? event.deltaY : event.deltaX) * unit;
    view.y -= (event.shiftKey ? 0 : event.deltaY) * unit;
    clamp();
    if (x !== view.x || y !== view.y) event.preventDefault();
  }, { passive: false });

  const fingers = new Map();
  let moved = false;
  picture.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    fingers.set(event.pointerId, at(event));
    moved = fingers.size > 1;
  });
  picture.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    if (!moved && Math.hypot(dx, dy) < 4) return;
    if (!moved) picture.setPointerCapture(event.pointerId);
    moved = true;
    const others = [...fingers].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [ox, oy] = others[0][1];
      zoom(Math.hypot(now[0] - ox, now[1] - oy) / Math.max(1, Math.hypot(before[0] - ox, before[1] - oy)), (now[0] + ox) / 2, (now[1] + oy) / 2);
    } else {
      view.x += dx;
      view.y += dy;
      clamp();
    }
    fingers.set(event.pointerId, now);
  });
  const up = (event) => {
    if (!fingers.delete(event.pointerId) || moved || event.type !== "pointerup") return;
    const layer = event.target.closest?.("[data-layer]");
    if (layer) choose(Number(layer.dataset.layer));
  };
  picture.addEventListener("pointerup", up);
  picture.addEventListener("pointercancel", up);

  const step = (by) => () => {
    const i = layers.findIndex((layer) => layer.index === current());
    choose(layers[Math.max(0, Math.min(layers.length - 1, i < 0 ? 0 : i + by))].index);
  };
  const move = (dx, dy) => () => {
    view.x += dx;
    view.y += dy;
    clamp();
  };
  const keys = {
    ArrowDown: step(1), ArrowUp: step(-1), ArrowLeft: move(60, 0), ArrowRight: move(-60, 0),
    PageDown: move(0, -300), PageUp: move(0, 300), Home: step(-layers.length), End: step(layers.length),
    "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: whole,
  };
  picture.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey || !layers.length) return;
    event.preventDefault();
    keys[event.key]();
  });
}
