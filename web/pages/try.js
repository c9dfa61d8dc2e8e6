// Try it: a picture in, labels out.
import { sendBytes } from "../js/api.js";
import { el } from "../js/dom.js";
import { live, subscribe } from "../js/live.js";

export function show(container) {
  const model = el("select", { required: true });
  const file = el("input", { type: "file", accept: "image/png,image/jpeg", required: true });
  const answer = el("div", { role: "status" });
  async function submit(event) {
    event.preventDefault();
    try {
      const said = await sendBytes("POST", `/api/v1/models/${encodeURIComponent(model.value)}/classify`, file.files[0], file.files[0].type);
      answer.replaceChildren(el("ol", {}, (said.labels ?? said.results ?? said.items ?? []).map((label) => el("li", {}, JSON.stringify(label)))));
    } catch (error) {
      answer.replaceChildren(el("p", { class: "bad" }, error.line ?? error.message));
    }
  }
  container.append(el("h1", {}, "Try it"), el("form", { class: "upload", onsubmit: submit },
    el("label", {}, "Model ", model), el("label", {}, "Picture (PNG or JPEG) ", file), el("button", { type: "submit" }, "Ask")), answer);
  return subscribe(["deployments"], () => {
    const names = [...new Set([...live.deployments.values()].filter((d) => d.state === "active").map((d) => d.model))];
    model.replaceChildren(...names.map((name) => el("option", {}, name)));
  });
}
