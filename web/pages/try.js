// Try it: a drawing, a picture or a raw tensor in; labels and the time line of that inference out. Or a whole folder.
import { ApiError, get, sendBytes } from "../js/api.js";
import { answerView, tensorView } from "../js/answers.js";
import { drawing } from "../js/canvas.js";
import { bytes, el, state } from "../js/dom.js";
import { evaluation } from "../js/evaluate.js";
import { dims } from "../js/graph.js";
import { live, subscribe } from "../js/live.js";
import { dropTarget } from "../js/parts.js";

const TABS = { draw: "Draw", picture: "Picture", tensor: "Raw tensor", folder: "Folder of images" };

/** Tabs as the ARIA practices have them: one stop, arrow keys move. */
function tabs(panels, chosen) {
  const buttons = Object.keys(panels).map((key) => el("button", {
    type: "button", role: "tab", id: `tab-${key}`, "aria-controls": `panel-${key}`, onclick: () => choose(key), onkeydown: (event) => move(event, key),
  }, TABS[key]));
  const keys = Object.keys(panels);
  let current;
  function choose(key) {
    current = key;
    keys.forEach((other, i) => {
      buttons[i].setAttribute("aria-selected", other === key);
      buttons[i].tabIndex = other === key ? 0 : -1;
      panels[other].hidden = other !== key;
    });
    chosen?.(key);
  }
  function move(event, key) {
    const visible = keys.filter((_, i) => !buttons[i].hidden);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const to = visible[(visible.indexOf(key) + step + visible.length) % visible.length];
    choose(to);
    buttons[keys.indexOf(to)].focus();
  }
  for (const key of keys) {
    panels[key].id = `panel-${key}`;
    panels[key].setAttribute("role", "tabpanel");
    panels[key].setAttribute("aria-labelledby", `tab-${key}`);
  }
  return {
    element: el("div", { class: "tabs", role: "tablist", "aria-label": "what to ask with" }, buttons),
    choose,
    allow(allowed) {
      keys.forEach((key, i) => { buttons[i].hidden = !allowed.includes(key); });
      if (!allowed.includes(current)) choose(allowed[0]);
    },
  };
}

/** What is deployed: names, active first. */
function deployed() {
  const states = new Map();
  for (const { model, state: now } of live.deployments.values())
    if (now === "active" || (now === "degraded" && states.get(model) !== "active")) states.set(model, now);
  return [...states].sort((a, b) => a[1].localeCompare(b[1]) || a[0].localeCompare(b[0]));
}

