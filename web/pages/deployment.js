// One deployment: its states, board by board.
import { get } from "../js/api.js";
import { age, el, list, state } from "../js/dom.js";

export function show(container, [id]) {
  const title = el("h1", {}, "Deployment");
  const events = el("ul", { class: "plain" });
  container.append(title, el("h2", {}, "How it came to its state"), events);
  const draw = list(events, { key: (event) => event.at + event.state, render: (event) => el("li", {}, age(event.at), " ago ", state(event.state, "faint"), ` ${event.reason}`), empty: "" });
  get(`deployments/${encodeURIComponent(id)}`).then((deployment) => {
    title.textContent = `${deployment.model}: ${deployment.state}`;
    draw(deployment.events);
  });
}
