// "What would it need?": boards, strategy and shares in, the server's dry run out, and from there a deployment. Nothing is
// worked out here: every number is of POST /api/v1/plans or of the boards.
import { post } from "./api.js";
import { action, bytes, el, list, meter, ms, number, state } from "./dom.js";
import { live, subscribe } from "./live.js";
import { settled } from "./parts.js";
import { stepTable } from "./steps.js";
import { splitBar, splitKey } from "./split.js";

const STRATEGIES = { auto: "auto", neuron: "neuron: parts of each layer", single: "single: one board" }; // what the planner has today
const SHARES = { rating: "by rating", even: "even", frequency: "by clock" };
const RESOURCES = { arena: "memory for activations", flash: "flash for weights", weights: "memory for weights" };

/** Why the planner may not use a board; null: it may. */
export function whyNot(board) {
  if (board.state === "pending") return "not accepted yet";
  if (board.state === "revoked") return "revoked";
  if (board.link === "offline" || !board.hello) return "offline";
  return board.drained ? "drained" : null;
}

const arenaOf = (board) => board?.hello?.regions?.find((region) => region.name === "arena")?.bytes;
const select = (options, label) => el("select", { "aria-label": label }, Object.entries(options).map(([value, text]) => el("option", { value }, text)));
const cell = (text, right) => el("td", { class: right ? "number" : false }, text);
const RIGHT = new Set(["needs", "has", "missing", "share", "moved"]);
const table = (heads, rows) => el("div", { class: "scroll", tabindex: 0 }, el("table", { class: "stack" },
  el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: RIGHT.has(head) ? "number" : false }, head)))), el("tbody", {}, rows)));

function used(value, of, word, note) {
  const text = of ? `${bytes(value)} of ${bytes(of)}` : bytes(value);
  return el("td", { class: "metered" }, text, of ? meter(value / of, `${word}: ${text}`) : null, el("span", { class: "small" }, note));
}

function party(p) {
  const board = live.boards.get(p.board);
  if (!p.used) return el("tr", {}, cell(p.name), el("td", { colspan: 5, class: "faint" }, "left out: its share rounds to nothing beside faster boards"));
  return el("tr", {}, cell(p.name), cell(`${(p.share * 100).toFixed(1)} %`, true), used(p.arena_bytes, arenaOf(board), "arena", `peak ${bytes(p.peak_bytes)}`),
    used(p.fragment_bytes, board?.hello?.flash_bytes, "flash", `weights ${bytes(p.weight_bytes)}`),
    el("td", { class: "wide" }, splitBar(p), el("span", { class: "small" }, `computing ${ms(p.computing_ms)}, waiting ${ms(p.waiting_ms)}, moving ${ms(p.moving_ms)}`)), cell(bytes(p.bytes_sent + p.bytes_received), true));
}

function leftOut(asked) {
  const out = [...live.boards.values()].filter((board) => !asked.includes(board.name));
  if (!out.length) return null;
  const why = out.map((board) => [board.name, whyNot(board) ?? "not chosen"]);
  return el("details", {}, el("summary", {}, `${out.length === 1 ? "One board is" : `${out.length} boards are`} left out`),
    el("ul", { class: "plain" }, why.slice(0, 50).map(([name, reason]) => el("li", {}, `${name}: ${reason}`)), why.length > 50 && el("li", {}, `and ${why.length - 50} more`)));
}

function fitting(plan, asked) {
  return [
    el("p", { class: "verdict" }, state("fits", "good"), ` on ${plan.boards_used} of ${plan.boards} board${plan.boards === 1 ? "" : "s"}; one inference is predicted to take `,
      el("strong", {}, ms(plan.latency_ms)), "."),
    el("p", { class: "faint" }, `At most on a board: computing ${ms(plan.computing_ms)}, waiting ${ms(plan.waiting_ms)}, moving data ${ms(plan.moving_ms)}${plan.flash_ms ? `, reading flash ${ms(plan.flash_ms)}` : ""}. `,
      `${number(plan.rounds)} exchange${plan.rounds === 1 ? "" : "s"}, ${bytes(plan.bytes_moved)} moved, ${plan.throughput_per_s.toFixed(1)} inferences a second. Strategy ${plan.strategy}, shares ${plan.shares}.`),
    table(["board", "share", "arena", "flash", ["time: ", splitKey()], "moved"], plan.parties.map(party)),
    ...plan.parties.filter((one) => one.schedule).map((one) => el("details", {}, el("summary", {}, `${one.name} runs ${one.schedule.length} steps that hold parts of tensors`),
      stepTable(one.schedule, one.peak_bytes, `what ${one.name} runs`))),
    leftOut(asked),
  ];
}