export function show(container, [wanted]) {
  const model = el("select");
  const about = el("p", { class: "faint about-model" });
  const answer = el("div", { class: "card answer-card", role: "status" });
  const empty = el("p", { class: "empty" });
  let version = null;
  let labels = [];
  let turn = 0;
  const below = el("div");
  let shown = null;
  function put(view) {
    shown?.end();
    shown = view;
    answer.replaceChildren(view.element);
    below.replaceChildren(...(view.time ? [view.time] : []));
  }
  const hint = () => put({ element: el("p", { class: "faint" }, "The answer comes here, its time line below."), end() {} });

  /** Asks; only the last question's answer is shown. */
  async function ask(call) {
    const mine = ++turn;
    answer.classList.add("asking");
    let view;
    try {
      view = await call();
    } catch (error) {
      view = { element: el("div", {}, el("p", { class: "bad" }, state("no answer", "bad"), ` ${error.line ?? "the server is out of reach"}`),
        (error.status === 503 || error.status === 409) && el("p", {}, el("a", { href: "#/deployments" }, "Look at the deployments"))), end() {} };
    }
    if (mine !== turn) return view.end();
    answer.classList.remove("asking");
    put(view);
  }
  const classify = (blob, type) => ask(async () =>
    answerView(await sendBytes("POST", `/api/v1/models/${encodeURIComponent(model.value)}/classify?top=5`, blob, type)));

  // draw
  const board = drawing((blob) => classify(blob, "image/png"));
  const sample = (digit) => {
    const image = el("img", { src: `/samples/digit_${digit}.png`, alt: `sample digit ${digit}`, width: 40, height: 40 });
    const button = el("button", { type: "button", class: "sample", title: `ask with the sample digit ${digit}`, onclick: async () => {
      board.show(image);
      const file = await fetch(image.src);
      if (file.ok) classify(await file.blob(), "image/png");
    } }, image);
    image.addEventListener("error", () => button.remove());
    return button;
  };
  const draw = el("div", { class: "panel" }, el("div", { class: "draw-box" }, board.element,
    el("div", {}, el("p", {}, "Draw a digit; the answer comes when you lift the pen. It is fitted into the middle before it is sent."),
      el("p", { class: "faint" }, "Or ask with a sample:"), el("div", { class: "samples" }, Array.from({ length: 10 }, (_, digit) => sample(digit))),
      el("div", { class: "actions" }, el("button", { type: "button", onclick: () => { board.clear(); turn++; hint(); } }, "Clear")))));

  // picture
  const preview = el("img", { class: "preview", alt: "the picture that was asked with", hidden: true });
  const file = el("input", { type: "file", accept: "image/png,image/jpeg" });
  const again = el("button", { type: "button", hidden: true, onclick: () => picture && takePicture(picture) }, "Ask again");
  let picture = null;
  function takePicture(blob) {
    picture = blob;
    URL.revokeObjectURL(preview.src);
    preview.src = URL.createObjectURL(blob);
    preview.hidden = again.hidden = false;
    const limit = live.limits.image_bytes;
    if (limit && blob.size > limit) ask(async () => { throw new ApiError(413, { message: `the picture has ${bytes(blob.size)}; the server takes at most ${bytes(limit)}` }); });
    else classify(blob, /png$/i.test(blob.type || blob.name) ? "image/png" : "image/jpeg");
  }
  file.addEventListener("change", () => file.files[0] && takePicture(file.files[0]));
  const pictures = el("div", { class: "panel" }, el("label", { class: "field" }, "PNG or JPEG; or drop one on this page", file), preview, again);

  // tensor
  const tensorHelp = el("p", { class: "faint" });
  const tensor = el("input", { type: "file" });
  function takeTensor(blob) {
    ask(async () => {
      const need = version.summary.inputs.reduce((sum, input) => sum + input.bytes, 0);
      if (blob.size !== need) throw new ApiError(400, { message: `the file has ${blob.size} bytes, the model takes ${need}` });
      const response = await fetch(`/v2/models/${encodeURIComponent(model.value)}/infer`, { method: "POST", body: blob, headers: { "Content-Type": "application/octet-stream", Accept: "application/json" } });
      const said = await response.json().catch(() => ({}));
      if (!response.ok) throw new ApiError(response.status, { message: typeof said.error === "string" ? said.error : said.error?.message });
      return tensorView(said, version, labels);
    });
  }
  tensor.addEventListener("change", () => tensor.files[0] && takeTensor(tensor.files[0]));
  const tensors = el("div", { class: "panel" }, el("label", { class: "field" }, "Raw tensor: little-endian bytes, row by row", tensor), tensorHelp);

  // folder
  const folder = evaluation(() => model.value, (label) => (labels.length
    ? labels.includes(label)
    : /^\d+$/.test(label) && Number(label) < version.summary.outputs[0].shape.reduce((a, b) => a * b, 1)));
  const folders = el("div", { class: "panel" }, folder.element);

  const pair = el("div", { class: "try" });
  const choice = tabs({ draw, picture: pictures, tensor: tensors, folder: folders }, (key) => {
    answer.hidden = below.hidden = key === "folder";
    pair.classList.toggle("alone", key === "folder");
  });
  const whole = el("div", { hidden: true }, el("div", { class: "upload try-model" }, el("label", {}, "Model ", model), about), choice.element, pair, below);
  pair.append(el("div", { class: "card panels" }, draw, pictures, tensors, folders), answer);
  container.append(el("h1", {}, "Try it"), empty, whole);
  choice.choose("draw");
  hint();

  async function use() {
    const name = model.value;
    const path = `models/${encodeURIComponent(name)}/versions/active`;
    const [found, text] = await Promise.all([get(path), fetch(`/api/v1/${path}/labels`).then((a) => (a.ok ? a.text() : ""))]);
    if (name !== model.value) return;
    version = found;
    labels = text.split("\n").slice(0, -1);
    const { image, inputs, outputs } = version.summary;
    const ends = (list) => list.map((end) => dims(end.shape)).join(", ");
    about.replaceChildren(`takes ${ends(inputs)} ${inputs[0].datatype.toLowerCase()}, gives ${ends(outputs)}`, labels.length ? `, ${labels.length} labels. ` : ". ",
      el("a", { href: `#/models/${encodeURIComponent(name)}` }, "About the model"));
    tensorHelp.textContent = `This model takes ${inputs.reduce((sum, input) => sum + input.bytes, 0)} bytes: ${inputs.map((input) => `${input.name}, ${dims(input.shape)} ${input.datatype}`).join("; ")}.`;
    choice.allow(!image ? ["tensor"] : image.channels === 1 ? Object.keys(TABS) : ["picture", "tensor", "folder"]);
  }
  const fail = (error) => about.replaceChildren(el("span", { class: "bad" }, error.line ?? error.message));
  model.addEventListener("change", () => {
    turn++;
    hint();
    history.replaceState(null, "", `#/try/${encodeURIComponent(model.value)}`);
    use().catch(fail);
  });
  let drawn = "";
  const end = subscribe(["deployments"], () => {
    const names = deployed();
    whole.hidden = !names.length;
    empty.hidden = !!names.length;
    if (!names.length) {
      empty.replaceChildren(...(!live.loaded ? ["Looking for what is deployed …"] : ["Nothing is deployed, so nothing can be asked. ", el("a", { href: "#/models" }, live.models.length ? "Choose a model and deploy it." : "Upload a model first.")]));
      return;
    }
    if (JSON.stringify(names) === drawn) return;
    drawn = JSON.stringify(names);
    const before = model.value || wanted;
    model.replaceChildren(...names.map(([name, now]) => el("option", { value: name }, now === "active" ? name : `${name} (degraded)`)));
    if (names.some(([name]) => name === before)) model.value = before;
    use().catch(fail);
  });
  const undrop = dropTarget(document, ([first]) => {
    if (!version || !first) return;
    const isPicture = /^image\//.test(first.type) && version.summary.image;
    choice.choose(isPicture ? "picture" : "tensor");
    if (isPicture) takePicture(first);
    else takeTensor(first);
  }, "dropping-input");
  return () => {
    end();
    undrop();
    folder.end();
    shown?.end();
    turn++;
  };
}
