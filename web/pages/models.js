// Models: one card each, and the form that uploads a file.
import { post, upload } from "../js/api.js";
import { action, age, bytes, el, facts, list, number, short } from "../js/dom.js";
import { live, subscribe } from "../js/live.js";

function card(model) {
  const version = model.latest ?? {};
  const summary = version.summary ?? {};
  return el("article", { class: "card" },
    el("div", { class: "head" }, el("h2", {}, el("a", { href: `#/models/${model.name}` }, model.name)),
      el("code", {}, short(version.sha ?? version.version))),
    facts(
      ["uploaded", version.created_at && [age(version.created_at), " ago"]],
      ["size", bytes(version.bytes)],
      ["MACs", number(summary.macs)],
      ["parameters", number(summary.params)],
      ["peak memory", bytes(version.schedule?.partial?.peak_bytes ?? version.schedule?.ordinary?.peak_bytes)]),
    el("div", { class: "actions" }, action("Deploy", () => post("deployments", { model: model.name }))));
}

const stem = (name) => name.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 63);

/** The form that uploads: names the model after its file, sends it, and says what became of it. */
function uploadForm() {
  const file = el("input", { type: "file", accept: ".tflite", required: true });
  const name = el("input", { required: true, pattern: "[a-z0-9][a-z0-9._\\-]{0,62}", autocomplete: "off",
    title: "lower-case letters, digits, dot, dash, underscore" });
  const progress = el("progress", { max: 1, value: 0, hidden: true, "aria-label": "upload" });
  const message = el("p", { role: "status" });
  const say = (text, bad) => {
    message.textContent = text;
    message.className = bad ? "bad" : "";
  };
  async function submit(event) {
    event.preventDefault();
    const limit = live.limits.model_bytes;
    if (limit && file.files[0].size > limit) {
      say(`The file has ${bytes(file.files[0].size)}; the server takes at most ${bytes(limit)}.`, true);
      return;
    }
    progress.hidden = false;
    say("");
    try {
      const answer = await upload(name.value, file.files[0], (part) => { progress.value = part; });
      say(`${name.value} is stored as version ${short(answer.version)}.`);
      form.reset();
    } catch (error) {
      say(`Refused: ${error.line ?? error.message}`, true);
    }
    progress.hidden = true;
  }
  file.addEventListener("change", () => { name.value ||= stem(file.files[0]?.name ?? ""); });
  const form = el("form", { class: "upload", onsubmit: submit },
    el("label", {}, "Model file (.tflite) ", file), el("label", {}, "Name ", name),
    el("button", { type: "submit" }, "Upload"), progress, message);
  return form;
}

export function show(container) {
  const cards = el("div", { class: "rows" });
  container.append(el("h1", {}, "Models"), uploadForm(), cards);
  const draw = list(cards, { key: (model) => model.name, render: card, empty: "No models yet. Choose a .tflite file above." });
  return subscribe(["models"], () => draw(live.models));
}
