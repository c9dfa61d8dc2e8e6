// A version's layers as a table that sorts by any column, and one layer's facts.
import { bytes, el, facts, number } from "./dom.js";
import { dims, operator } from "./graph.js";

const inputs = (layer) => layer.inputs.filter((input) => !input.constant).map((input) => dims(input.dims)).join(" + ");

/** The peak of each layer's step, by the layer's index; a version stored before steps named layers goes by name. */
export function peaksOf(layers, schedule) {
  const byName = new Map(layers.map((layer) => [layer.name, layer.index]));
  const peaks = new Map();
  for (const step of schedule?.partial?.steps ?? [])
    for (const index of step.layers ?? step.ops.map((name) => byName.get(name))) peaks.set(index, step.peak_bytes);
  return peaks;
}

export function layerFacts(layer, peak) {
  return el("div", {}, el("h3", {}, `Layer ${layer.index}: ${operator(layer)}`), facts(
    ["in the file", layer.file_op && layer.file_op !== layer.op.toUpperCase() ? layer.file_op : null],
    ["input", inputs(layer)],
    ["output", `${dims(layer.output.dims)} ${layer.output.dtype.toLowerCase()}, ${bytes(layer.output_bytes)}`],
    ["window", layer.window && `${layer.window.kernel.join("×")}, stride ${layer.window.stride.join("×")}${layer.window.groups > 1 ? `, ${layer.window.groups} groups` : ""}`],
    ["then", layer.activation],
    ["multiply-adds", layer.macs ? number(layer.macs) : null],
    ["parameters", layer.params ? `${number(layer.params)}, ${bytes(layer.weight_bytes)} of weights` : null],
    ["memory in use", peak != null ? `${bytes(peak)} while it runs on one board` : null],
    ["runs", layer.place === "body" ? "on boards" : "at the server"],
    ["name", layer.name]));
}

export function layerTable(layers, chosen) {
  let peaks = new Map();
  const columns = [
    ["layer", (l) => l.index, (l) => el("button", { type: "button", class: "plain-button", "aria-label": `layer ${l.index}`, onclick: () => pick(l.index) }, l.index), true],
    ["operator", operator, operator],
    ["input", (l) => l.inputs.reduce((sum, i) => sum + i.dims.reduce((a, b) => a * b, 1), 0), inputs],
    ["output", (l) => l.output_bytes, (l) => dims(l.output.dims)],
    ["multiply-adds", (l) => l.macs, (l) => number(l.macs), true],
    ["parameters", (l) => l.params, (l) => number(l.params), true],
    ["memory", (l) => peaks.get(l.index) ?? -1, (l) => bytes(peaks.get(l.index)) ?? "", true],
    ["name", (l) => l.name, (l) => el("span", { class: "clip", title: l.name }, l.name)],
  ];
  let sorted = { column: 0, down: false };
  const rows = new Map();
  const body = el("tbody");
  const heads = columns.map(([text, , , right], i) => el("th", { scope: "col", class: right ? "number" : false },
    el("button", { type: "button", class: "sort", onclick: () => sort(i) }, text)));
  const box = el("div", { class: "scroll layer-table", tabindex: 0, "aria-label": "layers" }, el("table", { class: "stack" }, el("thead", {}, el("tr", {}, heads)), body));
  let current = null;

  function fill() {
    body.replaceChildren(...layers.map((layer) => {
      const row = el("tr", { onclick: (event) => event.target.tagName !== "BUTTON" && pick(layer.index) },
        columns.map(([, , cell, right]) => el("td", { class: right ? "number" : false }, cell(layer))));
      rows.set(layer.index, row);
      return row;
    }));
    arrange();
    if (current != null) rows.get(current)?.setAttribute("aria-selected", "true");
  }
  function arrange() {
    const value = columns[sorted.column][1];
    const order = [...layers].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      const by = typeof x === "string" ? x.localeCompare(y) : x - y;
      return (sorted.down ? -by : by) || a.index - b.index;
    });
    body.append(...order.map((layer) => rows.get(layer.index)));
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== sorted.column ? "none" : sorted.down ? "descending" : "ascending"));
  }
  function sort(column) {
    const numeric = columns[column][3] && column > 0;
    sorted = { column, down: column === sorted.column ? !sorted.down : numeric };
    arrange();
    box.scrollTop = 0;
  }
  function select(index) {
    rows.get(current)?.removeAttribute("aria-selected");
    current = index;
    const row = rows.get(index);
    if (!row) return;
    row.setAttribute("aria-selected", "true");
    const head = heads[0].offsetHeight;
    const [top, bottom] = [row.offsetTop - head, row.offsetTop + row.offsetHeight];
    if (top < box.scrollTop) box.scrollTop = top;
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  }
  function pick(index) {
    select(index);
    chosen(index);
  }
  fill();
  return {
    element: box,
    select,
    peak: (index) => peaks.get(index),
    setSchedule(schedule) {
      peaks = peaksOf(layers, schedule);
      fill();
    },
  };
}
