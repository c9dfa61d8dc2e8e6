// The one picture of where a board's time went: computing, waiting, moving.
import { el, ms, svg } from "./dom.js";

export const KINDS = ["computing", "waiting", "moving"];

export function splitBar(board) {
  const total = KINDS.reduce((sum, kind) => sum + board[`${kind}_ms`], 0) || 1;
  const text = `${board.name}: ${KINDS.map((kind) => `${kind} ${ms(board[`${kind}_ms`])}`).join(", ")}`;
  let x = 0;
  const bars = KINDS.map((kind) => {
    const width = (board[`${kind}_ms`] / total) * 100;
    x += width;
    return svg("rect", { class: kind, x: x - width, width, height: 1 });
  });
  return svg("svg", { class: "split", viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img", "aria-label": text },
    svg("title", {}, text), bars);
}

const MOST_BARS = 4;

/** A bar for each board; of many boards one of their sums, so that a row of a table stays a row. */
export function splitBars(boards) {
  if (boards.length <= MOST_BARS) return boards.map(splitBar);
  const sum = { name: `${boards.length} boards together` };
  for (const kind of KINDS) sum[`${kind}_ms`] = boards.reduce((total, board) => total + board[`${kind}_ms`], 0);
  return [splitBar(sum)];
}

export function splitKey() {
  return KINDS.map((kind) => [el("span", { class: `key ${kind}` }), kind]);
}
