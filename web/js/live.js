// What the page knows, kept true by events. One EventSource per browser: the tab that holds a lock listens and tells the
// others, so that eight tabs take one connection. Pages subscribe to topics and are called once a frame at most.
import { get } from "./api.js";

const INFERENCES = 200;
const FIRST_MS = 3000;
const AGAIN_MS = 2000;
const CHECK_MS = 4000;
const CHECK_LIMIT_MS = 3000;
const OVER = new Set(["retired", "cancelled"]);

/** The state. Objects in it are never changed in place: a new one means that something changed. */
export const live = {
  boards: new Map(), // id -> board as GET /boards/{id} gives it
  models: [], // as GET /models lists them, by name
  deployments: new Map(), // id -> deployment as GET /deployments/{id} gives it; not those that are over
  inferences: [], // newest first, with time lines where the event brought one
  attention: [],
  jobs: new Map(), // id -> job, of those that an event told of since the page came
  limits: {},
  link: null, // true: live, false: the server is out of reach, null: not known yet
  loaded: false,
};

const subscribers = new Set();
const changed = new Set();
let frame = 0;

function change(...topics) {
  for (const topic of topics) changed.add(topic);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const now = new Set(changed);
    changed.clear();
    for (const subscriber of [...subscribers])
      if (subscriber.topics.some((topic) => now.has(topic))) subscriber.call();
  });
}

/** Calls `call` soon and after each change of a topic: boards, models, deployments, inferences, attention, jobs, link. */
export function subscribe(topics, call) {
  const subscriber = { topics, call };
  subscribers.add(subscriber);
  call();
  return () => subscribers.delete(subscriber);
}

/** All items of a list, page by page. */
export async function all(path) {
  const items = [];
  for (let after = ""; after != null;) {
    const page = await get(`${path}${path.includes("?") ? "&" : "?"}limit=1000${after ? `&after=${encodeURIComponent(after)}` : ""}`);
    items.push(...page.items);
    after = page.next;
  }
  return items;
}

const collator = new Intl.Collator("en");
const byName = (a, b) => collator.compare(a.name, b.name);

async function loadDeployments() {
  const listed = (await get("deployments?limit=100")).items.filter((d) => !OVER.has(d.state));
  // Those that failed may be many and have no boards to show: as listed.
  const whole = await Promise.all(listed.map((d) => (d.state === "failed" ? d : get(`deployments/${d.id}`))));
  live.deployments = new Map(whole.map((d) => [d.id, d]));
}

async function loadModels() {
  live.models = (await all("models")).sort(byName);
  change("models");
}

async function loadAttention() {
  live.attention = (await get("attention")).items;
  change("attention");
}

/** Everything anew: at the start, after a gap in the events, when the server is back. */
export async function load() {
  const [boards, inferences, limits] = await Promise.all([
    all("boards"), get("inferences?limit=50"), get("limits"), loadDeployments(), loadModels(), loadAttention(),
  ]);
  live.boards = new Map(boards.map((board) => [board.id, board]));
  live.inferences = inferences.items;
  live.limits = limits;
  live.loaded = true;
  change("boards", "deployments", "inferences", "limits");
}

// Beats change what a board says of its memory and temperature, but make no event: pages that show it ask now and then.
// A board that says the same again stays the same object, so that nothing is drawn anew.
const still = (board) => JSON.stringify({ ...board, uptime_ms: 0, activity: "" });

export async function refreshBoards() {
  const boards = await all("boards").catch(() => null);
  if (!boards) return;
  const before = live.boards;
  live.boards = new Map(boards.map((board) => {
    const known = before.get(board.id);
    return [board.id, known && still(known) === still(board) ? known : board];
  }));
  if (live.boards.size !== before.size || boards.some((board) => live.boards.get(board.id) !== before.get(board.id))) change("boards");
}

// Many events may ask for the same list: it is fetched once they are quiet.
const later = new Map();
function soon(name, call) {
  clearTimeout(later.get(name));
  later.set(name, setTimeout(() => call().catch(() => undefined), 150));
}

function withEntry(map, id, value) {
  const next = new Map(map);
  if (value) next.set(id, value);
  else next.delete(id);
  return next;
}

const handlers = {
  board(board) {
    live.boards = withEntry(live.boards, board.id, board.deleted ? null : board);
    change("boards");
    soon("attention", loadAttention);
  },
  deployment(deployment) {
    live.deployments = withEntry(live.deployments, deployment.id, OVER.has(deployment.state) ? null : deployment);
    change("deployments");
    soon("attention", loadAttention);
  },
  inference(inference) {
    live.inferences = [inference, ...live.inferences.filter((other) => other.id !== inference.id)].slice(0, INFERENCES);
    change("inferences");
  },
  model: () => soon("models", loadModels),
  job(job) {
    live.jobs.set(job.id, job);
    if (live.jobs.size > INFERENCES) live.jobs.delete(live.jobs.keys().next().value);
    change("jobs");
    soon("models", loadModels);
  },
  reset: () => soon("all", load),
};
const NAMES = Object.keys(handlers);

function setLink(up) {
  const back = up && live.link !== true;
  live.link = up;
  change("link");
  if (back) load().catch(() => soon("all", load));
}

// ---- one connection for all tabs ----

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("shoal") : null;
let lastId = "";
let leading = false;

function tell(message) {
  channel?.postMessage(message);
}

function receive(name, id, data) {
  if (id) lastId = id;
  handlers[name]?.(data);
}

function link(up) {
  setLink(up);
  tell({ link: up });
}

/** Listens for this browser until the tab closes. A stream that the browser gave up is begun anew. */
function listen() {
  const source = new EventSource(`/api/v1/events${lastId ? `?last_event_id=${encodeURIComponent(lastId)}` : ""}`);
  source.addEventListener("open", () => link(true));
  source.addEventListener("error", () => {
    link(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS);
  });
  for (const name of NAMES) {
    source.addEventListener(name, (event) => {
      const data = JSON.parse(event.data);
      receive(name, event.lastEventId, data);
      tell({ name, id: event.lastEventId, data });
    });
  }
}

/** A server that hangs, or a network that swallows, breaks no stream: the server is asked now and then. */
async function check() {
  const up = await fetch("/v2/health/live", { cache: "no-store", signal: AbortSignal.timeout(CHECK_LIMIT_MS) }).then((answer) => answer.ok, () => false);
  if (up !== live.link) link(up);
  setTimeout(check, CHECK_MS);
}

function lead() {
  leading = true;
  listen();
  setTimeout(check, CHECK_MS);
}

function follow(message) {
  if (message.who) {
    if (leading && live.link !== null) tell({ link: live.link });
  } else if ("link" in message) {
    setLink(message.link);
  } else {
    receive(message.name, message.id, message.data);
  }
}

export function start() {
  channel?.addEventListener("message", (event) => follow(event.data));
  tell({ who: true });
  if (navigator.locks && channel) navigator.locks.request("shoal-events", () => new Promise(() => lead()));
  else lead();
  // The stream's start loads everything; where it does not come up, what can be had is shown all the same.
  setTimeout(() => live.loaded || load().catch(() => undefined), FIRST_MS);
}
