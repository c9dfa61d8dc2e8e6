// A schedule's steps in words and as a table. The words are those of `shoal schedule` (server/cli/schedule_table.c).
import { bytes, el, list, meter, ms } from "./dom.js";
import { layerShort } from "./planview.js";

/** "4–9, 12" of layer numbers, in order. */
export function ranges(layers) {
  const out = [];
  for (const layer of [...layers].sort((a, b) => a - b)) {
    const last = out.at(-1);
    if (last && layer === last[1] + 1) last[1] = layer;
    else out.push([layer, layer]);
  }
  return out.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
}

function rows(step) {
  const [lo, hi] = step.ring_rows ?? [];
  const of = step.along === "w" ? "column" : "row";
  const text = step.rows ? `${of}s ${step.rows.join("→")}` : `${of} by ${of}`;
  if (!hi) return text;
  return `${text}, ring${lo !== hi || step.ops.length > 2 ? "s" : ""} of ${lo === hi ? hi : `${lo}–${hi}`} ${of}${hi === 1 ? "" : "s"}`;
}

/** How a step runs, in words; `macs` are the network's, without them what is done again is not said. */
export function how(step, macs) {
  const words = {
    full: () => (step.free ? "free: nothing to do" : "whole"),
    channels: () => `channels, ${step.turns === 1 ? "all at once" : `${step.k} at a time${step.turns ? `, ${step.turns} turns` : ""}`}${step.rings ? `, ${rows(step)}` : ""}`,
    rows: () => (step.rows?.join() === "1,1" ? "whole, one after another" : rows(step)),
    patches: () => `patches of ${step.tile.join("×")}${step.patches ? `, ${step.patches.join("×")} of them` : ""}`,
  }[step.mode]();
  return [words, step.again > 0 && `${ranges(step.layers.slice(0, step.again))} again later`,
    macs && step.extra_macs > 0 && `+${((step.extra_macs / macs) * 100).toFixed(1)} % MACs`].filter(Boolean).join(", ");
}

function names(step) {
  const all = step.ops.map(layerShort);
  return el("span", { class: "small", title: step.ops.join(", ") }, all.length < 3 ? all.join(", ") : `${all[0]} … ${all.at(-1)}`);
}

/** The steps as a table, what is in use as bars of `most`; `macs` as for `how`. */
export function stepTable(steps, most, label, macs) {
  const timed = steps.some((step) => step.predicted_ms != null);
  const peak = Math.max(...steps.map((step) => step.peak_bytes));
  const heads = [["step", true], ["layers"], ["how it runs"], ["in use"], ...(timed ? [["predicted", true]] : [])];
  const body = el("tbody");
  const draw = list(body, { key: (row) => row.i, size: 100, empty: "It runs nothing.", render: ({ step, i }) => el("tr", {},
    el("td", { class: "number" }, i + 1), el("td", { class: "named" }, ranges(step.layers), names(step)),
    el("td", { class: "how" }, how(step, macs), step.note && el("span", { class: "small" }, step.note),
      step.inner?.length > 0 && el("ul", { class: "plain inner", "aria-label": "each patch" }, step.inner.map((one) => el("li", {}, el("b", {}, ranges(one.layers)), ` ${how(one)}`)))),
    el("td", { class: "metered" }, bytes(step.peak_bytes), step.peak_bytes === peak && el("b", {}, " peak"), meter(step.peak_bytes / most, `${bytes(step.peak_bytes)} of ${bytes(most)}`)),
    timed && el("td", { class: "number" }, ms(step.predicted_ms))) });
  draw(steps.map((step, i) => ({ step, i })));
  return el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": label }, el("table", { class: "stack steps-table" },
    el("thead", {}, el("tr", {}, heads.map(([head, right]) => el("th", { scope: "col", class: right ? "number" : false }, head)))), body));
}
