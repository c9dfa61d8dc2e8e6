// A deployment's plan (GET /deployments/{id}/plan) made readable: who makes which part of each operator's output, what
// travels between whom, and what the plan predicts. A plan's records are arrays of numbers, in the order of server/plan.
import { get } from "./api.js";

const TASK = 0;
const SEND = 2;
const POST = 3;
const WIRE_BYTES = [1, 3, 4]; // 8-bit values, 24- and 32-bit partial sums

export const volume = (box) => (box[1] - box[0]) * (box[3] - box[2]) * (box[5] - box[4]);

/** A box in words: rows, columns and channels, ends left out of the range as everywhere. */
export function boxText(box) {
  const range = (name, lo, hi) => (hi - lo === 1 ? `${name} ${lo}` : `${name}s ${lo}–${hi - 1}`);
  return [range("row", box[0], box[1]), range("column", box[2], box[3]), range("channel", box[4], box[5])].join(", ");
}

export const boxesText = (boxes) =>
  boxes.slice(0, 3).map(boxText).join("; ") + (boxes.length > 3 ? `; and ${boxes.length - 3} more boxes` : "");

const FUSED = new Set(["BatchNorm", "FusedBatchNorm", "FusedBatchNormV3", "batch_norm", "Relu", "Relu6", "relu", "relu6", "Conv2D", "BiasAdd", "MatMul"]);

/** Converters name a layer by all that was fused into it: of the first path the last two steps that tell most. As `shoal schedule`. */
export function layerShort(name) {
  const parts = (name ?? "").split(";")[0].split("/");
  while (parts.length > 1 && (FUSED.has(parts.at(-1)) || parts.at(-1) === parts.at(-2))) parts.pop();
  return parts.slice(-2).join("/") || name;
}

/** One board's steps: boxes of each operator, and at which operator each transfer leaves or arrives. */
function readParty(party, left, arrived) {
  const boxes = new Map();
  let last = -1;
  for (const step of party.steps) {
    const [kind, , op] = step;
    if (kind === TASK) {
      last = op;
      if (!boxes.has(op)) boxes.set(op, []);
      boxes.get(op).push(step.slice(10, 16));
    } else if (kind === SEND) left.set(step[8], last);
    else if (kind === POST) arrived.set(step[8], op);
  }
  return boxes;
}

/**
 * {boards: [{id, name, used, boxes: Map(op -> boxes), times}], moves: [{from, to, fromOp, toOp, bytes, box}],
 *  segments: [{first_op, last_op, times}], plan}. Party 0 is the server; operator -1 the graph's start or end.
 */
export function readPlan(plan) {
  const left = new Map();
  const arrived = new Map();
  const boards = plan.parties.map((party, b) => ({
    id: plan.boards[b].id, name: plan.boards[b].name, used: party.used, party: b + 1, boxes: readParty(party, left, arrived),
  }));
  const moves = plan.transfers.map(([, exchange, , from, to, wire, ...box], i) => ({
    exchange, from, to, box, bytes: volume(box) * (WIRE_BYTES[wire] ?? 1),
    fromOp: left.get(i) ?? -1, toOp: arrived.get(i) ?? -1,
  }));
  return { boards, moves, segments: plan.segments, plan };
}

const MODES = ["full", "channels", "rows", "patches"];

/** Bytes of activations in use on a board at one of its steps: of buffers made in the place of another one counts. */
function inUse(party, step, tensors) {
  const counted = new Set();
  let sum = 0;
  for (const [tensor, elem, offset, size, first, last] of party.buffers) {
    if (elem !== 1 || tensor >= tensors || first > step || last < step || counted.has(offset)) continue;
    counted.add(offset);
    sum += size;
  }
  return sum;
}

