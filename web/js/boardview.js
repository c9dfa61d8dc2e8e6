// What the boards' list and a board's own page show alike: memory, flash, rating, acts.
import { del, patch, post } from "./api.js";
import { action, age, bytes, el, facts, meter, number, short, state, svg } from "./dom.js";
import { ask } from "./dialog.js";
import { live } from "./live.js";
import { deploymentLink } from "./words.js";

/** The parts that deployments have on a board: [{deployment, part}]; those that are over or failed have none. */
export function partsOf(board) {
  const found = [];
  for (const deployment of live.deployments.values()) {
    if (deployment.state === "failed") continue;
    for (const part of deployment.boards ?? []) if (part.board === board.id && part.state !== "unused") found.push({ deployment, part });
  }
  return found;
}

// ---- memory: what the board reported, the plan's number as a tick ----

const NAMES = { arena: "arena", weights: "weights in RAM", stack: "stack, deepest", network: "network" };

function used(board, region) {
  if (region.name === "arena") return board.arena_high_water_bytes ?? region.high_water_bytes;
  if (region.name === "stack") return board.stack_high_water_bytes || region.high_water_bytes;
  return region.high_water_bytes;
}

function planned(board, region) {
  const key = { arena: "arena_bytes", weights: "resident_bytes" }[region.name];
  const numbers = key ? partsOf(board).map(({ part }) => part[key] ?? 0) : [];
  return numbers.length ? Math.max(...numbers) : null;
}

function bar(name, text, part, tick) {
  return el("div", { class: "gauge" }, el("span", { class: "gauge-name" }, name), el("span", { class: "gauge-text" }, text),
    meter(part, `${name}: ${text}`, tick));
}

function region(board, one) {
  const high = used(board, one);
  const plan = planned(board, one);
  // A region whose use the board does not tell (only the arena and the stack have a mark of their own) shows the plan's.
  const told = one.name === "arena" || high > 0;
  const text = [told ? `${bytes(high)} of ` : "", bytes(one.bytes), plan == null ? "" : `, plan ${bytes(plan)}`].join("");
  return bar(NAMES[one.name] ?? one.name, text, told ? high / one.bytes : 0, plan == null ? null : plan / one.bytes);
}

export function memory(board) {
  const regions = board.hello?.regions ?? [];
  const stack = board.stack_high_water_bytes > 0 && !regions.some((one) => one.name === "stack");
  return [
    regions.map((one) => region(board, one)),
    stack && el("div", { class: "gauge" }, el("span", { class: "gauge-name" }, NAMES.stack), el("span", { class: "gauge-text" }, bytes(board.stack_high_water_bytes))),
  ];
}

// ---- flash, fragment by fragment ----

function owner(board, fragment) {
  return partsOf(board).find(({ part }) => part.fragment === fragment)?.deployment;
}

