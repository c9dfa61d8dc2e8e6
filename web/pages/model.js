// One model: its versions and layers.
import { get } from "../js/api.js";
import { el, list, number } from "../js/dom.js";

export function show(container, [name, version = "latest"]) {
  const body = el("tbody");
  container.append(el("h1", {}, name), el("div", { class: "scroll", tabindex: 0 }, el("table", {},
    el("thead", {}, el("tr", {}, ["operator", "output", "MACs", "parameters", "layer"].map((text) => el("th", { scope: "col" }, text)))), body)));
  const draw = list(body, {
    key: (layer) => layer.index,
    render: (layer) => el("tr", {}, el("td", {}, layer.operator ?? layer.op), el("td", {}, (layer.shape ?? []).join("×")),
      el("td", { class: "number" }, number(layer.macs)), el("td", { class: "number" }, number(layer.params)), el("td", {}, layer.name ?? layer.layer)),
    empty: "This version has no layers.", size: 500,
  });
  get(`models/${encodeURIComponent(name)}/versions/${version}/layers?limit=1000`).then((page) => draw(page.items.map((layer, index) => ({ index, ...layer }))))
    .catch((error) => draw([]) ?? container.append(el("p", { class: "bad" }, error.message)));
}