/** A step of a board's program: [numbers, operators], and what the plan says beside: [numbers, inner steps]. */
function programStep([[mode, k, tile_h, tile_w, again, peak_bytes], ops], form, name) {
  const [extra_macs = 0, free, flags, turns, down, across, into, out, lo, hi] = form?.[0] ?? [];
  return { mode: MODES[mode], layers: ops, ops: ops.map(name), k: k || null, tile: tile_h ? [tile_h, tile_w] : null, again, peak_bytes,
    extra_macs, free: Boolean(free), rings: (flags & 1) > 0, along: MODES[mode] === "rows" || flags & 1 ? (flags & 2 ? "w" : "h") : null, turns: turns || null,
    patches: down ? [down, across] : null, rows: into ? [into, out] : null, ring_rows: hi ? [lo, hi] : null,
    inner: (form?.[1] ?? []).map(([record, numbers]) => programStep(record, [numbers, []], name)) };
}

/**
 * What a board (its place in the plan's list) runs, in order: [{mode, layers, ops, k, tile, again, peak_bytes, note}]. A
 * plan says it where the board runs parts of tensors; else it runs its part of one operator after another.
 */
export function scheduleOf(view, b, layers) {
  const party = view.plan.parties[b];
  const name = (op) => layers[op]?.name ?? `layer ${op}`;
  if (party.program) return party.program.steps.map((record, i) => programStep(record, view.plan.forms?.[b]?.[i], name));
  const rows = [];
  const tensors = Math.max(0, ...layers.flatMap((layer) => [layer.output.tensor, ...layer.inputs.map((input) => input.tensor)])) + 1;
  // What is in use while data moves counts for the operator that it moves for: the next one.
  let moving = 0;
  party.steps.forEach((step, i) => {
    const [kind, , op] = step;
    moving = Math.max(moving, inUse(party, i, tensors));
    if (kind !== TASK) return;
    if (rows.at(-1)?.layers[0] !== op) rows.push({ mode: "full", layers: [op], ops: [name(op)], k: null, tile: null, again: 0, peak_bytes: 0, made: 0 });
    const row = rows.at(-1);
    row.peak_bytes = Math.max(row.peak_bytes, moving);
    moving = 0;
    row.made += volume(step.slice(10, 16));
    const part = row.made / layers[op].output.dims.reduce((all, n) => all * n, 1);
    row.note = part > 0.9995 ? "" : `${(part * 100).toFixed(1)} % of its output`;
  });
  if (rows.length) rows.at(-1).peak_bytes = Math.max(rows.at(-1).peak_bytes, moving);
  return rows;
}

function overlap(a, b) {
  let n = 1;
  for (const i of [0, 2, 4]) n *= Math.max(0, Math.min(a[i + 1], b[i + 1]) - Math.max(a[i], b[i]));
  return n;
}

/**
 * What goes from board to board. The plan's moves all go through the server: a board's data reaches those whose boxes of
 * the same exchange overlap with what it sent. [{exchange, from, to, fromOp, toOp}], one for each pair of boards.
 */
export function exchangesOf(view) {
  const all = new Map();
  for (const move of view.moves) {
    if (!all.has(move.exchange)) all.set(move.exchange, { sent: [], got: [] });
    const exchange = all.get(move.exchange);
    if (move.to === 0) exchange.sent.push(move);
    else if (move.from === 0) exchange.got.push(move);
    else exchange.sent.push(move) && exchange.got.push(move);
  }
  const found = new Map();
  for (const [id, { sent, got }] of all) {
    for (const a of sent) {
      for (const b of got) {
        const key = `${id}:${a.from}:${b.to}`;
        if (a.from !== b.to && !found.has(key) && overlap(a.box, b.box))
          found.set(key, { exchange: id, from: a.from, to: b.to, fromOp: a.fromOp, toOp: b.toOp });
      }
    }
  }
  return [...found.values()];
}

const plans = new Map();

/** The plan of a deployment's generation; kept, since a plan never changes. */
export async function planOf(deployment, generation) {
  const key = `${deployment}/${generation}`;
  if (!plans.has(key)) {
    plans.set(key, get(`deployments/${encodeURIComponent(deployment)}/plan`).then(readPlan));
    plans.get(key).catch(() => plans.delete(key));
    if (plans.size > 8) plans.delete(plans.keys().next().value);
  }
  return plans.get(key);
}

/** The operators of a version: [{index, name, op, output: {dims}, macs}]. */
export async function layersOf(model, version) {
  const path = `models/${encodeURIComponent(model)}/versions/${encodeURIComponent(version)}/layers`;
  return (await get(path)).items;
}
