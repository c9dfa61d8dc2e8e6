// Letting a board in: the code and the line to type, and what became of attempts that failed.
import { get, post } from "./api.js";
import { action, age, el, list, state } from "./dom.js";
import { live, subscribe } from "./live.js";

function copyButton(text, what) {
  const said = el("span", { role: "status", class: "faint" });
  return [el("button", {
    type: "button",
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        said.textContent = "copied";
      } catch {
        said.textContent = "the browser does not allow it; select the text instead";
      }
      setTimeout(() => { said.textContent = ""; }, 4000);
    },
  }, `Copy the ${what}`), said];
}

function loopback() {
  return live.limits.board_address_is_loopback && el("p", {}, state("Only this machine can reach it.", "warn"),
    ` The board port listens at ${live.limits.board_address}. For boards on the network start the server with --board-listen 0.0.0.0:8443.`);
}

function shown(code) {
  return [
    el("p", {}, "Start the board with this line. The code is good ", code.uses_left === 1 ? "once" : `${code.uses_left} times`, ", until ",
      el("b", {}, new Date(code.expires_at).toLocaleTimeString()), code.accept ? "; the board joins at once." : "; then accept the board here."),
    el("p", { class: "line" }, el("code", {}, code.command)),
    el("div", { class: "actions" }, copyButton(code.command, "line"), copyButton(code.code, "code")),
    el("p", { class: "faint" }, "STATE_FOLDER is where a host board keeps its key, certificate and fragments: one folder for each board."),
  ];
}

/** The panel that hands out a code. */
export function enrolPanel() {
  const uses = el("input", { type: "number", min: 1, max: 1000, value: 1, required: true, class: "few" });
  const accept = el("input", { type: "checkbox", checked: true });
  const minutes = el("select", {}, [["15 minutes", 900], ["1 hour", 3600], ["1 day", 86400], ["7 days", 604800]].map(([name, s]) => el("option", { value: s }, name)));
  const code = el("div", { role: "status" });
  const warning = el("div");
  const panel = el("section", { class: "note", hidden: true, "aria-label": "Enrol a board" },
    el("h2", {}, "Enrol a board"), warning,
    el("div", { class: "form" },
      el("label", {}, "How many boards ", uses), el("label", {}, "Good for ", minutes),
      el("label", { class: "check" }, accept, " accept them at once"),
      el("div", { class: "actions" }, action("Make a code", async () => {
        const made = await post("enrolments", { accept: accept.checked, uses: Number(uses.value), ttl_s: Number(minutes.value) });
        code.replaceChildren(...shown(made));
      }, { class: "solid" }))),
    code);
  const button = el("button", { type: "button", class: "solid", "aria-expanded": "false", onclick: () => open(panel.hidden) }, "Enrol a board");
  function open(yes) {
    panel.hidden = !yes;
    button.setAttribute("aria-expanded", String(yes));
    warning.replaceChildren(...[loopback()].filter(Boolean));
    if (yes) uses.focus();
  }
  return { button, panel, open };
}

function attempt(one) {
  return el("tr", {}, el("td", {}, age(one.at), " ago"), el("td", {}, one.address), el("td", {}, one.reason), el("td", {}, one.action));
}

/** Attempts that failed; hidden while there are none. Returns [element, end]. */
export function attempts() {
  const body = el("tbody");
  const section = el("section", { hidden: true }, el("h2", {}, "Turned away"),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Turned away" }, el("table", { class: "stack" }, el("thead", {}, el("tr", {},
      ["when", "address", "why", "what to do"].map((name) => el("th", { scope: "col" }, name)))), body)));
  const draw = list(body, { render: attempt, size: 10, empty: "" });
  let turn = 0;
  const load = async () => {
    const mine = ++turn;
    const page = await get("enrolments/attempts?limit=50").catch(() => null);
    if (!page || mine !== turn) return;
    section.hidden = !page.items.length;
    draw(page.items);
  };
  return [section, subscribe(["attention"], load)];
}
