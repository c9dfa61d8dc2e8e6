// The memory that one board uses: a bar a layer when it runs operator by operator, beside it a block for each step of the
// partial schedule over the layers that the step covers; peaks marked, and a line for the largest arena of the fleet. One
// stop for the keyboard; arrow keys move the cursor.
import { bytes, el, svg } from "./dom.js";
import { operator } from "./graph.js";
import { live } from "./live.js";
import { peaksOf } from "./layers.js";
import { how, ranges } from "./steps.js";

const HEIGHT = 220;
const [TOP, BOTTOM, LEFT] = [26, 24, 74];

/** Round steps for an axis of bytes: 1, 2 or 5 times a power of two thousands, four lines at most. */
export function ticks(most) {
  let step = 256;
  while (most / step > 4.5) step *= 2;
  return Array.from({ length: Math.floor(most / step) }, (_, i) => (i + 1) * step);
}

/** The largest arena of the fleet, in bytes; 0: there is no board. */
export function largestArena() {
  const arenas = [...live.boards.values()].filter((board) => board.state === "accepted")
    .map((board) => board.hello?.regions?.find((region) => region.name === "arena")?.bytes ?? 0);
  return Math.max(0, ...arenas);
}

export function memoryChart(layers, chosen) {
  const box = el("div", { class: "memory-box" });
  const line = el("p", { class: "chart-line", "aria-live": "polite" });
  const keys = el("p", { class: "keys", hidden: true }, el("span", { class: "key ordinary" }), "ordinary: operator by operator", el("span", { class: "key main-look" }), "partial: a block for each step");
  const element = el("div", { class: "chart-card" }, keys, box, line);
  let steps = [];
  let schedule = null;
  let partial = null; // layer -> the step of the partial schedule in which it uses most
  let whole = null; // the partial schedule's figures
  let current = -1;
  let bars = [];

  function say(i) {
    const step = steps[i];
    if (!step) return;
    const part = partial?.get(step.layer.index);
    line.replaceChildren(`Layer ${step.layer.index}, ${operator(step.layer)}: `, el("strong", {}, bytes(step.bytes)), ` in use operator by operator${step.bytes === schedule.partial.peak_bytes ? ", the peak" : ""}`,
      part ? "; " : "", part ? el("strong", {}, bytes(part.peak_bytes)) : "",
      part ? ` in the step of layer${part.layers.length === 1 ? "" : "s"} ${ranges(part.layers)}, ${how(part)}` : "", ".");
  }
  function mark(i, tell) {
    bars[current]?.classList.remove("current");
    current = Math.max(0, Math.min(steps.length - 1, i));
    bars[current]?.classList.add("current");
    say(current);
    if (tell && steps[current]) chosen(steps[current].layer.index);
  }
  function summary() {
    const peak = schedule.partial;
    const arena = largestArena();
    const at = steps.find((step) => step.bytes === peak.peak_bytes);
    const over = arena ? steps.filter((step) => step.bytes > arena).length : 0;
    line.replaceChildren("Operator by operator the peak is ", el("strong", {}, bytes(peak.peak_bytes)), at ? ` at layer ${at.layer.index} (${operator(at.layer)})` : "",
      `; packed it takes ${bytes(peak.arena_bytes)} of arena, ${bytes(peak.scratch_bytes)} of it scratch. `,
      arena ? (over ? `${over === 1 ? "One layer needs" : `${over} layers need`} more than your largest arena of ${bytes(arena)}: ${whole && (whole.arena_bytes ?? Infinity) <= arena ? "in parts, as below, one board can run it." : "several boards must share."}`
        : `Your largest arena has ${bytes(arena)}.`) : "");
  }
  const rest = () => (current >= 0 ? say(current) : summary());
  function draw() {
    if (!schedule?.partial?.steps?.length || !box.clientWidth) return;
    const width = Math.max(box.clientWidth, LEFT + steps.length * 5 + 10);
    const arena = largestArena();
    const peak = Math.max(...steps.map((step) => step.bytes));
    const least = partial ? Math.max(...[...partial.values()].map((step) => step.peak_bytes)) : 0;
    const most = Math.max(peak, least, arena <= peak * 1.6 ? arena : 0) * 1.02;
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
    const slot = (width - LEFT - 10) / steps.length;
    bars = steps.map((step, i) => svg("rect", {
      class: `bar${step.bytes === peak ? " peak" : ""}${i === current ? " current" : ""}`,
      x: LEFT + (i + (partial ? 0.3 : 0.1)) * slot, width: slot * (partial ? 0.4 : 0.8), y: y(step.bytes), height: Math.max(1, HEIGHT - BOTTOM - y(step.bytes)),
    }));
    // Blocks of the partial schedule: layers beside one another in the same step are one block.
    const blocks = [];
    steps.forEach((step, i) => {
      const part = partial?.get(step.layer.index);
      if (!part) return;
      if (blocks.at(-1)?.part === part && blocks.at(-1).to === i) blocks.at(-1).to = i + 1;
      else blocks.push({ part, from: i, to: i + 1 });
    });
    const block = ({ part, from, to }) => svg("rect", { class: `block${part.peak_bytes === least ? " peak" : ""}`, x: LEFT + from * slot + 0.5, width: Math.max(1, (to - from) * slot - 1),
      y: y(part.peak_bytes), height: Math.max(1, HEIGHT - BOTTOM - y(part.peak_bytes)) });
    const at = steps.findIndex((step) => step.bytes === peak);
    const peakX = LEFT + (at + 0.5) * slot;
    const end = peakX > width - 140;
    const every = Math.ceil(44 / slot);
    const picture = svg("svg", {
      class: partial ? "memory both" : "memory", width, height: HEIGHT, tabindex: 0, role: "slider", "aria-label": "memory in use, layer by layer",
      "aria-valuemin": 0, "aria-valuemax": steps.length - 1, "aria-valuenow": Math.max(0, current),
      "aria-valuetext": `peak ${bytes(peak)} at layer ${steps[at].layer.index}`,
    },
    ticks(most).map((value) => [svg("line", { class: "grid", x1: LEFT, x2: width - 10, y1: y(value), y2: y(value) }),
      svg("text", { class: "axis", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, bytes(value).replace(".0 ", " ").replace(".00 ", " "))]),
    blocks.map(block),
    svg("line", { class: "base", x1: LEFT, x2: width - 10, y1: y(0), y2: y(0) }),
    bars,
    arena > 0 && arena <= most && [svg("line", { class: "limit", x1: LEFT, x2: width - 10, y1: y(arena), y2: y(arena) }),
      svg("text", { class: "limit-text", x: Math.min(width, box.clientWidth) - 12, y: y(arena) - 5, "text-anchor": "end" }, `largest arena ${bytes(arena)}`)],
    svg("text", { class: "peak-text", x: end ? peakX + 6 : peakX - 6, y: y(peak) - 7, "text-anchor": end ? "end" : "start" }, `▼ ${partial ? "ordinary " : ""}peak ${bytes(peak)}`),
    partial && least < peak * 0.8 && partialPeak(blocks.find(({ part }) => part.peak_bytes === least)),
    steps.map((step, i) => i % every === 0 && svg("text", { class: "axis", x: LEFT + (i + 0.5) * slot, y: HEIGHT - 7, "text-anchor": "middle" }, step.layer.index)));
    function partialPeak({ part, from, to }) {
      const middle = LEFT + ((from + to) / 2) * slot;
      const left = middle > width - 160;
      return svg("text", { class: "block-text", x: left ? middle + 6 : middle - 6, y: y(part.peak_bytes) - 7, "text-anchor": left ? "end" : "start" }, `▼ partial peak ${bytes(part.peak_bytes)}`);
    }
    const index = (event) => Math.floor((event.clientX - picture.getBoundingClientRect().left - LEFT) / slot);
    picture.addEventListener("pointermove", (event) => say(index(event)));
    picture.addEventListener("pointerleave", () => document.activeElement !== picture && rest());
    picture.addEventListener("click", (event) => { if (steps[index(event)]) mark(index(event), true); });
    picture.addEventListener("keydown", (event) => {
      const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: steps.length - 1 }[event.key];
      if (to == null) return;
      event.preventDefault();
      mark(to, true);
      picture.setAttribute("aria-valuenow", current);
      picture.setAttribute("aria-valuetext", line.textContent);
    });
    const focused = box.contains(document.activeElement);
    box.replaceChildren(picture);
    if (focused) picture.focus();
    rest();
  }
  let wide = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === wide) return;
    wide = box.clientWidth;
    draw();
  }).observe(box);
  return {
    element,
    /** The partial schedule to show beside; null: none. */
    setPartial(known) {
      partial = known && new Map();
      whole = known?.executable ? known.partial : null;
      for (const step of known?.partial.steps ?? [])
        for (const layer of step.layers) if (!(partial.get(layer)?.peak_bytes > step.peak_bytes)) partial.set(layer, step);
      keys.hidden = !partial;
      draw();
    },
    select: (index) => {
      const i = steps.findIndex((step) => step.layer.index === index);
      if (i >= 0) mark(i);
    },
    setSchedule(known) {
      schedule = known;
      const peaks = peaksOf(layers, known);
      steps = layers.filter((layer) => peaks.has(layer.index)).map((layer) => ({ layer, bytes: peaks.get(layer.index) }));
      if (steps.length) draw();
      else line.replaceChildren(known ? "No layer runs on a board." : "The schedule is being worked out; the chart comes by itself.");
    },
  };
}
