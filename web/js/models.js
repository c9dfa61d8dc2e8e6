// Models: one card each, and the form that uploads a file.
import { post, upload } from "./api.js";
import { age, bytes, el, facts, fill, short } from "./dom.js";

function card(model, deployed, failed) {
  const version = model.latest ?? {};
  const summary = version.summary ?? {};
  return el("article", { class: "card" },
    el("div", { class: "head" }, el("h3", {}, model.name), el("code", {}, short(version.sha ?? version.version))),
    facts(
      ["uploaded", version.created_at ? `${age(version.created_at)} ago` : null],
      ["size", bytes(version.bytes)],
      ["MACs", summary.macs?.toLocaleString("en")],
      ["parameters", summary.params?.toLocaleString("en")],
      ["peak memory", bytes(version.schedule?.partial?.peak_bytes ?? version.schedule?.ordinary?.peak_bytes)]),
    el("div", { class: "actions" },
      el("button", {
        type: "button",
        onclick: async (event) => {
          event.target.disabled = true;
          try {
            await post("deployments", { model: model.name });
          } catch (error) {
            failed(`${model.name}: ${error.line ?? error.message}`);
          }
          event.target.disabled = false;
        },
      }, deployed ? "Deploy the newest" : "Deploy")));
}

export function showModels(container, models, deployments, failed) {
  const active = new Set(deployments.filter((d) => d.state === "active").map((d) => d.model));
  fill(container, models.map((model) => card(model, active.has(model.name), failed)),
    "No models yet. Choose a .tflite file above.");
}

/** Wires the form: names the model after its file, sends it, and says what became of it. */
export function wireUpload(limits, done) {
  const form = document.getElementById("upload");
  const file = document.getElementById("file");
  const name = document.getElementById("name");
  const progress = document.getElementById("progress");
  const message = document.getElementById("upload-message");
  const say = (text, bad) => {
    message.textContent = text;
    message.className = bad ? "bad" : "";
  };
  file.addEventListener("change", () => {
    const stem = file.files[0]?.name.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9._-]+/g, "-");
    if (stem && !name.value) name.value = stem.replace(/^[^a-z0-9]+/, "").slice(0, 63);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = file.files[0];
    const limit = limits().model_bytes;
    if (limit && chosen.size > limit) {
      say(`The file has ${bytes(chosen.size)}; the server takes at most ${bytes(limit)}.`, true);
      return;
    }
    progress.hidden = false;
    say("");
    try {
      const answer = await upload(name.value, chosen, (part) => { progress.value = part; });
      say(`${name.value} is stored as version ${short(answer.version)}.`);
      form.reset();
      done();
    } catch (error) {
      say(`Refused: ${error.line ?? error.message}`, true);
    }
    progress.hidden = true;
  });
}
