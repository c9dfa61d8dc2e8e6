// Deployments: states, and board by board what each holds.
import { age, bytes, el, facts, fill, meter, short } from "./dom.js";

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
    el("div", { class: "head" }, el("h3", {}, deployment.model),
      el("span", { class: `state ${LOOK[deployment.state] ?? "faint"}` }, deployment.state)),
    facts(
      ["version", el("code", {}, short(deployment.version))],
      ["since", last ? `${age(last.at)} ago${last.reason ? `, ${last.reason}` : ""}` : `${age(deployment.created_at)} ago`],
      ["error", deployment.error?.message],
      ["generation", deployment.generation || null],
      ...(deployment.boards ?? []).map(part)));
}

const OVER = new Set(["retired", "cancelled", "failed"]);

export function showDeployments(container, deployments) {
  const live = deployments.filter((d) => !OVER.has(d.state));
  const failed = deployments.filter((d) => d.state === "failed").slice(0, 3);
  fill(container, [...live, ...failed].map(card), "Nothing is deployed. Press “Deploy” at a model.");
}
