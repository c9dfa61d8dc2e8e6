// A version's labels and how pictures become its input: both belong to the version but may be changed.
import { put, sendBytes } from "./api.js";
import { action, el } from "./dom.js";

const base = (version) => `models/${encodeURIComponent(version.model)}/versions/${version.version}`;

export function labelsForm(version, text) {
  const wanted = version.summary.outputs[0]?.shape.reduce((a, b) => a * b, 1);
  const area = el("textarea", { rows: 10, spellcheck: "false", class: "labels" });
  area.value = text.replace(/\n$/, "");
  const count = el("span", { class: "faint" });
  const lines = () => (area.value.trim() ? area.value.replace(/\n+$/, "").split("\n").length : 0);
  const say = () => { count.textContent = `${lines()} of ${wanted} labels`; };
  area.addEventListener("input", say);
  const file = el("input", { type: "file", accept: ".txt,text/plain", onchange: async () => {
    if (!file.files[0]) return;
    area.value = (await file.files[0].text()).replace(/\n+$/, "");
    say();
  } });
  say();
  const done = el("span", { role: "status", class: "good" });
  return el("div", { class: "card" }, el("h2", {}, "Labels"),
    el("p", { class: "faint" }, "One a line, in the order of the output's values. Without them answers show numbers."),
    el("label", { class: "field" }, "Labels", area), count,
    el("div", { class: "actions" }, action("Save labels", async () => {
      done.textContent = "";
      await sendBytes("PUT", `/api/v1/${base(version)}/labels`, lines() ? `${area.value.replace(/\n+$/, "")}\n` : "");
      done.textContent = "saved";
    }), done, el("label", { class: "file-button" }, "or a file: ", file)));
}

const numbers = (text) => {
  const list = text.split(/[\s,;]+/).filter(Boolean).map(Number);
  if (list.some((n) => !Number.isFinite(n))) throw new Error(`“${text}” is not a number, or one for each channel`);
  return list.length === 1 ? list[0] : list;
};

export function inputForm(version) {
  const { image } = version.summary;
  if (!image)
    return el("div", { class: "card" }, el("h2", {}, "Input"),
      el("p", { class: "faint" }, "This model takes no picture. Ask it with raw tensors, on the page “Try it” or by the inference protocol (/v2)."));
  const choice = (options) => el("select", {}, el("option", { value: "" }, "guess"), options.map((text) => el("option", {}, text)));
  const fields = {
    fit: choice(["stretch", "crop"]),
    channels: choice(image.channels === 1 ? ["gray"] : ["rgb", "bgr"]),
    scale: el("input", { autocomplete: "off" }),
    offset: el("input", { autocomplete: "off" }),
  };
  const notes = Object.fromEntries(Object.keys(fields).map((key) => [key, el("span", { class: "faint" })]));
  const words = (value) => (Array.isArray(value) ? value.join(", ") : String(value));
  const show = (input) => {
    for (const [key, field] of Object.entries(fields)) {
      const guessed = input.guessed.includes(key);
      field.value = guessed ? "" : words(input[key]);
      if (field.tagName === "INPUT") field.placeholder = words(input[key]);
      notes[key].textContent = guessed ? `guessed: ${words(input[key])}` : "set by hand";
    }
  };
  show(version.input);
  const done = el("span", { role: "status", class: "good" });
  const row = (key, text) => el("label", { class: "field" }, text, fields[key], notes[key]);
  return el("div", { class: "card" }, el("h2", {}, "Input"),
    el("p", { class: "faint" }, `A picture is made ${image.width}×${image.height} with ${image.channels === 1 ? "one channel" : `${image.channels} channels`}; then value = pixel (0 to 255) × scale + offset. What is left empty is guessed from the quantisation.`),
    row("fit", "How it is fitted"), row("channels", "Order of channels"),
    row("scale", "Scale (one, or one a channel)"), row("offset", "Offset (one, or one a channel)"),
    el("div", { class: "actions" }, action("Save input", async () => {
      done.textContent = "";
      const settings = {};
      for (const key of ["fit", "channels"]) if (fields[key].value) settings[key] = fields[key].value;
      for (const key of ["scale", "offset"]) if (fields[key].value.trim()) settings[key] = numbers(fields[key].value);
      show(await put(`${base(version)}/input`, settings));
      done.textContent = "saved";
    }), done));
}
