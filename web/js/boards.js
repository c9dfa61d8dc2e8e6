// Boards: one card each, with what the board said of itself and what was measured.
import { post } from "./api.js";
import { age, bytes, el, facts, fill, meter } from "./dom.js";

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

function action(board, name, text, failed) {
  return el("button", {
    type: "button",
    onclick: async (event) => {
      event.target.disabled = true;
      try {
        await post(`boards/${board.id}/${name}`);
      } catch (error) {
        failed(error.message);
      }
      event.target.disabled = false;
    },
  }, text);
}

function card(board, failed) {
  const since = age(board.since_at);
  const rating = board.rating;
  return el("article", { class: "card" },
    el("div", { class: "head" }, el("h3", {}, board.name),
      el("span", { class: `state ${LOOK[board.link] ?? "bad"}` }, board.link)),
    facts(
      ["state", board.state === "accepted" ? null : board.state],
      ["since", since ? `${since} ago${board.reason ? `, ${board.reason}` : ""}` : "never seen"],
      ["kind", board.hello ? `${board.hello.kind}, ${Math.round(board.hello.clock_hz / 1e6)} MHz` : board.kind],
      ...memory(board), ...flash(board),
      ["rating", rating ? `${rating.rating_kb_per_s.toFixed(1)} KB/s` : "not measured yet"],
      ["link", rating ? `${Math.round(rating.bandwidth_kb_per_s)} KB/s, ${rating.message_latency_ms.toFixed(2)} ms a message` : null],
      ["drained", board.drained ? "yes: new plans leave it out" : null]),
    el("div", { class: "actions" },
      board.state === "pending" && action(board, "accept", "Accept", failed),
      board.state === "accepted" && board.link === "online" && action(board, "probe", "Measure", failed)));
}

export function showBoards(container, boards, failed) {
  fill(container, boards.map((board) => card(board, failed)),
    "No boards yet. Press “Enrol a board” for a code, then start shoal-board with it.");
}
