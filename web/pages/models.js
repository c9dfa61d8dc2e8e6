// Models: one card each. A file dropped anywhere on the page, or chosen, is sent, imported and scheduled in sight.
import { get, post, upload } from "../js/api.js";
import { action, age, bytes, el, facts, list, number, short, state } from "../js/dom.js";
import { dims } from "../js/graph.js";
import { live, subscribe } from "../js/live.js";
import { dropTarget } from "../js/parts.js";

const link = (model) => `#/models/${encodeURIComponent(model.name)}`;

function card(model) {
  const version = model.latest ?? {};
  const { summary, schedule } = version;
  const ends = (list) => list?.map((end) => dims(end.shape)).join(", ");
  return el("article", { class: "card" },
    el("div", { class: "head" }, el("h2", {}, el("a", { href: link(model) }, model.name)),
      model.active ? state("deployed", "good") : el("span", { class: "faint" }, "not deployed")),
    facts(
      ["version", [el("code", {}, short(version.version)), model.versions_count > 1 && ` of ${model.versions_count}`]],
      ["uploaded", version.created_at && [age(version.created_at), " ago"]],
      ["takes", summary && `${ends(summary.inputs)}, gives ${ends(summary.outputs)}`],
      ["size", summary && `${number(summary.layers)} layers, ${bytes(version.bytes)}`],
      ["multiply-adds", number(summary?.macs)],
      ["peak memory", schedule?.partial ? `${bytes(schedule.partial.peak_bytes)} on one board` : "being worked out"]),
    el("div", { class: "actions" },
      el("a", { class: "button", href: link(model) }, "What would it need?"),
      model.active
        ? el("a", { class: "button", href: `#/try/${encodeURIComponent(model.name)}` }, "Try it")
        : action("Deploy", async () => {
          const deployment = await post("deployments", { model: model.name });
          location.hash = `#/deployments/${deployment.id}`;
        })));
}

const stem = (name) => name.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 63) || "model";

/** What a refusal says: reason, layer, operator, place in the file, limit. */
function refusal(error) {
  const { layer, op, offset, limit, actual } = error.detail ?? {};
  // The message begins with the layer and operator that the list below names too.
  const reason = layer ? error.message.replace(/^layer '.*?' \([^)]*\): /s, "") : error.message;
  return [el("p", { class: "bad" }, state("refused", "bad"), ` ${reason}`),
    facts(["layer", layer], ["operator", op], ["at byte", number(offset)], ["limit", number(limit)], ["this file", number(actual)])];
}

/** One file on its way: sent, imported, scheduled; what became of each step stays in sight until it is dismissed. */
function uploading(file, name, away) {
  const steps = ["upload", "import", "schedule"].map((text) => el("li", {}, text));
  const progress = el("progress", { max: 1, value: 0, "aria-label": `upload of ${name}` });
  const result = el("div", { role: "status" });
  const close = el("button", { type: "button", class: "plain-button", "aria-label": `Dismiss ${name}`, onclick: () => away(element) }, "Dismiss");
  const element = el("li", { class: "note uploading" },
    el("div", { class: "head" }, el("h3", {}, name), el("span", { class: "faint" }, `${file.name}, ${bytes(file.size)}`), close),
    el("ol", { class: "steps" }, steps), progress, result);
  let at = 0;
  const step = (i, kind) => {
    at = i;
    steps.forEach((item, k) => { item.className = k < i ? "done" : k === i ? kind : ""; });
  };
  const fail = (error) => {
    step(at, "failed");
    progress.hidden = true;
    result.replaceChildren(...refusal(error));
  };
  async function send() {
    step(0, "current");
    const most = live.limits.model_bytes;
    if (most && file.size > most) throw Object.assign(new Error("the file is larger than the server takes"), { detail: { limit: most, actual: file.size } });
    const answer = await upload(name, file, (part) => {
      progress.value = part;
      if (part === 1) {
        step(1, "current");
        progress.removeAttribute("value");
      }
    });
    step(2, "current");
    const version = short(answer.version);
    result.replaceChildren(el("p", {}, "stored as version ", el("code", {}, version), "; its schedule is being worked out"));
    if (answer.job) await new Promise((resolve, reject) => watch(answer.job, resolve, reject));
    step(3);
    progress.hidden = true;
    const model = `#/models/${encodeURIComponent(name)}`;
    const whole = await get(`models/${encodeURIComponent(name)}/versions/${version}`);
    const peak = whole.schedule?.partial?.peak_bytes;
    result.replaceChildren(el("p", {}, state("ready", "good"), " as version ", el("code", {}, version),
      peak ? `, ${bytes(peak)} of memory on one board. ` : ". ", el("a", { href: `${model}/${version}` }, "See what it needs, and deploy it")));
  }
  /** The job's events; asked for as well, since it may have ended before this page heard of it. */
  function watch(id, resolve, reject) {
    let end = () => undefined;
    const look = (job) => {
      if (job?.state === "done") resolve();
      else if (job?.state === "failed") reject(Object.assign(new Error(job.error.message), { detail: job.error.detail }));
      else return;
      end();
    };
    end = subscribe(["jobs"], () => look(live.jobs.get(id)));
    get(`jobs/${id}`).then(look).catch(() => undefined);
  }
  send().catch(fail);
  return element;
}

export function show(container) {
  const file = el("input", { type: "file", accept: ".tflite", required: true });
  const name = el("input", { required: true, pattern: "[a-z0-9][a-z0-9._\\-]{0,62}", autocomplete: "off", title: "lower-case letters, digits, dot, dash, underscore" });
  const transfers = el("ul", { class: "plain transfers" });
  const begin = (what, as) => transfers.prepend(uploading(what, as, (element) => element.remove()));
  const form = el("form", {
    class: "upload drop",
    onsubmit: (event) => {
      event.preventDefault();
      begin(file.files[0], name.value);
      form.reset();
    },
  },
  el("label", {}, "Model file (.tflite) ", file), el("label", {}, "Name ", name), el("button", { type: "submit", class: "primary" }, "Upload"),
  el("span", { class: "faint" }, "or drop a file anywhere on this page"));
  file.addEventListener("change", () => { if (file.files[0]) name.value = stem(file.files[0].name); });
  const filter = el("input", { type: "search", placeholder: "filter by name", "aria-label": "filter models by name", oninput: () => redraw() });
  const count = el("span", { class: "faint" });
  const cards = el("div", { class: "rows" });
  container.append(el("div", { class: "bar" }, el("h1", {}, "Models"), el("span", { class: "filter" }, count, " ", filter)), form, transfers, cards);
  const draw = list(cards, { key: (model) => model.name, render: card, empty: "No models yet. Drop a .tflite file on this page, or choose one above: int8 models of TensorFlow Lite." });
  function redraw() {
    const word = filter.value.trim().toLowerCase();
    const found = live.models.filter((model) => model.name.includes(word));
    filter.hidden = live.models.length < 8;
    count.textContent = word ? `${found.length} of ${live.models.length}` : live.models.length ? `${live.models.length} in all` : "";
    draw(found);
  }
  const undrop = dropTarget(document, (files) => files.forEach((dropped) => begin(dropped, stem(dropped.name))), "dropping");
  const end = subscribe(["models"], redraw);
  return () => {
    undrop();
    end();
  };
}
