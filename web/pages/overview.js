// The overview: what needs a person first, then how much is asked and how fast it is answered, what is deployed, what was
// asked last.
import { post } from "../js/api.js";
import { action, age, bytes, el, list, ms, short, state } from "../js/dom.js";
import { replace } from "../js/boardview.js";
import { live, subscribe } from "../js/live.js";
import { timeChart } from "../js/charts.js";
import { watchLoad } from "../js/load.js";
import { splitBars, splitKey } from "../js/split.js";
import { boardLink, deploymentLink, deploymentSince, deploymentState, modelLink } from "../js/words.js";

const MINUTES = 15;
const POINTS = 90;
const PAGES = { board: "boards", deployment: "deployments", job: "models" };

// ---- what needs attention ----

/** The act that an item asks for, where one press can do it. */
function remedy(item) {
  const board = item.kind === "board" && live.boards.get(item.id);
  if (board?.state === "pending") return action("Accept", () => post(`boards/${item.id}/accept`));
  if (board?.state === "accepted" && board.link !== "online") return action("Replace…", () => replace(board));
  const deployment = item.kind === "deployment" && live.deployments.get(item.id);
  if (deployment?.state === "failed") return el("a", { href: `#/models/${encodeURIComponent(deployment.model)}` }, "What would it need?");
  if (deployment) return action("Replan", () => post(`deployments/${item.id}/replan`));
  return null;
}

function subject(item) {
  if (item.kind === "attempt") return el("a", { href: "#/boards" }, item.subject || "someone");
  if (item.kind === "job") return modelLink(item.subject);
  return el("a", { href: `#/${PAGES[item.kind] ?? ""}/${encodeURIComponent(item.id)}` }, item.subject);
}

function attention(item) {
  return el("li", { class: `todo ${item.severity === "error" ? "bad" : "warn"}-edge` },
    el("div", {},
      el("p", {}, state(item.severity, item.severity === "error" ? "bad" : "warn"), " ", el("b", {}, subject(item)), ` ${item.text}`,
        item.since_at && el("span", { class: "faint" }, " · ", age(item.since_at), item.kind === "attempt" ? " ago" : "")),
      item.action && el("p", { class: "faint" }, "To do: ", item.action, ".")),
    el("div", { class: "actions" }, remedy(item)));
}

// ---- figures ----

function tile(name) {
  const value = el("p", { class: "tile-value" }, "–");
  const note = el("p", { class: "faint" });
  return {
    element: el("div", { class: "tile" }, el("h2", {}, name), value, note),
    set(text, under = "") {
      value.replaceChildren(text);
      note.replaceChildren(...[].concat(under));
    },
  };
}

const rate = (n) => (n === 0 ? "0" : n < 1 ? n.toFixed(2) : n < 10 ? n.toFixed(1) : Math.round(n).toString());

function boardTile(show) {
  const boards = [...live.boards.values()].filter((board) => board.state === "accepted");
  const online = boards.filter((board) => board.link === "online").length;
  const pending = [...live.boards.values()].filter((board) => board.state === "pending").length;
  const rest = boards.length - online;
  show.set(boards.length ? `${online} of ${boards.length}` : "none",
    !boards.length ? el("a", { href: "#/boards" }, "enrol the first")
      : [rest ? `${rest} not reached` : "all are reached", pending ? `, ${pending} ask to join` : ""]);
}

function deployedTile(show) {
  const all = [...live.deployments.values()];
  const active = all.filter((deployment) => deployment.state === "active");
  const other = all.filter((deployment) => deployment.state !== "active" && deployment.state !== "failed");
  const count = all.filter((deployment) => deployment.state !== "failed").length;
  show.set(count ? `${active.length} of ${count} active` : "none",
    other.length ? other.map((deployment) => `${deployment.model} is ${deployment.state}`).join(", ")
      : active.length ? [...new Set(active.map((deployment) => deployment.model))].slice(0, 3).join(", ")
        : el("a", { href: "#/models" }, "deploy a model"));
}

// ---- what is deployed, what was asked ----

function deployed(deployment) {
  return el("tr", {},
    el("td", {}, deploymentLink(deployment)),
    el("td", {}, el("code", {}, short(deployment.version))),
    el("td", {}, deploymentState(deployment), el("span", { class: "faint" }, " ", age(deploymentSince(deployment)))),
    el("td", {}, (deployment.boards ?? []).filter((part) => part.state !== "unused").map((part, i) => [i > 0 && ", ", boardLink({ id: part.board, name: part.name })])),
    el("td", { class: "number" }, ms(deployment.plan?.latency_ms) ?? "–"));
}

function row(inference) {
  return el("tr", {},
    el("td", {}, el("a", { href: `#/inferences/${inference.id}` }, age(inference.begun_at), " ago")),
    el("td", {}, modelLink(inference.model)),
    el("td", {}, inference.state === "done" ? state("done", "good") : state(inference.error?.message ?? "failed", "bad")),
    el("td", { class: "number" }, ms(inference.latency_ms)),
    el("td", { class: "number minor" }, bytes(inference.bytes_moved)),
    el("td", { class: "wide" }, splitBars(inference.timeline ?? [])));
}

