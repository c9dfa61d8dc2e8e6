// One deployment: its state board by board with the push, who holds which part of each layer, predicted beside measured,
// how it came to its state, what was asked of it last.
import { get } from "../js/api.js";
import { age, bytes, el, facts, list, meter, ms, number, short, state, svg } from "../js/dom.js";
import { acts } from "../js/deployview.js";
import { compare, pairRow } from "../js/drift.js";
import { heatMap } from "../js/heat.js";
import { live, subscribe } from "../js/live.js";
import { layersOf, planOf, scheduleOf } from "../js/planview.js";
import { stepTable } from "../js/steps.js";
import { splitBars } from "../js/split.js";
import { boardLink, deploymentSince, deploymentState, modelLink } from "../js/words.js";

const MEASURE = 5; // inferences whose median stands beside the prediction
const MEASURE_MS = 10000;
const BUSY_MS = 500;
const BUSY = new Set(["planning", "pushing", "verifying"]);
const OVER = new Set(["retired", "cancelled", "failed"]);

function partRow(part) {
  const full = part.fragment_bytes || 1;
  const text = part.state === "pushing" ? `pushing, ${bytes(part.stored_bytes)} of ${bytes(full)}` : part.state === "unused" ? "no part in this plan" : part.state;
  return el("tr", {},
    el("td", {}, boardLink({ id: part.board, name: part.name })),
    el("td", {}, part.online ? state("online", "good") : state("not reached", "bad")),
    el("td", { class: "wide" }, text, part.state !== "unused" && meter(part.stored_bytes / full, `${part.name}: ${text}`)),
    el("td", {}, part.fragment ? el("code", { title: part.fragment }, short(part.fragment)) : "–"),
    el("td", { class: "number" }, bytes(part.fragment_bytes)), el("td", { class: "number" }, bytes(part.peak_bytes) ?? "–"),
    el("td", { class: "number" }, bytes(part.arena_bytes) ?? "–"), el("td", { class: "number" }, bytes(part.resident_bytes) ?? "–"));
}

const eventRow = (event) => el("tr", {}, el("td", {}, new Date(event.at).toLocaleString()), el("td", {}, deploymentState(event)),
  el("td", { class: "number" }, event.generation), el("td", { class: "name" }, event.reason), el("td", {}, event.actor));

const inferenceRow = (inference) => el("tr", {}, el("td", {}, el("a", { href: `#/inferences/${inference.id}` }, age(inference.begun_at), " ago")),
  el("td", {}, inference.state === "done" ? state("done", "good") : state(inference.error?.message ?? "failed", "bad")),
  el("td", { class: "number" }, ms(inference.latency_ms)), el("td", { class: "wide" }, splitBars(inference.timeline ?? [])));

function table(label, heads, body, look = "") {
  return el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": label }, el("table", { class: `stack ${look}` }, el("thead", {}, el("tr", {}, heads.map(([name, isNumber]) =>
    el("th", { scope: "col", class: isNumber ? "number" : false }, name)))), body));
}

function about(deployment) {
  const { plan, request } = deployment;
  const last = deployment.events?.at(-1);
  return [
    el("section", { class: "card" }, facts(
      ["model", modelLink(deployment.model, deployment.version)],
      ["version", el("code", {}, short(deployment.version))],
      ["tags", deployment.tags?.join(", ")],
      ["why", deployment.error ? null : last?.reason],
      ["error", deployment.error && el("span", { class: "bad" }, deployment.error.message)],
      ["needs", deployment.error?.code === "does_not_fit" && el("a", { href: `#/models/${encodeURIComponent(deployment.model)}` }, "see what it would need")],
      ["answers", OVER.has(deployment.state) ? null : deployment.promoted ? "questions without a version" : "only its own version: not promoted"],
      ["asked for", `${new Date(deployment.created_at).toLocaleString()} by ${deployment.actor}`])),
    el("section", { class: "card" }, plan ? facts(
      ["plan", el("code", { title: plan.hash }, short(plan.hash))],
      ["generation", deployment.generation],
      ["strategy", request?.strategy === plan.strategy ? plan.strategy : `${plan.strategy} (asked for: ${request?.strategy})`],
      ["shares by", plan.shares],
      ["predicted", el("b", {}, ms(plan.latency_ms))],
      ["moved", bytes(plan.bytes_moved)],
      ["rounds", `${number(plan.rounds)} exchanges`]) : el("p", { class: "faint" }, OVER.has(deployment.state) ? "No plan came of it." : "There is no plan yet.")),
  ];
}

