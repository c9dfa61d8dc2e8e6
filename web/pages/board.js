// One board: everything the server knows of it, and its log.
import { get } from "../js/api.js";
import { age, el, list } from "../js/dom.js";

export function show(container, [id]) {
  const title = el("h1", {}, "Board");
  const log = el("ul", { class: "plain" });
  container.append(title, el("h2", {}, "Log"), log);
  const draw = list(log, { render: (line) => el("li", {}, age(line.at), ` ago, ${line.level}: ${line.text}`), empty: "Nothing was logged." });
  get(`boards/${encodeURIComponent(id)}`).then((board) => { title.textContent = board.name; });
  get(`boards/${encodeURIComponent(id)}/log?limit=100`).then((page) => draw(page.items));
}
