// The overview: what needs attention first, then what is there and how it does.
import { age, bytes, el, list, ms, short, state } from "../js/dom.js";
import { live, subscribe } from "../js/live.js";
import { splitBar, splitKey } from "../js/split.js";

function attention(item) {
  return el("li", {}, state(item.subject, item.severity === "error" ? "bad" : "warn"), ` ${item.text} `,
    item.since_at && el("span", { class: "faint" }, "for ", age(item.since_at), ". "),
    item.action && el("span", { class: "faint" }, item.action));
}

function row(inference) {
  return el("tr", {},
    el("td", {}, age(inference.begun_at), " ago"),
    el("td", {}, `${inference.model} `, el("code", {}, short(inference.version))),
    el("td", {}, inference.state === "done" ? state("done", "good") : state(inference.error?.message ?? "failed", "bad")),
    el("td", { class: "number" }, ms(inference.latency_ms)),
    el("td", { class: "number" }, bytes(inference.bytes_moved)),
    el("td", { class: "wide" }, (inference.timeline ?? []).map(splitBar)));
}

export function show(container) {
  const counts = el("p", { class: "lead" });
  const todo = el("ul", { class: "plain" });
  const todoSection = el("section", {}, el("h2", {}, "Needs attention"), todo);
  const body = el("tbody");
  const heads = ["asked", "model", "result", "latency", "moved"].map((name, i) =>
    el("th", { scope: "col", class: i > 2 ? "number" : false }, name));
  container.append(el("h1", {}, "Overview"), counts, todoSection,
    el("section", {}, el("h2", {}, "Last inferences"),
      el("div", { class: "scroll", tabindex: 0 }, el("table", {},
        el("thead", {}, el("tr", {}, heads, el("th", { scope: "col" }, "per board:", splitKey()))), body))));
  const draw = list(body, { render: row, size: 20, empty: "No inference has been asked for yet." });
  const ends = [
    subscribe(["boards", "deployments"], () => {
      const boards = [...live.boards.values()];
      const online = boards.filter((board) => board.link === "online").length;
      const active = [...live.deployments.values()].filter((d) => d.state === "active").map((d) => d.model);
      counts.textContent = `${online} of ${boards.length} boards online; ${active.length ? `deployed: ${active.join(", ")}` : "nothing is deployed"}.`;
    }),
    subscribe(["attention"], () => {
      todoSection.hidden = !live.attention.length;
      todo.replaceChildren(...live.attention.map(attention));
    }),
    subscribe(["inferences"], () => draw(live.inferences)),
  ];
  return () => ends.forEach((end) => end());
}
