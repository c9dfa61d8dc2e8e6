// Deployments: states, and board by board what each holds.
import { age, bytes, el, facts, list, meter, short, state } from "../js/dom.js";
import { live, subscribe } from "../js/live.js";

const LOOK = { active: "good", degraded: "bad", failed: "bad", paused: "warn", planning: "warn", pushing: "warn", verifying: "warn" };

function part(board) {
  const full = board.fragment_bytes || 1;
  const text = board.state === "unused" ? "no part" : `${board.state}, ${bytes(board.fragment_bytes)}`;
  return [board.name, el("span", {}, `${text}${board.online ? "" : ", offline"}`,
    board.state === "pushing" && meter(board.stored_bytes / full, `${bytes(board.stored_bytes)} of ${bytes(full)}`))];
}

function card(deployment) {
  const last = deployment.events?.at(-1);
  return el("article", { class: "card" },
    el("div", { class: "head" }, el("h2", {}, el("a", { href: `#/deployments/${deployment.id}` }, deployment.model)),
      state(deployment.state, LOOK[deployment.state] ?? "faint")),
    facts(
      ["version", el("code", {}, short(deployment.version))],
      ["since", [age(last?.at ?? deployment.created_at), ` ago${last?.reason ? `, ${last.reason}` : ""}`]],
      ["error", deployment.error?.message],
      ["generation", deployment.generation || null],
      ...(deployment.boards ?? []).map(part)));
}

export function show(container) {
  const cards = el("div", { class: "rows" });
  container.append(el("h1", {}, "Deployments"), cards);
  const draw = list(cards, { render: card, empty: "Nothing is deployed. Press “Deploy” at a model." });
  return subscribe(["deployments"], () => draw([...live.deployments.values()].sort((a, b) => (a.id < b.id ? 1 : -1))));
}
