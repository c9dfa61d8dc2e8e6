// One inference: where its time went, as a Gantt chart.
import { get } from "../js/api.js";
import { bytes, el, facts, ms, short, state } from "../js/dom.js";
import { gantt } from "../js/gantt.js";
import { live, subscribe } from "../js/live.js";
import { layersOf, planOf } from "../js/planview.js";
import { splitBar } from "../js/split.js";
import { boardLink, modelLink } from "../js/words.js";

/** The plan that the inference ran by, if the deployment still has that generation; null otherwise. */
async function planFor(inference) {
  const deployment = await get(`deployments/${encodeURIComponent(inference.deployment)}`);
  return deployment.generation === inference.generation ? planOf(inference.deployment, inference.generation) : null;
}

const boardRow = (board) => el("tr", {},
  el("td", {}, boardLink({ id: board.board, name: board.name })),
  el("td", { class: "number" }, ms(board.computing_ms)), el("td", { class: "number" }, ms(board.waiting_ms)), el("td", { class: "number" }, ms(board.moving_ms)),
  el("td", { class: "number" }, bytes(board.received_bytes)), el("td", { class: "number" }, bytes(board.sent_bytes)),
  el("td", { class: "number" }, bytes(board.arena_high_water_bytes)), el("td", { class: "wide" }, splitBar(board)));

function about(inference) {
  const failed = inference.state !== "done";
  return el("div", { class: "columns" },
    el("section", { class: "card" }, facts(
      ["result", failed ? state(inference.error?.message ?? "failed", "bad") : state("done", "good")],
      ["latency", ms(inference.latency_ms)],
      ["asked", new Date(inference.begun_at).toLocaleString()],
      ["bytes moved", bytes(inference.bytes_moved)])),
    el("section", { class: "card" }, facts(
      ["model", modelLink(inference.model, inference.version)],
      ["version", el("code", {}, short(inference.version))],
      ["deployment", el("a", { href: `#/deployments/${inference.deployment}` }, `generation ${inference.generation}`)],
      ["inference", el("code", {}, inference.id)])));
}

function boardsTable(inference) {
  return el("section", {}, el("h2", {}, "Board by board"), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Board by board" }, el("table", { class: "stack" },
    el("thead", {}, el("tr", {}, ["board", "computing", "waiting", "moving", "received", "sent", "arena used", "parts"].map((name, i) =>
      el("th", { scope: "col", class: i > 0 && i < 7 ? "number" : false }, name)))),
    el("tbody", {}, inference.timeline.map(boardRow)))));
}

export function show(container, [id]) {
  const title = el("h1", {}, "Inference");
  const body = el("div");
  const older = el("a", { href: "#/" }, "older");
  const newer = el("a", { href: "#/" }, "newer");
  const around = el("p", { class: "around" }, older, newer);
  container.append(el("p", { class: "crumb" }, el("a", { href: "#/" }, "Overview")), el("div", { class: "bar" }, title, around), body);
  let end = () => undefined;
  let ended = false;

  async function load() {
    const inference = await get(`inferences/${encodeURIComponent(id)}`);
    if (ended) return;
    title.textContent = `${inference.model}: ${inference.state === "done" ? ms(inference.latency_ms) : "failed"}`;
    body.replaceChildren(about(inference));
    const [view, layers] = await Promise.all([planFor(inference).catch(() => null), layersOf(inference.model, inference.version).catch(() => null)]);
    if (ended) return;
    if (inference.timeline.some((board) => board.segments?.length)) {
      const chart = gantt(inference, view, layers);
      end = chart.end;
      body.append(el("h2", {}, "Where the time went"), chart.element);
    } else body.append(el("p", { class: "empty" }, "No time line was recorded: the inference ended before the boards could tell."));
    body.append(boardsTable(inference));
  }
  load().catch((error) => body.replaceChildren(el("p", { class: "bad" }, error.line ?? error.message)));
  const leave = subscribe(["inferences"], () => {
    const at = live.inferences.findIndex((inference) => inference.id === id);
    const set = (link, other) => {
      link.hidden = !other;
      if (other) link.href = `#/inferences/${other.id}`;
    };
    set(older, at >= 0 && live.inferences[at + 1]);
    set(newer, at > 0 && live.inferences[at - 1]);
  });
  return () => {
    ended = true;
    end();
    leave();
  };
}