/** A change that the planner has verified, as a button where this page can make it. */
function attempt(change, form) {
  const text = `use ${change.text}`;
  const button = (call) => el("span", {}, el("button", { type: "button", onclick: call }, text), el("span", { class: "faint" }, ` ${ms(change.latency_ms)}`));
  if (change.retire) return el("span", {}, el("a", { href: `#/deployments/${change.retire}` }, change.text), el("span", { class: "faint" }, ` ${ms(change.latency_ms)}`));
  if (change.without) return button(() => form.only(form.asked().filter((name) => !change.without.includes(name))));
  for (const word of ["strategy", "shares"]) if (change[word]) return button(() => form.set(word, change[word]));
  const more = change.boards - form.asked().length;
  const free = [...live.boards.values()].filter((board) => !whyNot(board) && !form.asked().includes(board.name));
  if (free.length >= more) return button(() => form.only([...form.asked(), ...free.slice(0, more).map((board) => board.name)]));
  return el("span", {}, `${change.boards} boards in all (`, el("a", { href: "#/boards" }, `enrol ${more} more`), ")", el("span", { class: "faint" }, ` ${ms(change.latency_ms)}`));
}

function refused(error, form) {
  const { shortfalls, try: helps, missing_bytes: missing, board } = error.detail;
  if (!shortfalls)
    return [el("p", { class: "verdict" }, state(error.code === "too_few_boards" ? "no boards" : "refused", "bad"), ` ${error.message}. `,
      error.code === "too_few_boards" && el("a", { href: "#/boards" }, "Go to the boards"))];
  const inPlace = helps?.some((change) => change.replace);
  const others = helps?.filter((change) => !change.replace) ?? [];
  return [
    el("p", { class: "verdict" }, state("does not fit", "bad"), ": ", el("strong", {}, `${number(missing)} bytes`), ` are missing on ${board}${shortfalls.length > 1 ? `, and ${shortfalls.length - 1} more board${shortfalls.length > 2 ? "s fall" : " falls"} short` : ""}.`),
    table(["board", "what is short", "needs", "has", "missing", "at layer"], shortfalls.map((s) => el("tr", {},
      cell(s.board), cell(RESOURCES[s.resource] ?? s.resource), cell(bytes(s.need_bytes), true), cell(bytes(s.have_bytes), true),
      cell(`${number(s.missing_bytes)} B`, true), el("td", {}, el("span", { class: "clip", title: s.op }, s.op))))),
    inPlace && el("p", { class: "helps" }, "The version that runs now holds part of the boards' memory. ",
      el("button", { type: "button", onclick: form.replace }, "plan in its place")),
    others.length
      ? el("p", { class: "helps" }, "What would make it fit (the planner has tried it): ", others.map((change) => attempt(change, form)))
      : !inPlace && el("p", {}, "The planner has tried more boards like these, other shares and other strategies: none of them makes it fit. Boards with more memory, or a smaller model, would."),
    shortfalls.some((s) => s.resource === "flash") && !others.some((change) => change.retire) && otherModels(form.model),
    leftOut(form.asked()),
  ];
}

/** The list of boards to tick. Nothing ticked by hand: all that can be used. */
function boardPicker(changed) {
  let byHand = null; // a set of names
  const summary = el("summary");
  const box = el("div", { class: "ticks" });
  const usable = () => [...live.boards.values()].filter((board) => !whyNot(board)).map((board) => board.name).sort();
  const asked = () => (byHand ? usable().filter((name) => byHand.has(name)) : usable().slice(0, live.limits.boards_in_a_deployment ?? 64));
  const set = (names) => {
    byHand = names;
    draw();
    changed();
  };
  const tick = (board) => {
    const reason = whyNot(board);
    return el("label", { class: "tick-row" }, el("input", { type: "checkbox", disabled: !!reason, checked: !reason && asked().includes(board.name),
      onchange: (event) => {
        byHand ??= new Set(asked());
        if (event.target.checked) byHand.add(board.name);
        else byHand.delete(board.name);
        say();
        changed();
      } }), ` ${board.name}`, el("span", { class: "faint" }, reason ? ` ${reason}` : ` ${bytes(arenaOf(board))} arena`));
  };
  const drawTicks = list(box, { key: (row) => row.board.id, render: (row) => tick(row.board), size: 60, empty: "No boards yet. Enrol one on the page “Boards”." });
  const say = () => { summary.textContent = `Boards: ${asked().length} of ${live.boards.size}`; };
  function draw() {
    drawTicks([...live.boards.values()].sort((a, b) => a.name.localeCompare(b.name)).map((board) => ({ board })));
    say();
  }
  return {
    element: el("details", { class: "picker" }, summary, el("div", { class: "actions" },
      el("button", { type: "button", onclick: () => set(null) }, "all that can be used"), " ", el("button", { type: "button", onclick: () => set(new Set()) }, "none")), box),
    asked, draw,
    only: (names) => set(new Set(names)),
    all: () => byHand === null,
  };
}

