// Deployments: those that are there, with the push board by board; then all that were.
import { get } from "../js/api.js";
import { age, bytes, el, facts, list, meter, ms, short } from "../js/dom.js";
import { acts } from "../js/deployview.js";
import { live, subscribe } from "../js/live.js";
import { deploymentLink, deploymentSince, deploymentState, modelLink } from "../js/words.js";

const HISTORY = 50;

function part(board) {
  const full = board.fragment_bytes || 1;
  const text = board.state === "unused" ? "no part" : `${board.state}, ${bytes(board.fragment_bytes)}`;
  return [board.name, el("span", { class: board.online ? "" : "bad" }, `${text}${board.online ? "" : ", not reached"}`,
    board.state === "pushing" && meter(board.stored_bytes / full, `${bytes(board.stored_bytes)} of ${bytes(full)}`))];
}

function card(deployment) {
  const last = deployment.events?.at(-1);
  return el("article", { class: "card" },
    el("div", { class: "head" }, el("h2", {}, deploymentLink(deployment)), deploymentState(deployment)),
    facts(
      ["since", [age(deploymentSince(deployment)), ` ago${last?.reason && !deployment.error ? `, ${last.reason}` : ""}`]],
      ["version", el("code", {}, short(deployment.version))],
      ["error", deployment.error && el("span", { class: "bad" }, deployment.error.message)],
      ["tags", deployment.tags?.join(", ")],
      ["answers", deployment.state === "active" ? (deployment.promoted ? "questions without a version" : "only its own version: not promoted") : null],
      ["generation", deployment.generation || null],
      ["predicted", ms(deployment.plan?.latency_ms)],
      ...(deployment.boards ?? []).slice(0, 12).map(part),
      ["more boards", deployment.boards?.length > 12 ? deployment.boards.length - 12 : null]),
    el("div", { class: "actions" }, acts(deployment)));
}

const row = (deployment) => el("tr", {},
  el("td", {}, deploymentLink(deployment, new Date(deployment.created_at).toLocaleString())),
  el("td", {}, modelLink(deployment.model)), el("td", {}, el("code", {}, short(deployment.version))),
  el("td", {}, deploymentState(deployment)), el("td", { class: "number" }, deployment.generation || "–"),
  el("td", {}, deployment.tags?.join(", ")), el("td", {}, deployment.error?.message ?? ""));

export function show(container) {
  const cards = el("div", { class: "rows" });
  const body = el("tbody");
  const older = el("button", { type: "button", hidden: true, onclick: () => more() }, "Show older");
  const history = el("section", {}, el("h2", {}, "History"), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "History" }, el("table", { class: "stack" },
    el("thead", {}, el("tr", {}, ["asked for", "model", "version", "state", "generation", "tags", "error"].map((name) =>
      el("th", { scope: "col", class: name === "generation" ? "number" : false }, name)))), body)), older);
  container.append(el("div", { class: "bar" }, el("h1", {}, "Deployments"), el("a", { href: "#/models" }, "Deploy a model")), cards, history);
  const draw = list(cards, { render: card, empty: el("span", {}, "Nothing is deployed. Choose a ", el("a", { href: "#/models" }, "model"), ", see what it needs, and deploy it.") });
  const drawHistory = list(body, { render: row, size: 1000, empty: "There was none yet." });
  let items = [];
  let next = null;
  let turn = 0;

  async function first() {
    const mine = ++turn;
    const page = await get(`deployments?limit=${HISTORY}`).catch(() => null);
    if (!page || mine !== turn) return;
    [items, next] = [page.items, page.next];
    paintHistory();
  }
  async function more() {
    const page = await get(`deployments?limit=${HISTORY}&after=${encodeURIComponent(next)}`);
    items = [...items, ...page.items];
    next = page.next;
    paintHistory();
  }
  function paintHistory() {
    history.hidden = !items.length;
    older.hidden = next == null;
    drawHistory(items);
  }
  let states = "";
  return subscribe(["deployments"], () => {
    const here = [...live.deployments.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
    // A failed one is of interest until its model is deployed anew; then it is history.
    draw(here.filter((deployment) => deployment.state !== "failed" || here.find((other) => other.model === deployment.model) === deployment));
    const now = here.map((deployment) => `${deployment.id} ${deployment.state}`).join();
    if (now !== states) first();
    states = now;
  });
}
