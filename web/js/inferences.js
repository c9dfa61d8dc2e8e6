// The last inferences: where the time went, board by board.
import { bytes, el, fill, ms, short, svg } from "./dom.js";

const KINDS = ["computing", "waiting", "moving"];

function split(board) {
  const total = KINDS.reduce((sum, kind) => sum + board[`${kind}_ms`], 0) || 1;
  let x = 0;
  const text = KINDS.map((kind) => `${kind} ${ms(board[`${kind}_ms`])}`).join(", ");
  const bars = KINDS.map((kind) => {
    const width = (board[`${kind}_ms`] / total) * 100;
    const bar = svg("rect", { class: kind, x, width, height: 1 });
    x += width;
    return bar;
  });
  return svg("svg", { class: "split", viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img", "aria-label": `${board.name}: ${text}` },
    svg("title", {}, `${board.name}: ${text}`), ...bars);
}

function row(inference) {
  return el("tr", {},
    el("td", {}, new Date(inference.begun_at).toLocaleTimeString()),
    el("td", {}, `${inference.model} `, el("code", {}, short(inference.version))),
    el("td", {}, inference.state === "done" ? el("span", { class: "state good" }, "done")
      : el("span", { class: "state bad" }, inference.error?.message ?? "failed")),
    el("td", { class: "number" }, ms(inference.latency_ms)),
    el("td", { class: "number" }, bytes(inference.bytes_moved)),
    el("td", { class: "wide" }, (inference.timeline ?? []).map(split)));
}

export function showInferences(container, inferences) {
  if (!inferences.length) {
    fill(container, [], "No inference has been asked for yet.");
    return;
  }
  const heads = ["at", "model", "result", "latency", "moved"].map((name, i) => el("th", { scope: "col", class: i > 2 ? "number" : false }, name));
  const key = KINDS.map((kind) => [el("span", { class: `key ${kind}` }), kind]);
  container.replaceChildren(el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, heads, el("th", { scope: "col" }, "per board:", key))),
    el("tbody", {}, inferences.map(row)))));
}
