// A model's schedule on one board: the controls that ask the server for one (POST /api/v1/schedules), what it says, what
// stands in the way of less. Nothing is worked out here but words.
import { post } from "./api.js";
import { comparison } from "./compare.js";
import { bytes, el, facts, meter, ms, number, state } from "./dom.js";
import { layerShort } from "./planview.js";
import { settled } from "./parts.js";
import { how, ranges, stepTable } from "./steps.js";

// ---- what a schedule says ----

const ROLES = { input: "read by the step", live: "waits for a later step", output: "what the step makes", sums: "what the step makes, as sums",
  part: "the channels of one turn", patch: "making one patch", step: "output and rows as they pass" };
const role = ({ role: name, rows, along }) => (rows ? `ring: ${rows[0]} of ${rows[1]} ${along === "w" ? "columns" : "rows"}` : ROLES[name] ?? name);

/** Which steps reach the peak, and what the others take: more than that is not to be gained from these alone. */
function reaching({ steps, peak_bytes }, macs) {
  const at = steps.flatMap((step, i) => (step.peak_bytes === peak_bytes ? [i + 1] : []));
  const rest = Math.max(0, ...steps.map((step) => step.peak_bytes).filter((one) => one < peak_bytes));
  const first = steps[at[0] - 1];
  const near = bytes(rest) === bytes(peak_bytes) ? `${number(rest)} of ${number(peak_bytes)} bytes` : bytes(rest);
  return el("p", {}, at.length === 1 ? `Step ${at[0]} needs the most` : `Steps ${ranges(at)} need the most, step ${at[0]} first`,
    ` (layer${first.layers.length === 1 ? "" : "s"} ${ranges(first.layers)}: ${how(first, macs)}). `,
    rest > 0 && ["All others need at most ", el("b", {}, near), ". "]);
}

function bottleneck({ bottleneck: { op, bytes: all, tensors }, partial, macs }) {
  const most = Math.max(...tensors.map((tensor) => tensor.bytes));
  return el("div", {}, el("h3", {}, "The bottleneck"), reaching(partial, macs),
    el("p", {}, el("b", {}, bytes(all)), " are in use when it makes ", el("b", { title: op }, layerShort(op)), ":"),
    el("ul", { class: "plain tensors" }, tensors.map((tensor) => el("li", {},
      el("span", { class: "clip", title: tensor.name }, layerShort(tensor.name)), el("span", { class: "small" }, role(tensor)),
      el("span", { class: "number" }, bytes(tensor.bytes)), meter(tensor.bytes / most, `${tensor.name}: ${bytes(tensor.bytes)}`)))));
}

function figures(schedule) {
  const { ordinary, partial, macs } = schedule;
  const times = ordinary.peak_bytes / partial.peak_bytes;
  const extra = macs ? (partial.extra_macs / macs) * 100 : 0;
  return facts(
    ["peak", [el("b", {}, bytes(partial.peak_bytes)), times > 1.005 ? `, ${times.toFixed(1)} times less than ${bytes(ordinary.peak_bytes)} operator by operator in the best order` : `, as operator by operator in the best order (${bytes(ordinary.peak_bytes)})`]],
    ["packed", partial.arena_bytes == null ? "no program says this schedule" : `${bytes(partial.arena_bytes)} of arena, with ${bytes(partial.scratch_bytes)} of kernels' scratch`],
    ["extra work", partial.extra_macs > 0 ? `${number(partial.extra_macs)} multiply-adds, ${extra.toFixed(1)} %` : "none"],
    ["predicted", partial.predicted_ms == null ? null : `${ms(partial.predicted_ms)} on a Teensy 4.1, ${ms(ordinary.predicted_ms)} operator by operator`],
    ["runs", schedule.executable ? [state("as it is, bit-exact", "good"), schedule.options.image === "streamed" && "; deployments have their input whole for now"] : [state("not on boards", "warn"), ` ${schedule.why_not_executable}`]],
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

const select = (...options) => el("select", {}, options.map(([value, text]) => el("option", { value }, text)));

/**
 * The schedule of a version on one board, with what it may be made of. `found(schedule or null)` is told each answer.
 * It asks first when it comes into sight: a large network takes the server some seconds.
 */
export function schedulePanel(version, found) {
  const axes = select(["all", "rows, channels, patches"], ["channels", "channels"], ["rows", "rows"]);
  const accumulator = select([32, "32 bits: exact"], [16, "16 bits: not exact"], [8, "8 bits: not exact"]);
  const extra = el("input", { type: "number", min: 0, max: 1000, step: 1, value: 0, class: "few" });
  const image = select(["counted", "in memory"], ["streamed", "arrives by rows"]);
  const ram = el("input", { placeholder: "least", size: 8, autocomplete: "off" });
  const answer = el("div", { class: "answer", "aria-live": "polite" }, el("p", { class: "faint" }, "The schedule is asked for when this comes into sight."));
  const field = (name, input) => el("label", { class: "field" }, name, input);
  let turn = 0;
  let seen = ""; // the request whose answer is shown

  const usual = { axes: "all", accumulator: 32, extra_macs: 0, image: "counted" };
  const wanted = (choices) => ({ model: version.model, version: version.version, ...usual, ...choices });
  function request() {
    const limit = bytesOf(ram.value);
    return wanted({ axes: axes.value, accumulator: Number(accumulator.value), extra_macs: Number(extra.value), image: image.value, ...(limit ? { ram: limit } : {}) });
  }
  function choose(choices) {
    const all = { ...usual, ...choices };
    axes.value = all.axes;
    accumulator.value = all.accumulator;
    extra.value = all.extra_macs;
    image.value = all.image;
    ram.value = "";
    run();
    answer.scrollIntoView({ block: "nearest" });
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
      const body = request();
      const schedule = await ask(body);
      if (mine !== turn) return;
      seen = JSON.stringify(body);
      const { steps, peak_bytes } = schedule.partial;
      answer.replaceChildren(el("div", { class: "pair" }, el("div", {}, el("h3", {}, "On one board"), figures(schedule)), bottleneck(schedule)),
        el("details", {}, el("summary", {}, `The schedule: ${steps.length} step${steps.length === 1 ? "" : "s"}`), stepTable(steps, peak_bytes, "steps of the schedule", schedule.macs)));
      found(schedule);
    } catch (error) {
      if (mine !== turn) return;
      seen = "";
      answer.replaceChildren(...refused(error).filter(Boolean));
      found(null);
    }
    answer.classList.remove("asking");
    ways.mark();
  }
  const later = settled(run, 300);
  for (const input of [axes, accumulator, image]) input.addEventListener("change", run);
  for (const input of [extra, ram]) input.addEventListener("input", later);
  const ways = comparison((choices) => ask(wanted(choices)), choose, (choices) => seen === JSON.stringify(wanted(choices)));
  const element = el("div", {},
    ways.element,
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
