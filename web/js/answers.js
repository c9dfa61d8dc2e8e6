// What a model answered: labels with bars, who made it and how long it took, and the time line of that inference.
import { get } from "./api.js";
import { bytes, el, facts, meter, ms, number, short } from "./dom.js";
import { gantt } from "./gantt.js";
import { layersOf, planOf } from "./planview.js";

/** Scores of a softmax are parts of one; other models answer numbers of any size. */
const parts = (items) => items.every((item) => item.score >= 0 && item.score <= 1.001);
export const nameOf = (item) => item.label ?? String(item.index);
export const scoreText = (score, part) => (part ? `${(score * 100).toFixed(1)} %` : number(Number(score.toPrecision(4))));

function bars(items) {
  const part = parts(items);
  const most = part ? 1 : Math.max(...items.map((item) => Math.abs(item.score)), 1e-9);
  return el("ol", { class: "scores" }, items.map((item, i) => el("li", { class: i ? "" : "best" },
    el("span", { class: "score-name" }, nameOf(item)), meter(Math.max(0, item.score) / most, `${nameOf(item)}: ${scoreText(item.score, part)}`),
    el("span", { class: "score" }, scoreText(item.score, part)))));
}

/** The chart of one inference, with boxes and exchanges where its plan is still that of the deployment. */
async function timeline({ inference: id, deployment, generation }) {
  const inference = await get(`inferences/${id}`);
  if (!inference.timeline.some((board) => board.segments?.length)) throw new Error("No time line was recorded.");
  const [view, layers] = await Promise.all([planOf(deployment, generation).catch(() => null), layersOf(inference.model, inference.version).catch(() => null)]);
  const { element, end } = gantt(inference, view, layers);
  return { element: el("div", {}, element, el("p", { class: "faint" }, `${bytes(inference.bytes_moved)} moved. `, el("a", { href: `#/inferences/${id}` }, "This inference, board by board"))), end };
}

/** `answer` as classify gives it: {element, time, end}; `time` fills itself with the time line. */
export function answerView(answer) {
  const [best] = answer.labels;
  const chart = el("div", {}, el("p", { class: "faint" }, "fetching the time line …"));
  let ended = false;
  let over = () => undefined;
  timeline(answer).then(({ element, end }) => {
    if (ended) return end();
    over = end;
    chart.replaceChildren(element);
  }).catch((error) => chart.replaceChildren(el("p", { class: "faint" }, error.line ?? error.message)));
  return {
    element: el("div", { class: "answered" },
      el("p", { class: "verdict-big" }, nameOf(best), el("span", { class: "faint" }, ` in ${ms(answer.latency_ms)}`)),
      bars(answer.labels),
      best.label == null && el("p", { class: "faint" }, "This model has no labels: numbers are places in its output. ", el("a", { href: `#/models/${encodeURIComponent(answer.model)}` }, "Add labels")),
      facts(["version", el("code", {}, short(answer.version))],
        ["deployment", el("a", { href: `#/deployments/${answer.deployment}` }, `generation ${answer.generation}`)],
        ["inference", el("a", { href: `#/inferences/${answer.inference}` }, el("code", {}, answer.inference))])),
    time: el("section", { class: "answer-time" }, el("h2", {}, "Where the time of this inference went"), chart),
    end: () => {
      ended = true;
      over();
    },
  };
}

const real = (value, quant) => (quant ? quant.scale * (value - quant.zero_point) : value);

/** `answer` of the inference protocol, `version` with labels as the dashboard knows it. */
export function tensorView(answer, version, labels) {
  const quants = version.summary.outputs.map((output) => output.quantisation);
  const items = answer.outputs[0].data.map((value, index) => ({ index, label: labels[index], score: real(value, quants[0]) }))
    .sort((a, b) => b.score - a.score).slice(0, 5);
  const view = answerView({ ...answer.parameters, model: answer.model_name, labels: items });
  view.element.append(el("details", {}, el("summary", {}, "The raw tensors"), answer.outputs.map((output) =>
    el("p", {}, `${output.name}, ${output.shape.join("×")} ${output.datatype}: `,
      el("code", {}, output.data.slice(0, 400).join(" ")), output.data.length > 400 && ` and ${number(output.data.length - 400)} more`))));
  return view;
}
