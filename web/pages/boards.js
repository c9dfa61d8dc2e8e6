// Boards: one card each, those that need a person first, with what the board said of itself and what was measured.
import { el, facts, list } from "../js/dom.js";
import { acts, drained, flash, health, memory, partsOf, rating } from "../js/boardview.js";
import { attempts, enrolPanel } from "../js/enrol.js";
import { live, refreshBoards, subscribe } from "../js/live.js";
import { boardLink, boardState, deploymentLink } from "../js/words.js";

const REFRESH_MS = 10000;

function card(board) {
  const parts = partsOf(board);
  return el("article", { class: "card" },
    el("div", { class: "head" }, el("h2", {}, boardLink(board)), boardState(board)),
    board.link !== "online" && board.reason && el("p", { class: "faint" }, board.reason),
    drained(board),
    facts(
      ["kind", board.hello ? `${board.hello.kind}, ${Math.round(board.hello.clock_hz / 1e6)} MHz` : board.kind],
      ...rating(board), ...health(board),
      parts.length > 0 && ["holds parts of", parts.map(({ deployment }, i) => [i > 0 && ", ", deploymentLink(deployment)])]),
    el("div", { class: "gauges" }, memory(board), flash(board)),
    el("div", { class: "actions" }, acts(board, false)));
}

const GROUPS = [
  ["all", () => true],
  ["online", (board) => board.state === "accepted" && board.link === "online"],
  ["not reached", (board) => board.state === "accepted" && board.link !== "online"],
  ["asking to join", (board) => board.state === "pending"],
  ["drained", (board) => board.drained],
  ["revoked", (board) => board.state === "revoked"],
];

/** Who needs a person stands first: asking to join, in use and not reached, not reached; then by name. */
function urgency(board) {
  if (board.state === "pending") return 0;
  if (board.state === "revoked") return 4;
  if (board.link === "online") return 3;
  return board.in_use ? 1 : 2;
}
const names = new Intl.Collator("en", { numeric: true });
const byUrgency = (a, b) => urgency(a) - urgency(b) || names.compare(a.name, b.name);

const text = (board) => [board.name, board.id, board.location, board.kind, board.address, ...(board.tags ?? [])].join(" ").toLowerCase();

export function show(container) {
  const filter = el("input", { type: "search", placeholder: "name, place, tag, kind", "aria-label": "Filter boards", oninput: () => draw() });
  const group = el("select", { "aria-label": "Which boards", onchange: () => draw() });
  const count = el("span", { class: "faint", role: "status" });
  const cards = el("div", { class: "rows" });
  const enrol = enrolPanel();
  const [turnedAway, endAttempts] = attempts();
  const tools = el("div", { class: "tools" }, filter, group, count);
  container.append(el("div", { class: "bar" }, el("h1", {}, "Boards"), enrol.button), enrol.panel, tools, cards, turnedAway);
  const rows = list(cards, { render: card, size: 48,
    empty: live.boards.size ? "No board fits the filter." : "No boards yet. Press “Enrol a board”: you get a code and the line to type." });

  function drawGroups(boards) {
    const value = group.value || "all";
    group.replaceChildren(...GROUPS.map(([name, is]) => [name, boards.filter(is).length]).filter(([name, n]) => n || name === "all" || name === value)
      .map(([name, n]) => el("option", { value: name, selected: name === value }, `${name} (${n})`)));
  }
  function draw() {
    const boards = [...live.boards.values()];
    drawGroups(boards);
    const is = GROUPS.find(([name]) => name === group.value)?.[1] ?? (() => true);
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = boards.filter((board) => is(board) && words.every((word) => text(board).includes(word))).sort(byUrgency);
    tools.hidden = !boards.length;
    count.textContent = wanted.length === boards.length ? "" : `${wanted.length} of ${boards.length}`;
    rows(wanted);
  }
  const timer = setInterval(() => !document.hidden && refreshBoards(), REFRESH_MS);
  refreshBoards();
  const end = subscribe(["boards", "deployments"], draw);
  return () => {
    clearInterval(timer);
    end();
    endAttempts();
  };
}