function table(label, heads, body, look = "") {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, el("table", { class: `stack ${look}` },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: head.number ? "number" : false }, head.text ?? head)))), body));
}

function drawCharts(load, latency, asked) {
  const step = load.point_s * 1000;
  const end = Math.ceil(Date.now() / step) * step;
  const begin = end - POINTS * step;
  const points = load.points.map((point) => ({ ...point, time: Date.parse(point.begin_at),
    done_per_s: point.done / load.point_s, failed_per_s: point.failed / load.point_s }));
  latency.draw({ begin, end, step, points: points.filter((point) => point.p50_ms != null) });
  asked.draw({ begin, end, step, points });
}

/** What to do first, while something is missing: boards, a model, a deployment. */
function firstSteps() {
  if (!live.loaded || live.deployments.size) return [];
  const some = live.boards.size > 0;
  return [el("section", { class: "note" }, el("h2", {}, "First steps"), el("ol", {},
    el("li", {}, el("a", { href: "#/boards" }, "Enrol a board"), some ? `: done, ${live.boards.size} known` : ": get a one-time code and type one line on the board."),
    el("li", {}, el("a", { href: "#/models" }, "Upload a model"), live.models.length ? `: done, ${live.models.length} known` : ": a .tflite file of convolutions, int8 or uint8."),
    el("li", {}, "Deploy it: the plan is checked before anything is sent."),
    el("li", {}, el("a", { href: "#/try" }, "Try it"), " and see where the time goes.")))];
}

export function show(container) {
  const todo = el("ul", { class: "plain" });
  const calm = el("p", { class: "calm" });
  const steps = el("div");
  const tiles = ["Boards online", "Deployed", "Inferences per second", "Median latency", "p99 latency"].map(tile);
  const latency = timeChart({ title: `Latency, last ${MINUTES} minutes`, format: (n, axis) => (!axis ? ms(n) : n === 0 ? "0" : n < 1000 ? `${n} ms` : `${n / 1000} s`),
    empty: "No inference was answered in this time.",
    series: [{ key: "p99_ms", name: "p99", kind: "line", look: "move-look", colour: "--move", dash: [5, 3] }, { key: "p50_ms", name: "median", kind: "line", look: "main-look", colour: "--accent" }] });
  const asked = timeChart({ title: `Inferences per second, last ${MINUTES} minutes`, format: rate, empty: "No inference was asked for in this time.",
    series: [{ key: "done_per_s", name: "answered", kind: "bars", look: "main-look", colour: "--accent" }, { key: "failed_per_s", name: "failed", kind: "bars", look: "bad-look", colour: "--bad" }] });
  const deployedBody = el("tbody");
  const lastBody = el("tbody");
  const deployedSection = el("section", {}, el("h2", {}, "Deployed"),
    table("Deployed", ["model", "version", "state", "boards", { text: "predicted latency", number: true }], deployedBody));
  container.append(el("h1", {}, "Overview"),
    el("section", { class: "first", "aria-label": "Needs attention" }, calm, todo), steps,
    el("div", { class: "tiles" }, tiles.map((one) => one.element)),
    el("div", { class: "pair" }, latency.element, asked.element),
    deployedSection,
    el("section", {}, el("div", { class: "bar" }, el("h2", {}, "Last inferences"), el("span", { class: "keys" }, "per board:", splitKey())),
      table("Last inferences", ["asked", "model", "result", { text: "latency", number: true }, { text: "moved", number: true }, "where each board's time went"], lastBody, "plainly")));
  const drawDeployed = list(deployedBody, { render: deployed, empty: "" });
  const drawLast = list(lastBody, { render: row, size: 15, empty: "No inference has been asked for yet. “Try it” asks one." });
  const ends = [
    latency.end, asked.end,
    watchLoad(MINUTES, POINTS, (load) => {
      const last = load.points.filter((point) => Date.parse(point.begin_at) > Date.now() - 60000).reduce((sum, point) => sum + point.done, 0);
      tiles[2].set(rate(last / 60), `last minute; ${load.done} answered${load.failed ? `, ${load.failed} failed` : ""} in ${MINUTES} min`);
      tiles[3].set(ms(load.p50_ms) ?? "–", `half were faster, in ${MINUTES} min`);
      tiles[4].set(ms(load.p99_ms) ?? "–", `99 of 100 were faster, in ${MINUTES} min`);
      drawCharts(load, latency, asked);
    }),
    subscribe(["boards", "deployments", "models"], () => {
      boardTile(tiles[0]);
      deployedTile(tiles[1]);
      const here = [...live.deployments.values()].filter((deployment) => deployment.state !== "failed").sort((a, b) => (a.id < b.id ? 1 : -1));
      deployedSection.hidden = !here.length;
      drawDeployed(here);
      steps.replaceChildren(...firstSteps());
    }),
    subscribe(["attention", "boards", "deployments"], () => {
      calm.replaceChildren(...(live.loaded && !live.attention.length ? [state("Nothing needs you now.", "good")] : []));
      // Errors first; within them as the server lists them.
      todo.replaceChildren(...[...live.attention].sort((a, b) => (a.severity !== "error") - (b.severity !== "error")).map(attention));
    }),
    subscribe(["inferences"], () => drawLast(live.inferences)),
  ];
  return () => ends.forEach((end) => end());
}