/** The deployments that hold the boards' memory: of a model, or of all others. */
const running = (model, others) => [...live.deployments.values()].filter((d) => (d.model === model) !== others && d.state !== "failed");

/** The planner takes nothing from other models; that one of them could give way is for people to decide. */
function otherModels(model) {
  const others = running(model, true).sort((a, b) => a.model.localeCompare(b.model));
  return others.length > 0 && el("p", { class: "helps" }, "The boards hold other models too, which a plan leaves where they are: ",
    others.map((d, i) => [i > 0 && ", ", el("a", { href: `#/deployments/${d.id}` }, d.model)]), ". To retire one frees its flash.");
}

export function planForm(version) {
  const strategy = select(STRATEGIES, "strategy");
  const shares = select(SHARES, "shares");
  const tags = el("input", { autocomplete: "off", placeholder: "commit 1a2b3c, build 42" });
  const replace = el("input", { type: "checkbox" });
  const replaceRow = el("label", { class: "tick-row", title: "Where the flash cannot hold the former version beside the new one" }, replace, " replace the version that runs now");
  const answer = el("div", { class: "answer", role: "status" });
  let turn = 0;
  let decided = false; // whether to replace: by hand
  /** What runs now holds memory: unless somebody decided otherwise it is planned in its place, where only that fits. */
  async function inPlace() {
    if (decided || !form.replaceable()) return null;
    const plan = await post("plans", { ...body(), replace: true }).catch(() => null);
    if (plan) replace.checked = true;
    return plan;
  }
  const body = () => ({ model: version.model, version: version.version, strategy: strategy.value, shares: shares.value, boards: picker.asked(),
    ...(replace.checked && { replace: true }) });
  const form = {
    model: version.model,
    replaceable: () => !replace.checked && running(version.model, false).length > 0,
    replace: () => {
      decided = true;
      replace.checked = true;
      ask();
    },
    asked: () => picker.asked(),
    only: (names) => picker.only(names),
    set: (word, value) => {
      ({ strategy, shares })[word].value = value;
      ask();
    },
  };
  async function ask() {
    const mine = ++turn;
    replaceRow.hidden = !replace.checked && !form.replaceable();
    if (!picker.asked().length) {
      deploy.hidden = true;
      answer.replaceChildren(el("p", { class: "verdict" }, state("no boards", "warn"), live.boards.size ? " Tick at least one board." : [" ", el("a", { href: "#/boards" }, "Enrol a board"), ", then see here what the model needs."]));
      return;
    }
    answer.classList.add("asking");
    if (!answer.children.length) answer.replaceChildren(el("p", { class: "faint" }, "planning, and trying what would make it fit if it does not …"));
    const asked = picker.asked();
    let said;
    let fits = false;
    try {
      const plan = await post("plans", body());
      fits = true;
      said = fitting(plan, asked);
    } catch (error) {
      const plan = error.detail?.shortfalls && mine === turn ? await inPlace() : null;
      if (plan) {
        fits = true;
        said = [...fitting(plan, asked), el("p", { class: "faint" }, "Planned in the place of the version that runs now: the boards cannot hold both, so it ends when this one is pushed.")];
      } else said = error.detail ? refused(error, form) : [el("p", { class: "bad" }, "The server is out of reach.")];
    }
    if (mine !== turn) return;
    answer.classList.remove("asking");
    answer.replaceChildren(...said.filter(Boolean));
    deploy.hidden = !fits;
  }
  const later = settled(ask, 150);
  const picker = boardPicker(later);
  replace.addEventListener("change", () => { decided = true; });
  for (const field of [strategy, shares, replace]) field.addEventListener("change", later);
  const deploy = el("div", { class: "actions", hidden: true }, action("Deploy this", async () => {
    const list = tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
    const request = { ...body(), ...(list.length && { tags: list }) };
    if (picker.all()) delete request.boards;
    const deployment = await post("deployments", request);
    location.hash = `#/deployments/${deployment.id}`;
  }, { class: "primary" }), el("label", {}, "with tags ", tags));
  let drawn = "";
  const end = subscribe(["boards"], () => {
    const now = JSON.stringify([...live.boards.values()].map((board) => [board.id, board.name, whyNot(board)]));
    if (!live.loaded || now === drawn) return;
    drawn = now;
    picker.draw();
    later();
  });
  return {
    element: el("div", { class: "card what-if" },
      el("div", { class: "choices" }, picker.element, el("label", { class: "field" }, "Strategy", strategy), el("label", { class: "field" }, "Shares", shares),
        replaceRow),
      answer, deploy),
    end: () => {
      end();
      later.cancel();
      turn++;
    },
  };
}
