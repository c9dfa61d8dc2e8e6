// The acts on a deployment that make sense in its state.
import { post } from "./api.js";
import { action, el } from "./dom.js";
import { ask } from "./dialog.js";

const BUSY = new Set(["planning", "pushing", "verifying"]);
const OVER = new Set(["retired", "cancelled", "failed"]);

const act = (deployment, name) => post(`deployments/${deployment.id}/${name}`);

function retire(deployment) {
  return ask({
    title: `Retire ${deployment.model}?`, confirm: "Retire", danger: true,
    text: "It answers no more questions and its fragments leave the boards' flash.",
    call: () => act(deployment, "retire"),
  });
}

function rollback(deployment) {
  return ask({
    title: `Roll ${deployment.model} back?`, confirm: "Roll back",
    text: [["The model's former deployment, ", el("code", {}, deployment.former), ", is pushed again; most boards still hold their fragments. It takes over when it is active; where the boards cannot hold both, this one ends first."]],
    // On the deployment's own page: there is nothing more to see here.
    call: () => act(deployment, "rollback").then(() => { if (location.hash.includes(deployment.id)) location.hash = `#/deployments/${deployment.former}`; }),
  });
}

function deployAgain(deployment) {
  const { model, version, boards, strategy, shares, objective, tags } = deployment.request;
  const body = { model, version, strategy, shares, objective };
  if (boards) body.boards = boards;
  if (tags) body.tags = tags;
  return post("deployments", body).then((made) => { location.hash = `#/deployments/${made.id}`; });
}

export function acts(deployment) {
  const { state } = deployment;
  const runs = state === "active" || state === "degraded";
  return [
    BUSY.has(state) && action("Cancel", () => act(deployment, "cancel"), { class: "danger" }),
    runs && action("Replan", () => act(deployment, "replan"), { title: "a new plan from the boards that are online now" }),
    runs && !deployment.promoted && action("Promote", () => act(deployment, "promote"), { class: "solid", title: "questions without a version come here" }),
    runs && action("Pause", () => act(deployment, "pause")),
    state === "paused" && action("Resume", () => act(deployment, "resume"), { class: "solid" }),
    runs && deployment.former && action("Roll back", () => rollback(deployment)),
    (runs || state === "paused") && action("Retire", () => retire(deployment), { class: "danger" }),
    OVER.has(state) && deployment.request && action("Deploy again", () => deployAgain(deployment)),
  ];
}
