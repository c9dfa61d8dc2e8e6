// The words and looks of states, in one place, so that all pages say the same.
import { age, el, short, state } from "./dom.js";

const LINK = { online: "good", stale: "warn", offline: "bad" };
const DEPLOYMENT = { active: "good", degraded: "bad", failed: "bad", paused: "warn", planning: "warn", pushing: "warn", verifying: "warn" };

/** A board's state for people: one that is not a member yet or no more says so, else its link. */
export function boardState(board) {
  if (board.state === "pending") return state("asks to join", "warn");
  if (board.state === "revoked") return state("revoked", "faint");
  if (board.link === "offline" && !board.since_at) return state("never seen", "bad");
  return state([board.link, board.since_at && [" for ", age(board.since_at)]], LINK[board.link] ?? "bad");
}

export function deploymentState(deployment) {
  return state(deployment.state, DEPLOYMENT[deployment.state] ?? "faint");
}

/** When a deployment came to its state, with its age. */
export function deploymentSince(deployment) {
  return deployment.events?.at(-1)?.at ?? deployment.ended_at ?? deployment.active_at ?? deployment.created_at;
}

export const boardLink = (board) => el("a", { href: `#/boards/${encodeURIComponent(board.id)}` }, board.name);
export const deploymentLink = (deployment, text) =>
  el("a", { href: `#/deployments/${encodeURIComponent(deployment.id)}` }, text ?? deployment.model);
export const modelLink = (name, version) =>
  el("a", { href: `#/models/${encodeURIComponent(name)}${version ? `/${short(version)}` : ""}` }, name);
