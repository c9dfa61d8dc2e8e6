// One board: all that the server knows of it, the time line of its link, what it said.
import { get } from "../js/api.js";
import { age, bytes, el, facts, list, state, svg } from "../js/dom.js";
import { acts, drained, flash, fragmentRow, health, identity, memory, partsOf, rating } from "../js/boardview.js";
import { timeChart } from "../js/charts.js";
import { live, refreshBoards, subscribe } from "../js/live.js";
import { boardState, deploymentLink, deploymentState } from "../js/words.js";

const REFRESH_MS = 3000;
const LOG_LINES = 200;
const DAY_MS = 86400000;
const HOUR_MS = 3600000;
const READING_MS = 10000;
const LOOK = { online: "good", stale: "warn", offline: "bad" };

// ---- the time line of its link ----

/** Newest first in, spans {state, from, to, reason} oldest first out. */
function spansOf(states, now) {
  return states.map((one, i) => ({ ...one, from: Date.parse(one.at), to: i === 0 ? now : Date.parse(states[i - 1].at) })).reverse();
}

function timeLine(states) {
  const now = Date.now();
  const first = states.length ? Date.parse(states.at(-1).at) : now;
  const begin = Math.max(first, now - DAY_MS);
  const length = Math.max(1, now - begin);
  const spans = spansOf(states, now).filter((span) => span.to > begin);
  const up = spans.filter((span) => span.state === "online").reduce((sum, span) => sum + span.to - Math.max(begin, span.from), 0);
  const text = `online ${((up / length) * 100).toFixed(1)} % of the last ${length >= DAY_MS ? "24 h" : `${Math.max(1, Math.round(length / 60000))} min`}`;
  return el("div", {}, el("p", {}, text),
    svg("svg", { class: "states", viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img", "aria-label": text },
      spans.map((span) => {
        const x = ((Math.max(begin, span.from) - begin) / length) * 1000;
        // Height says it too: online is full, stale half, offline a line.
        const height = { online: 10, stale: 6, offline: 3 }[span.state] ?? 3;
        return svg("rect", { class: `${LOOK[span.state]}-fill`, x, width: Math.max(1.5, ((span.to - begin) / length) * 1000 - x), y: 10 - height, height },
          svg("title", {}, `${span.state}, ${new Date(span.from).toLocaleString()}${span.reason ? `: ${span.reason}` : ""}`));
      })));
}

// ---- memory and temperature over time ----

/** Charts of the board's readings; temperature where the board knows it. */
function readings() {
  const plain = (value) => bytes(value).replace(".0 ", " ").replace(".00 ", " ");
  const charts = [
    timeChart({ title: "Memory in use, deepest mark", format: (n, axis) => (n === 0 ? "0" : axis ? plain(n) : bytes(n)), base: 1024, empty: "No reading yet: one comes each 10 s.",
      series: [{ key: "arena_high_water_bytes", name: "arena", kind: "line", look: "main-look", colour: "--accent" },
        { key: "stack_high_water_bytes", name: "stack", kind: "line", look: "move-look", colour: "--move", dash: [5, 3] }] }),
    timeChart({ title: "Temperature", format: (n) => `${Number(n.toFixed(1))} °C`, empty: "No reading yet.",
      series: [{ key: "temperature_celsius", name: "of its chip", kind: "line", look: "main-look", colour: "--accent" }] }),
  ];
  return {
    element: el("div", { class: "pair" }, charts.map((chart) => chart.element)),
    end: () => charts.forEach((chart) => chart.end()),
    draw(items) {
      const points = items.map((item) => ({ ...item, time: Date.parse(item.at) }));
      const end = Date.now();
      // At least ten minutes wide, so that the first readings do not fill the picture.
      const begin = Math.max(end - HOUR_MS, Math.min(points[0]?.time ?? end, end - HOUR_MS / 6));
      const data = (key) => ({ begin, end, step: READING_MS, middle: 0, points: points.filter((point) => point.time >= begin && point[key] != null) });
      charts[0].draw(data("arena_high_water_bytes"));
      charts[1].draw(data("temperature_celsius"));
      charts[1].element.hidden = points.every((point) => point.temperature_celsius == null);
    },
  };
}

const stateRow = (one) => el("tr", {}, el("td", {}, new Date(one.at).toLocaleString()), el("td", {}, state(one.state, LOOK[one.state] ?? "faint")), el("td", { class: "name" }, one.reason));
const logRow = (one) => el("tr", {}, el("td", {}, age(one.at), " ago"), el("td", {}, state(one.level, { error: "bad", warning: "warn" }[one.level] ?? "faint")), el("td", { class: "name" }, one.text));
const partRow = ({ deployment, part }) => el("tr", {}, el("td", {}, deploymentLink(deployment)), el("td", {}, deploymentState(deployment)), el("td", {}, part.state));

function table(label, heads, body) {
  return el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": label }, el("table", { class: "stack" },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: head === "size" ? "number" : false }, head)))), body));
}

export function show(container, [id]) {
  const title = el("h1", {}, "Board");
  const now = el("div", { class: "head-state" });
  const about = el("div", { class: "columns" });
  const buttons = el("div", { class: "actions" });
  const line = el("div");
  const past = readings();
  const bodies = { parts: el("tbody"), fragments: el("tbody"), states: el("tbody"), log: el("tbody") };
  const gone = el("p", { class: "empty", hidden: true }, "There is no such board (any more). ", el("a", { href: "#/boards" }, "See all boards"), ".");
  const rest = el("div", {},
    about, buttons, el("section", {}, el("h2", {}, "Its last hour"), past.element),
    el("div", { class: "pair" },
      el("section", {}, el("h2", {}, "Deployments that use it"), table("Deployments", ["deployment", "state", "its part"], bodies.parts)),
      el("section", {}, el("h2", {}, "Fragments in its flash"), table("Fragments", ["fragment", "size", "of"], bodies.fragments))),
    el("div", { class: "pair" },
      el("section", {}, el("h2", {}, "Time line of its link"), line, table("Changes of state", ["when", "state", "why"], bodies.states)),
      el("section", {}, el("h2", {}, "Log"), table("Log", ["when", "level", "what it said"], bodies.log))));
  container.append(el("p", { class: "crumb" }, el("a", { href: "#/boards" }, "Boards")), el("div", { class: "bar" }, title, now), gone, rest);
  const draw = {
    parts: list(bodies.parts, { key: (one) => one.deployment.id, render: partRow, empty: "No deployment uses this board." }),
    fragments: list(bodies.fragments, { key: (one) => one.fragment, render: (one) => fragmentRow(board, one), empty: "It holds no fragment." }),
    states: list(bodies.states, { render: stateRow, size: 20, empty: "No change was recorded yet." }),
    log: list(bodies.log, { render: logRow, size: 50, empty: "It has said nothing yet: boards log what goes wrong." }),
  };
  let board = null;
  let drawn = null;
  let ended = false;

  function paint() {
    board = live.boards.get(id) ?? [...live.boards.values()].find((one) => one.name === id) ?? null;
    rest.hidden = !board;
    gone.hidden = Boolean(board) || !live.loaded;
    if (!board) return;
    draw.parts(partsOf(board));
    draw.fragments(board.fragments ?? []);
    if (drawn === board) return;
    drawn = board;
    title.textContent = board.name;
    document.title = `${board.name} · Shoal`;
    now.replaceChildren(boardState(board));
    about.replaceChildren(
      el("section", { class: "card" }, el("h2", {}, "Memory"), el("div", { class: "gauges" }, memory(board), flash(board)),
        el("p", { class: "faint" }, "Bars are what the board reported; the tick is what the plan says.")),
      el("section", { class: "card" }, el("h2", {}, "Rating and health"), drained(board), board.reason && el("p", { class: "faint" }, board.reason),
        facts(...rating(board), ...health(board))),
      el("section", { class: "card" }, el("h2", {}, "Identity"), identity(board)));
    buttons.replaceChildren(...acts(board, true).flat().filter(Boolean));
    loadStates();
    if (!logged) {
      loadLog();
      loadReadings();
    }
  }
  async function loadReadings() {
    if (!board) return;
    const page = await get(`boards/${encodeURIComponent(board.id)}/readings`).catch(() => null);
    if (page && !ended) past.draw(page.items);
  }
  async function loadStates() {
    const page = await get(`boards/${encodeURIComponent(board.id)}/states?limit=200`).catch(() => null);
    if (!page || ended) return;
    line.replaceChildren(timeLine(page.items));
    draw.states(page.items);
  }
  let lines = [];
  let logged = false;
  async function loadLog() {
    if (!board) return;
    logged = true;
    const page = await get(`boards/${encodeURIComponent(board.id)}/log?limit=${LOG_LINES}`).catch(() => null);
    if (!page || ended) return;
    const known = new Map(lines.map((one) => [one.id, one]));
    lines = page.items.map((one) => known.get(one.id) ?? one);
    draw.log(lines);
  }
  const refresh = () => !document.hidden && Promise.all([refreshBoards(), loadLog(), loadReadings()]);
  const timer = setInterval(refresh, REFRESH_MS);
  const end = subscribe(["boards", "deployments"], paint);
  return () => {
    ended = true;
    clearInterval(timer);
    past.end();
    end();
  };
}