/** Predicted beside measured. */
function comparison(view, inferences, layers, deployment) {
  const rows = compare(view, inferences, layers);
  const most = Math.max(...rows.flatMap((row) => [row.predicted, row.measured ?? 0]), 1e-9);
  const bar = (part, look, text) => svg("svg", { class: `compare ${look}`, viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img", "aria-label": `${look} ${text}` },
    svg("title", {}, `${look} ${text}`), svg("rect", { width: part * 100, height: 1 }));
  const latencies = inferences.map((inference) => inference.latency_ms).sort((a, b) => a - b);
  const middle = latencies[Math.floor((latencies.length - 1) / 2)];
  return [
    el("div", { class: "bar" }, el("h2", {}, "Predicted and measured, segment by segment"),
      el("span", { class: "keys" }, el("span", { class: "key predicted" }), "predicted", el("span", { class: "key measured" }), "measured")),
    el("p", { class: "lead" }, `Predicted ${ms(deployment.plan.latency_ms)} an inference; `,
      inferences.length ? `measured ${ms(middle)}, the median of the last ${inferences.length}.` : "not measured yet: ask it once."),
    table("Predicted and measured", [["layers", true], ["operator"], ["name"], ["predicted", true], ["measured", true], ["", true], [""]], el("tbody", {}, rows.map((row) => pairRow(row, most, bar)))),
  ];
}

/** What each board runs, one board at a time. */
function schedules(view, layers) {
  const used = view.boards.map((board, b) => ({ board, b })).filter(({ board }) => board.used);
  const place = el("div");
  const choice = el("select", { onchange: () => draw(Number(choice.value)) }, used.map(({ board, b }) => el("option", { value: b }, board.name)));
  function draw(b) {
    const steps = scheduleOf(view, b, layers);
    const { arena_bytes: has } = view.plan.boards[b];
    const { arena_bytes: needs, peak_bytes: peak, scratch_bytes: scratch, program } = view.plan.parties[b];
    place.replaceChildren(
      el("p", {}, program ? `${steps.length} steps that hold parts of tensors: ` : "Its part of one operator after another: ",
        `peak ${bytes(peak)}, packed ${bytes(needs)} of the board's ${bytes(has)} of arena, ${bytes(scratch)} of it scratch.`),
      stepTable(steps, peak, `what ${view.boards[b].name} runs`, layers.reduce((sum, layer) => sum + layer.macs, 0)));
  }
  if (used.length) draw(used[0].b);
  return [el("div", { class: "bar" }, el("h2", {}, "Each board's schedule"), el("label", { class: "faint" }, "board ", choice)), place];
}

export function show(container, [id]) {
  const title = el("h1", {}, "Deployment");
  const now = el("div");
  const buttons = el("div", { class: "actions" });
  const facts2 = el("div", { class: "columns" });
  const bodies = { parts: el("tbody"), events: el("tbody"), inferences: el("tbody") };
  const plan = el("section");
  const measured = el("section");
  const runs = el("section");
  const rest = el("div", {}, facts2, buttons,
    el("section", {}, el("h2", {}, "Board by board"), table("Board by board", [["board"], ["link"], ["its part"], ["fragment"], ["size", true], ["peak", true], ["arena", true], ["weights in RAM", true]], bodies.parts)),
    plan, measured, runs,
    el("div", { class: "pair" },
      el("section", {}, el("h2", {}, "How it came to its state"), table("History", [["when"], ["state"], ["generation", true], ["why"], ["by"]], bodies.events)),
      el("section", {}, el("h2", {}, "Last inferences"), table("Last inferences", [["asked"], ["result"], ["latency", true], ["where each board's time went"]], bodies.inferences, "plainly"))));
  const problem = el("p", { class: "empty", hidden: true });
  rest.hidden = true;
  container.append(el("p", { class: "crumb" }, el("a", { href: "#/deployments" }, "Deployments")), el("div", { class: "bar" }, title, now), problem, rest);
  const draw = {
    parts: list(bodies.parts, { key: (part) => part.party, render: partRow, size: 100, empty: "No board has a part of it." }),
    events: list(bodies.events, { key: (event) => `${event.at} ${event.state} ${event.reason}`, render: eventRow, empty: "" }),
    inferences: list(bodies.inferences, { render: inferenceRow, size: 10, empty: "No inference was asked of it yet." }),
  };
  let deployment = null;
  let charted = "";
  let ends = [];
  let ended = false;
  let timer = 0;
  let again = null; // measures anew
  let measuredAt = 0;

  async function chart() {
    const key = `${deployment.id} ${deployment.generation} ${deployment.plan?.hash}`;
    if (!deployment.plan || key === charted) return;
    charted = key;
    const [view, layers] = await Promise.all([planOf(deployment.id, deployment.generation), layersOf(deployment.model, deployment.version)]);
    if (ended || key !== charted) return;
    const heat = heatMap(view, layers);
    ends.forEach((end) => end());
    ends = [heat.end];
    plan.replaceChildren(el("h2", {}, "Who holds which part of each layer"), el("div", { class: "gantt-box" }, heat.element));
    runs.replaceChildren(...schedules(view, layers));
    again = () => measure(view, layers);
    await again();
  }
  async function measure(view, layers) {
    measuredAt = Date.now();
    const recent = (await get(`inferences?deployment=${encodeURIComponent(id)}&limit=${MEASURE * 2}`)).items
      .filter((one) => one.state === "done" && one.generation === deployment.generation).slice(0, MEASURE);
    const whole = await Promise.all(recent.map((one) => get(`inferences/${one.id}`)));
    if (ended) return;
    const scrolled = measured.querySelector(".tall")?.scrollTop ?? 0;
    measured.replaceChildren(...comparison(view, whole, layers, deployment));
    measured.querySelector(".tall").scrollTop = scrolled;
  }
  function paint(next) {
    deployment = next;
    rest.hidden = false;
    title.textContent = deployment.model;
    document.title = `${deployment.model} · Shoal`;
    now.replaceChildren(deploymentState(deployment), el("span", { class: "faint" }, " for ", age(deploymentSince(deployment))));
    facts2.replaceChildren(...about(deployment));
    buttons.replaceChildren(...acts(deployment).flat().filter(Boolean));
    draw.parts(deployment.boards ?? []);
    draw.events([...(deployment.events ?? [])].reverse());
    chart().catch(() => { charted = ""; });
    clearTimeout(timer);
    if (BUSY.has(deployment.state)) timer = setTimeout(fetchIt, BUSY_MS);
  }
  async function fetchIt() {
    try {
      const next = await get(`deployments/${encodeURIComponent(id)}`);
      if (!ended) paint(next);
    } catch (error) {
      problem.hidden = Boolean(deployment);
      problem.textContent = error.line ?? error.message;
    }
  }
  const leave = subscribe(["deployments"], () => {
    const known = live.deployments.get(id);
    if (known && known !== deployment) paint(known);
    else if (!known) fetchIt();
  });
  const leaveInferences = subscribe(["inferences"], () => {
    draw.inferences(live.inferences.filter((one) => one.deployment === id));
    if (again && !document.hidden && Date.now() - measuredAt > MEASURE_MS && live.inferences[0]?.deployment === id) again().catch(() => undefined);
  });
  return () => {
    ended = true;
    clearTimeout(timer);
    ends.forEach((end) => end());
    leave();
    leaveInferences();
  };
}
