// One model: its figures, what it would need, its graph and layers, its memory, its labels and input, its versions.
import { del, get } from "../js/api.js";
import { age, bytes, el, number, short, state } from "../js/dom.js";
import { dims, graph } from "../js/graph.js";
import { layerTable, layerFacts } from "../js/layers.js";
import { live, subscribe } from "../js/live.js";
import { memoryChart } from "../js/memory.js";
import { confirmed } from "../js/parts.js";
import { schedulePanel } from "../js/schedule.js";
import { inputForm, labelsForm } from "../js/settings.js";
import { planForm } from "../js/what-if.js";

const JOB = { waiting: ["waiting for its schedule", "warn"], running: ["working out the schedule", "warn"], failed: ["schedule failed", "bad"] };

function tiles(version) {
  const { summary, schedule } = version;
  const peak = schedule?.partial;
  const shape = (ends) => `${ends.map((end) => dims(end.shape)).join(", ")} ${[...new Set(ends.map((end) => end.datatype.toLowerCase()))].join(", ")}`;
  const tile = (name, value, note) => value != null && el("div", { class: "figure" }, el("dt", {}, name), el("dd", {}, value), note && el("dd", { class: "note-line" }, note));
  return el("dl", { class: "figures" },
    tile("input", shape(summary.inputs)),
    tile("output", shape(summary.outputs)),
    tile("layers", number(summary.layers)),
    tile("multiply-adds", number(summary.macs)),
    tile("parameters", number(summary.params)),
    tile("weights", bytes(summary.weight_bytes), "of flash, whole"),
    tile("peak memory", peak ? bytes(peak.peak_bytes) : "not known yet", peak ? "operator by operator" : null),
    tile("file", bytes(version.bytes), version.format));
}

function status(version) {
  const [text, kind] = JOB[version.job?.state] ?? [];
  return [text && state(text, kind), version.job?.error && el("p", { class: "bad" }, version.job.error.message)];
}

function versions(model, chosen) {
  const row = (v) => el("tr", { "aria-current": v.version === chosen ? "true" : false },
    el("td", { class: "number" }, v.serial),
    el("td", {}, el("a", { href: `#/models/${encodeURIComponent(model.name)}/${short(v.version)}` }, el("code", {}, short(v.version))),
      v.version === model.active && [" ", state("deployed", "good")]),
    el("td", {}, age(v.created_at), " ago by ", v.actor),
    el("td", { class: "number" }, bytes(v.bytes)),
    el("td", {}, v.job_state === "done" ? "" : v.job_state),
    el("td", {}, confirmed("Remove", `Remove version ${v.serial} for good`, async () => {
      const last = model.versions.length === 1;
      await del(last ? `models/${encodeURIComponent(model.name)}` : `models/${encodeURIComponent(model.name)}/versions/${v.version}`);
      location.hash = last ? "#/models" : `#/models/${encodeURIComponent(model.name)}`;
    })));
  return el("div", { class: "scroll", tabindex: 0 }, el("table", { class: "stack" },
    el("thead", {}, el("tr", {}, ["no.", "version", "uploaded", "size", "", ""].map((text, i) => el("th", { scope: "col", class: i === 0 || i === 3 ? "number" : false }, text)))),
    el("tbody", {}, model.versions.map(row))));
}

/** Graph, table and chart show the same selected layer. */
function network(layers, version) {
  if (!layers.length) return { element: el("p", { class: "empty" }, "This version has no layers."), setSchedule() {}, end() {} };
  const about = el("div", { class: "about-layer", "aria-live": "polite" }, el("p", { class: "faint" }, "Select a layer in the picture or in the table."));
  const picture = graph(layers, (index) => choose(index, picture));
  const table = layerTable(layers, (index) => choose(index, table));
  const memory = memoryChart(layers, (index) => choose(index, memory));
  const partial = schedulePanel(version, memory.setPartial);
  function choose(index, from) {
    for (const part of [picture, table, memory]) if (part !== from) part.select(index);
    about.replaceChildren(layerFacts(layers.find((layer) => layer.index === index), table.peak(index)));
  }
  function setSchedule(known) {
    memory.setSchedule(known);
    table.setSchedule(known);
  }
  setSchedule(version.schedule);
  return {
    setSchedule,
    end: partial.end,
    element: [
      el("section", {}, el("h2", {}, "Graph and layers"),
        el("div", { class: "network" }, el("div", { class: "network-picture" }, picture.element, about), table.element)),
      el("section", {}, el("h2", {}, "Memory on one board, layer by layer"), el("div", { class: "card what-if" }, memory.element, partial.element)),
    ],
  };
}

export function show(container, [name, wanted = "latest"]) {
  const path = `models/${encodeURIComponent(name)}`;
  const head = el("div", { class: "model-head" });
  const body = el("div", { class: "model-page" });
  const ends = [];
  let ended = false;
  let seen = null; // the version that is drawn
  let net = null;
  container.append(head, body);

  function drawHead(model, version) {
    const older = version.version !== model.latest?.version;
    head.replaceChildren(...[
      el("div", { class: "bar" }, el("h1", {}, name, " ", el("code", { class: "faint" }, short(version.version))),
        el("span", {}, status(version))),
      older && el("p", { class: "note" }, `This is version ${version.serial}. `, el("a", { href: `#/${path}` }, "Go to the latest one.")),
      el("p", { class: "faint" }, "uploaded ", age(version.created_at), ` ago by ${version.actor}`,
        model.active ? [", deployed as ", el("code", {}, short(model.active)), ": ", el("a", { href: `#/try/${encodeURIComponent(name)}` }, "try it")] : ", not deployed"),
      tiles(version)].filter(Boolean));
  }

  async function draw() {
    const [model, version] = await Promise.all([get(path), get(`${path}/versions/${wanted}`)]);
    if (ended) return;
    drawHead(model, version);
    if (seen === version.version) {
      net.setSchedule(version.schedule);
      versionBox.replaceChildren(versions(model, version.version));
      return;
    }
    seen = version.version;
    const [layers, labels] = await Promise.all([
      get(`${path}/versions/${seen}/layers`).then((page) => page.items),
      fetch(`/api/v1/${path}/versions/${seen}/labels`).then((answer) => (answer.ok ? answer.text() : "")),
    ]);
    if (ended) return;
    net = network(layers, version);
    const plan = planForm(version);
    ends.push(plan.end, net.end);
    versionBox.replaceChildren(versions(model, seen));
    body.replaceChildren(
      el("section", {}, el("h2", {}, "What would it need?"), plan.element),
      ...[net.element].flat(),
      el("section", { class: "settings" }, labelsForm(version, labels), inputForm(version)),
      el("section", {}, el("h2", {}, "Versions"), versionBox));
  }
  const versionBox = el("div");
  const fail = (error) => {
    if (!ended) container.replaceChildren(el("h1", {}, name), el("p", { class: "bad" }, error.line ?? error.message), el("p", {}, el("a", { href: "#/models" }, "See all models")));
  };
  // One drawing at a time; what changes meanwhile is drawn after it.
  let known = null;
  let drawing = Promise.resolve();
  ends.push(subscribe(["models"], () => {
    const now = JSON.stringify(live.models.find((model) => model.name === name) ?? null);
    if (known !== null && (now === known || now === "null")) return;
    known = now;
    drawing = drawing.then(() => (ended ? undefined : draw())).catch(fail);
  }));
  return () => {
    ended = true;
    ends.forEach((end) => end());
  };
}
