// Schedules of partial execution: what one board runs in which order, as a table; and the controls that ask the server
// for one (POST /api/v1/schedules). Nothing is worked out here but words.
import { post } from "./api.js";
import { bytes, el, facts, list, meter, ms, number, state } from "./dom.js";
import { layerShort } from "./planview.js";
import { settled } from "./parts.js";

/** How a step runs, in words. */
export function how(step) {
  if (step.mode === "channels") return `${step.k} channel${step.k === 1 ? "" : "s"} at a time`;
  if (step.mode === "rows") return "row by row";
  if (step.mode === "patches") return step.tile ? `in tiles of ${step.tile.join("×")}` : "in tiles";
  return "whole";
}

/** "4–9, 12" of layer numbers in order. */
export function ranges(layers) {
  const out = [];
  for (const layer of [...layers].sort((a, b) => a - b)) {
    const last = out.at(-1);
    if (last && layer === last[1] + 1) last[1] = layer;
    else out.push([layer, layer]);
  }
  return out.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
}

function names(step) {
  const [first, last] = [layerShort(step.ops[0]), layerShort(step.ops.at(-1))];
  return el("span", { class: "clip", title: step.ops.join(", ") }, step.ops.length === 1 ? first : `${first} … ${last}`);
}

/** The steps as a table, peaks as bars of `most`. */
export function stepTable(steps, most, label) {
  const timed = steps.some((step) => step.predicted_ms != null);
  const peak = Math.max(...steps.map((step) => step.peak_bytes));
  const heads = [["step", true], ["layers", true], ["from … to"], ["how"], ["in use"], ...(timed ? [["predicted", true]] : [])];
  const body = el("tbody");
  const draw = list(body, { key: (row) => row.i, size: 100, empty: "It runs nothing.", render: ({ step, i }) => el("tr", {},
    el("td", { class: "number" }, i + 1), el("td", { class: "number" }, ranges(step.layers)), el("td", {}, names(step)),
    el("td", {}, how(step), step.again > 0 && el("span", { class: "small" }, `layers ${ranges(step.layers.slice(0, step.again))} run once more later`),
      step.note && el("span", { class: "small" }, step.note)),
    el("td", { class: "metered" }, bytes(step.peak_bytes), step.peak_bytes === peak && el("b", {}, " peak"), meter(step.peak_bytes / most, `${bytes(step.peak_bytes)} of ${bytes(most)}`)),
    timed && el("td", { class: "number" }, ms(step.predicted_ms))) });
  draw(steps.map((step, i) => ({ step, i })));
  return el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": label }, el("table", { class: "stack steps-table" },
    el("thead", {}, el("tr", {}, heads.map(([head, right]) => el("th", { scope: "col", class: right ? "number" : false }, head)))), body));
}

// ---- what a schedule says ----

const ROLES = { input: "read by it", live: "kept for later", step: "made by it: output, rings, parts, sums" };

function bottleneck({ op, bytes: all, tensors }) {
  const most = Math.max(...tensors.map((tensor) => tensor.bytes));
  return el("div", {}, el("h3", {}, "The bottleneck"),
    el("p", {}, "At ", el("b", { title: op }, layerShort(op)), ` ${bytes(all)} are in use:`),
    el("ul", { class: "plain tensors" }, tensors.map((tensor) => el("li", {},
      el("span", { class: "clip", title: tensor.name }, layerShort(tensor.name)), el("span", { class: "small" }, ROLES[tensor.role] ?? tensor.role),
      el("span", { class: "number" }, bytes(tensor.bytes)), meter(tensor.bytes / most, `${tensor.name}: ${bytes(tensor.bytes)}`)))));
}

function figures(schedule) {
  const { ordinary, partial, macs } = schedule;
  const times = ordinary.peak_bytes / partial.peak_bytes;
  const extra = macs ? (partial.extra_macs / macs) * 100 : 0;
  return facts(
    ["peak", [el("b", {}, bytes(partial.peak_bytes)), times > 1.005 ? `, ${times.toFixed(1)} times less than ${bytes(ordinary.peak_bytes)} operator by operator in the best order` : `, as operator by operator in the best order (${bytes(ordinary.peak_bytes)})`]],
    ["packed", partial.arena_bytes == null ? "no program says this schedule" : `${bytes(partial.arena_bytes)} of arena, ${bytes(partial.scratch_bytes)} of it scratch of kernels`],
    ["extra work", partial.extra_macs ? `${number(partial.extra_macs)} multiply-adds, ${extra.toFixed(1)} %` : "none"],
    ["predicted", partial.predicted_ms == null ? null : `${ms(partial.predicted_ms)} on a Teensy 4.1, ${ms(ordinary.predicted_ms)} operator by operator`],
    ["runs", schedule.executable ? state("as it is, bit-exact", "good") : [state("not on boards", "warn"), ` ${schedule.why_not_executable}`]],
    ["search", schedule.exhaustive ? "all schedules of these kinds were looked at" : "not all schedules were looked at: the graph is too wide"]);
}