/** One bar of the whole flash: a stretch for each fragment, the rest of what is used after them. */
export function flash(board) {
  const total = board.hello?.flash_bytes;
  if (!total || board.flash_used_bytes == null) return null;
  const held = board.fragments ?? [];
  const text = `${bytes(board.flash_used_bytes)} of ${bytes(total)}, ${held.length} fragment${held.length === 1 ? "" : "s"}`;
  let x = 0;
  const stretches = held.map((one) => {
    const width = (one.bytes / total) * 100;
    x += width;
    return svg("rect", { class: owner(board, one.fragment) ? "used" : "idle", x: x - width, width: Math.max(0.3, width - 0.15), height: 1 });
  });
  return el("div", { class: "gauge" }, el("span", { class: "gauge-name" }, "flash"), el("span", { class: "gauge-text" }, text),
    svg("svg", { class: "meter", viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img", "aria-label": `flash: ${text}` },
      svg("title", {}, text), stretches));
}

export function fragmentRow(board, one) {
  const deployment = owner(board, one.fragment);
  return el("tr", {}, el("td", {}, el("code", { title: one.fragment }, short(one.fragment))), el("td", { class: "number" }, bytes(one.bytes)),
    el("td", {}, deployment ? [deploymentLink(deployment), ` is ${deployment.state}`] : "no deployment needs it now"));
}

// ---- rating and what it comes from ----

const rate = (kb) => (kb >= 1000 ? `${(kb / 1024).toFixed(1)} MB/s` : `${kb.toFixed(1)} KB/s`);

export function rating(board) {
  const { rating } = board;
  if (!rating) return [["rating", board.link === "online" && board.state === "accepted" ? "being measured" : "not measured yet"]];
  return [
    ["rating", el("span", {}, el("b", {}, rate(rating.rating_kb_per_s)), el("span", { class: "faint" }, " measured ", age(rating.measured_at), " ago"))],
    ["comes from", `${Math.round(rating.clock_hz / 1e6)} MHz, ${(rating.delay_s_per_kb * 1000).toFixed(3)} ms delay per KB, ${rate(rating.bandwidth_kb_per_s)} bandwidth`],
  ];
}

export function health(board) {
  return [
    ["uptime", board.link !== "offline" && board.uptime_ms ? age(new Date(Date.now() - board.uptime_ms).toISOString()) : null],
    ["temperature", board.temperature_celsius != null ? `${board.temperature_celsius.toFixed(1)} °C` : null],
    ["location", board.location],
    ["tags", board.tags?.join(", ")],
  ];
}

/** Drained, and whether the board may be taken away. */
export function drained(board) {
  if (!board.drained) return null;
  if (board.safe_to_unplug) return el("p", { class: "unplug" }, state("Drained: safe to unplug.", "good"));
  return el("p", { class: "unplug" }, state("Draining: a deployment still needs it; do not unplug it yet.", "warn"));
}

// ---- acts ----

const path = (board, act) => `boards/${board.id}${act ? `/${act}` : ""}`;

function rename(board) {
  return ask({
    title: `Rename ${board.name}`, confirm: "Rename",
    fields: [
      { name: "name", label: "Name", value: board.name, required: true, maxlength: 63 },
      { name: "location", label: "Location", value: board.location },
      { name: "tags", label: "Tags, separated by commas", value: board.tags?.join(", ") },
    ],
    call: ({ name, location, tags }) => patch(path(board), { name, location, tags: tags.split(",").map((tag) => tag.trim()).filter(Boolean) }),
  });
}

// ---- another board in its place ----

const arena = (board) => board.hello?.regions?.find((one) => one.name === "arena")?.bytes;

/** Boards that could take the place: there now, without a part of a deployment that the board has one of. Spares first. */
function successors(board) {
  const shared = new Set(partsOf(board).map(({ deployment }) => deployment.id));
  return [...live.boards.values()]
    .filter((one) => one.id !== board.id && one.state === "accepted" && one.link === "online" && !partsOf(one).some(({ deployment }) => shared.has(deployment.id)))
    .sort((a, b) => partsOf(a).length - partsOf(b).length || a.name.localeCompare(b.name, "en", { numeric: true }));
}

function successor(board) {
  const n = partsOf(board).length;
  const free = board.hello ? board.hello.flash_bytes - (board.flash_used_bytes ?? 0) : null;
  return `${board.name}: ${n ? `${n} part${n === 1 ? "" : "s"} of other deployments` : "free"}${board.drained ? ", drained" : ""}, ${bytes(arena(board))} arena, ${bytes(free)} flash left`;
}

/** Asks which board takes the place of this one. */
export function replace(board) {
  const candidates = successors(board);
  const needs = partsOf(board).map(({ deployment, part }) => `${deployment.model}: ${bytes(part.arena_bytes)} arena, ${bytes(part.fragment_bytes)} flash`);
  return ask({
    title: `Replace ${board.name}`,
    confirm: candidates.length ? "Replace" : null,
    text: [
      `The board you choose takes its name, place and tags${needs.length ? " and its part of each deployment: the same fragments are pushed to it, which may take a minute, and verified, then the deployment answers with it" : ""}. ${board.name} is renamed and drained.`,
      needs.length > 0 && `It must have room for ${needs.join("; ")}.`,
      !candidates.length && el("span", {}, "No other board could take it: one that is accepted and online, without a part of the same deployment. ", el("a", { href: "#/boards" }, "Enrol one"), " first."),
    ].filter(Boolean),
    fields: candidates.length ? [{ name: "by", label: "By which board", options: candidates.map((one) => ({ value: one.id, text: successor(one) })) }] : [],
    call: async ({ by }) => {
      await post(path(board, "replace"), { by });
      if (location.hash === `#/boards/${board.id}`) location.hash = `#/boards/${by}`;
    },
  });
}

function revoke(board) {
  return ask({
    title: `Revoke ${board.name}?`, confirm: "Revoke", danger: true,
    text: ["Its certificate is refused from now on and its link is dropped at once. It comes back only when you accept it again.",
      board.in_use && "A deployment uses this board: it will not answer until it is replanned without it."].filter(Boolean),
    call: () => post(path(board, "revoke")),
  });
}

function remove(board) {
  return ask({
    title: `Forget ${board.name}?`, confirm: "Forget", danger: true,
    text: "The board leaves the list, with its name and rating. Its log stays until it is old.",
    call: async () => {
      await del(path(board));
      live.boards = new Map([...live.boards].filter(([id]) => id !== board.id));
      location.hash = "#/boards";
    },
  });
}

/** The acts that make sense for a board now. */
export function acts(board, all) {
  const online = board.link === "online";
  const member = board.state === "accepted";
  return [
    board.state === "pending" && action("Accept", () => post(path(board, "accept")), { class: "solid" }),
    board.state === "revoked" && action("Accept again", () => post(path(board, "accept"))),
    member && online && action("Measure", () => post(path(board, "probe"))),
    member && !board.drained && action("Drain", () => post(path(board, "drain")), { title: "plans deployments anew without it" }),
    member && board.drained && action("Undrain", () => post(path(board, "undrain"))),
    (member || board.state === "revoked") && (all || (board.in_use && board.link !== "online")) && action("Replace…", () => replace(board), { title: "another board takes its name and its parts of deployments" }),
    member && action("Rename", () => rename(board)),
    all && member && online && action("Identify", () => post(path(board, "identify")), { title: "the board blinks or says who it is" }),
    all && member && online && action("Restart", () => ask({ title: `Restart ${board.name}?`, confirm: "Restart", call: () => post(path(board, "reboot")),
      text: board.in_use ? "A deployment uses this board: it does not answer until the board is back." : "No deployment uses this board." })),
    board.state !== "revoked" && action("Revoke", () => revoke(board), { class: "danger" }),
    (board.state === "revoked" || (!online && !board.in_use)) && action("Forget", () => remove(board), { class: "danger" }),
  ];
}

export function identity(board) {
  return facts(
    ["id", el("code", {}, board.id)],
    ["kind", board.hello ? `${board.hello.kind}, ${Math.round(board.hello.clock_hz / 1e6)} MHz` : board.kind],
    ["firmware", board.hello?.firmware],
    ["last start", board.hello?.reset_reason],
    ["address", board.address],
    ["certificate until", board.certificate_until_at && new Date(board.certificate_until_at).toLocaleDateString()],
    ["joined", board.created_at && new Date(board.created_at).toLocaleString()],
    ["flash erases by", board.hello && `${number(board.hello.flash_erase_bytes)} B`]);
}
