// Predicted beside measured, segment by segment: what the plan expects and what the last inferences took.
import { el, ms } from "./dom.js";
import { layerShort } from "./planview.js";

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : null;
};

/** When each segment has ended on all boards, as the plan has it; from that how long each took. */
function predicted(view) {
  let before = 0;
  return view.segments.map((segment) => {
    const end = Math.max(...segment.times.map(([start, computing]) => start + computing));
    const took = Math.max(0, end - before);
    before = Math.max(before, end);
    return took;
  });
}

/** The same of one inference: its boards' layers put together to the plan's segments. */
function measured(view, inference) {
  let before = 0;
  return view.segments.map((segment) => {
    const ends = inference.timeline.flatMap((board) => (board.segments ?? []).filter((one) => one.op >= segment.first_op && one.op <= segment.last_op)
      .map((one) => one.start_ms + one.computing_ms + one.waiting_ms + one.moving_ms));
    const end = Math.max(before, ...ends);
    const took = end - before;
    before = end;
    return took;
  });
}

/** Rows {segment, name, predicted, measured} of a plan and some inferences of it (with segments). */
export function compare(view, inferences, layers) {
  const expect = predicted(view);
  const took = inferences.map((inference) => measured(view, inference));
  return view.segments.map((segment, s) => ({
    id: s, first: segment.first_op, last: segment.last_op,
    name: segment.first_op === segment.last_op ? layerShort(layers[segment.first_op]?.name)
      : `${layerShort(layers[segment.first_op]?.name)} to ${layerShort(layers[segment.last_op]?.name)}`,
    op: layers[segment.first_op]?.op ?? "",
    predicted: expect[s], measured: median(took.map((one) => one[s])),
  }));
}

/** Two bars over one another, both on the scale of the longest. */
export function pairRow(row, most, bar) {
  const times = row.measured == null || row.predicted <= 0 ? "" : `× ${(row.measured / row.predicted).toFixed(row.measured / row.predicted < 10 ? 1 : 0)}`;
  return el("tr", {},
    el("td", { class: "number" }, row.first === row.last ? row.first : `${row.first}–${row.last}`),
    el("td", {}, row.op), el("td", { class: "name" }, row.name),
    el("td", { class: "number" }, ms(row.predicted)), el("td", { class: "number" }, ms(row.measured) ?? "–"), el("td", { class: "number" }, times),
    el("td", { class: "wide" }, bar(row.predicted / most, "predicted", ms(row.predicted)), row.measured != null && bar(row.measured / most, "measured", ms(row.measured))));
}