// ---- asking for one ----

/** "64K" or "65536" as bytes; null: empty. */
export function bytesOf(text) {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([KM]?)i?B?\s*$/i.exec(text);
  if (!text.trim()) return null;
  if (!found) throw new Error(`“${text}” is no size: write 65536, 64K or 1M`);
  return Math.round(Number(found[1]) * { "": 1, K: 1024, M: 1048576 }[found[2].toUpperCase()]);
}

const asked = new Map(); // answers by request: schedules do not change

function ask(request) {
  const key = JSON.stringify(request);
  if (!asked.has(key)) {
    asked.set(key, post("schedules", request));
    asked.get(key).catch(() => asked.delete(key));
    if (asked.size > 24) asked.delete(asked.keys().next().value);
  }
  return asked.get(key);
}

const choose = (...options) => el("select", {}, options.map(([value, text]) => el("option", { value }, text)));

/**
 * The schedule of a version on one board, with what it may be made of. `found(schedule or null)` is told each answer.
 * It asks first when it comes into sight: a large network takes the server some seconds.
 */
export function schedulePanel(version, found) {
  const axes = choose(["all", "rows, channels, tiles"], ["channels", "channels"], ["rows", "rows"]);
  const accumulator = choose([32, "32 bits: exact"], [16, "16 bits: not exact"], [8, "8 bits: not exact"]);
  const extra = el("input", { type: "number", min: 0, max: 1000, step: 1, value: 0, class: "few" });
  const image = choose(["counted", "in memory"], ["streamed", "arrives by rows"]);
  const ram = el("input", { placeholder: "least", size: 8, autocomplete: "off" });
  const answer = el("div", { class: "answer", "aria-live": "polite" }, el("p", { class: "faint" }, "The schedule is asked for when this comes into sight."));
  const field = (name, input) => el("label", { class: "field" }, name, input);
  let turn = 0;

  function request() {
    const body = { model: version.model, version: version.version, axes: axes.value, accumulator: Number(accumulator.value), extra_macs: Number(extra.value), image: image.value };
    const limit = bytesOf(ram.value);
    return limit ? { ...body, ram: limit } : body;
  }
  function refused(error) {
    const { need_bytes, have_bytes } = error.detail ?? {};
    return [el("p", { class: "verdict" }, state("no such schedule", "bad"), ` ${error.line ?? error.message}`),
      need_bytes != null && el("p", {}, `The least that was found needs ${bytes(need_bytes)} (${number(need_bytes)} bytes); the limit is ${bytes(have_bytes)}.`)];
  }
  async function run() {
    const mine = ++turn;
    answer.classList.add("asking");
    try {
      const schedule = await ask(request());
      if (mine !== turn) return;
      const { steps, peak_bytes } = schedule.partial;
      answer.replaceChildren(el("div", { class: "pair" }, el("div", {}, el("h3", {}, "On one board"), figures(schedule)), bottleneck(schedule.bottleneck)),
        el("details", {}, el("summary", {}, `The schedule: ${steps.length} step${steps.length === 1 ? "" : "s"}`), stepTable(steps, peak_bytes, "steps of the schedule")));
      found(schedule);
    } catch (error) {
      if (mine !== turn) return;
      answer.replaceChildren(...refused(error).filter(Boolean));
      found(null);
    }
    answer.classList.remove("asking");
  }
  const later = settled(run, 300);
  for (const input of [axes, accumulator, image]) input.addEventListener("change", run);
  for (const input of [extra, ram]) input.addEventListener("input", later);
  const element = el("div", {},
    el("div", { class: "choices" }, field("Parts of tensors by", axes), field("Extra multiply-adds, %", extra), field("The image", image), field("Memory limit", ram), field("Partial sums", accumulator)),
    answer);
  const sight = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    sight.disconnect();
    run();
  }, { rootMargin: "200px" });
  sight.observe(element);
  return {
    element,
    end() {
      sight.disconnect();
      later.cancel();
      turn++;
    },
  };
}
