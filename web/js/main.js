// The page: loads everything once, then keeps it true with events. What is on the page is what the API said last.
import { get, listen, post } from "./api.js";
import { el } from "./dom.js";
import { showBoards } from "./boards.js";
import { showDeployments } from "./deployments.js";
import { showInferences } from "./inferences.js";
import { showModels, wireUpload } from "./models.js";

const INFERENCES = 20;
const state = { boards: new Map(), models: [], deployments: new Map(), inferences: [], attention: [], limits: {} };
const part = (id) => document.getElementById(id);

function say(text) {
  part("upload-message").textContent = text;
  part("upload-message").className = "bad";
}

const byName = (a, b) => a.name.localeCompare(b.name);

function showAttention() {
  part("attention").hidden = state.attention.length === 0;
  part("attention").querySelector("ul").replaceChildren(...state.attention.map((item) =>
    el("li", {}, el("span", { class: `state ${item.severity === "error" ? "bad" : "warn"}` }, item.subject), ` ${item.text} `,
      item.action && el("span", { class: "faint" }, item.action))));
}

function showAll() {
  const deployments = [...state.deployments.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
  showBoards(part("boards"), [...state.boards.values()].sort(byName), say);
  showModels(part("models"), state.models, deployments, say);
  showDeployments(part("deployments"), deployments);
  showInferences(part("inferences"), state.inferences);
  showAttention();
}

// Many events may come at once: the page is drawn once a frame, and not while the person is at a button in it.
let drawing = false;
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const focused = document.activeElement?.closest(".card") && document.activeElement.textContent;
    showAll();
    if (focused) [...document.querySelectorAll(".card button")].find((button) => button.textContent === focused)?.focus();
  });
}

async function all(path) {
  const items = [];
  for (let after = ""; after != null;) {
    const page = await get(`${path}${path.includes("?") ? "&" : "?"}limit=100${after ? `&after=${encodeURIComponent(after)}` : ""}`);
    items.push(...page.items);
    after = page.next;
  }
  return items;
}

const byId = (items) => new Map(items.map((item) => [item.id, item]));

async function load() {
  const [boards, models, deployments, inferences, attention, limits] = await Promise.all([
    all("boards"), all("models"), get("deployments?limit=50"), get(`inferences?limit=${INFERENCES}`), get("attention"), get("limits"),
  ]);
  state.boards = byId(boards);
  state.models = models.sort(byName);
  state.inferences = inferences.items;
  state.attention = attention.items;
  state.limits = limits;
  const live = deployments.items.filter((d) => !["retired", "cancelled"].includes(d.state));
  state.deployments = byId(await Promise.all(live.map((d) => get(`deployments/${d.id}`))));
  draw();
}

async function reloadAttention() {
  state.attention = (await get("attention")).items;
  draw();
}

const refresh = () => load().catch(() => undefined);

listen({
  link(up) {
    part("link").textContent = up ? "live" : "The server is out of reach; trying again.";
    part("link").className = up ? "link" : "link bad";
    if (up) refresh();
  },
  reset: refresh,
  board(board) {
    state.boards.set(board.id, board);
    reloadAttention().catch(() => undefined);
  },
  deployment(deployment) {
    state.deployments.set(deployment.id, deployment);
    reloadAttention().catch(() => undefined);
  },
  inference(inference) {
    state.inferences = [inference, ...state.inferences.filter((other) => other.id !== inference.id)].slice(0, INFERENCES);
    draw();
  },
  model: refresh,
  job: refresh,
});

wireUpload(() => state.limits, refresh);

part("enrol").addEventListener("click", async () => {
  const box = part("code");
  try {
    const code = await post("enrolments", { accept: true });
    box.replaceChildren(
      el("p", {}, "Start the board with this line. The code is good once, until ", new Date(code.expires_at).toLocaleTimeString(), "."),
      el("code", {}, code.command), code.warning && el("p", { class: "warn" }, code.warning));
  } catch (error) {
    box.replaceChildren(el("p", { class: "bad" }, error.message));
  }
  box.hidden = false;
});

setInterval(draw, 10000); // ages
