// Boards: one card each, with what the board said of itself and what was measured.
import { post } from "../js/api.js";
import { action, age, bytes, el, facts, list, meter, state } from "../js/dom.js";
import { live, subscribe } from "../js/live.js";

const LOOK = { online: "good", stale: "warn", offline: "bad" };

function memory(board) {
  return (board.hello?.regions ?? []).map((region) => {
    if (region.name !== "arena") return [region.name, bytes(region.bytes)];
    const used = board.arena_high_water_bytes ?? region.high_water_bytes;
    const text = `${bytes(used)} of ${bytes(region.bytes)}`;
    return ["arena, most used", el("span", {}, text, meter(used / region.bytes, `arena: ${text}`))];
  });
}

function flash(board) {
  const total = board.hello?.flash_bytes;
  if (!total || board.flash_used_bytes == null) return [];
  const text = `${bytes(board.flash_used_bytes)} of ${bytes(total)}`;
  return [["flash", el("span", {}, text, meter(board.flash_used_bytes / total, `flash: ${text}`))]];
}

function card(board) {
    const rating = board.rating;
  return el("article", { class: "card" },
    el("div", { class: "head" }, el("h2", {}, el("a", { href: `#/boards/${board.id}` }, board.name)),
      state(board.link, LOOK[board.link] ?? "bad")),
    facts(
      ["state", board.state === "accepted" ? null : board.state],
      ["since", board.since_at ? [age(board.since_at), ` ago${board.reason ? `, ${board.reason}` : ""}`] : "never seen"],
      ["kind", board.hello ? `${board.hello.kind}, ${Math.round(board.hello.clock_hz / 1e6)} MHz` : board.kind],
      ...memory(board), ...flash(board),
      ["rating", rating ? `${rating.rating_kb_per_s.toFixed(1)} KB/s` : "not measured yet"],
      ["link", rating ? `${Math.round(rating.bandwidth_kb_per_s)} KB/s, ${rating.message_latency_ms.toFixed(2)} ms a message` : null],
      ["drained", board.drained ? "yes: new plans leave it out" : null]),
    el("div", { class: "actions" },
      board.state === "pending" && action("Accept", () => post(`boards/${board.id}/accept`)),
      board.state === "accepted" && board.link === "online" && action("Measure", () => post(`boards/${board.id}/probe`))));
}

function enrol(box) {
  return action("Enrol a board", async () => {
    const code = await post("enrolments", { accept: true });
    box.replaceChildren(
      el("p", {}, "Start the board with this line. The code is good once, until ", new Date(code.expires_at).toLocaleTimeString(), "."),
      el("code", {}, code.command), code.warning && el("p", { class: "warn" }, code.warning));
    box.hidden = false;
  });
}

const byName = (a, b) => a.name.localeCompare(b.name);

export function show(container) {
  const box = el("div", { class: "note", hidden: true });
  const cards = el("div", { class: "rows" });
  container.append(el("div", { class: "bar" }, el("h1", {}, "Boards"), enrol(box)), box, cards);
  const draw = list(cards, {
    render: card,
    empty: "No boards yet. Press “Enrol a board” for a code, then start shoal-board with it.",
  });
  return subscribe(["boards"], () => draw([...live.boards.values()].sort(byName)));
}
