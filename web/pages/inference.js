// One inference: where its time went.
import { get } from "../js/api.js";
import { el, ms } from "../js/dom.js";
import { splitBar } from "../js/split.js";

export function show(container, [id]) {
  const title = el("h1", {}, "Inference");
  const bars = el("div");
  container.append(title, bars);
  get(`inferences/${encodeURIComponent(id)}`).then((inference) => {
    title.textContent = `${inference.model}: ${ms(inference.latency_ms)}`;
    bars.append(...inference.timeline.map((board) => el("p", {}, board.name, splitBar(board))));
  });
}
