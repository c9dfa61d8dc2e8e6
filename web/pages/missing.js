import { el } from "../js/dom.js";

export function show(container) {
  container.append(el("h1", {}, "There is no such page"), el("p", {}, el("a", { href: "#/" }, "Go to the overview")));
}
