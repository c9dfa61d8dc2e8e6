// What a network takes in each way to run it, beside one another: the server is asked for each in turn, when the reader
// wants to know. Numbers are those of `shoal schedule` with the same options.
import { bytes, el, meter, ms, number, state } from "./dom.js";
import { largestArena } from "./memory.js";

/** The ways, as choices of the panel (schedule.js); what is not there is the usual. */
export const WAYS = [
  ["channels in turn", { axes: "channels" }],
  ["rows, channels and patches", {}],
  ["… with up to 10 % of the work done twice", { extra_macs: 10 }],
  ["… with an input that arrives by rows", { image: "streamed" }],
  ["… with both", { extra_macs: 10, image: "streamed" }],
];

const exact = (n, arena) => el("span", { title: `${number(n)} bytes` }, arena && n > arena ? state(bytes(n), "bad") : bytes(n));

function row(name, answer, most, show) {
  const { peak_bytes, arena_bytes, predicted_ms, extra_macs } = answer;
  return el("tr", {}, el("td", { class: "name" }, show ? el("button", { type: "button", class: "plain-button way", title: "show this schedule below", onclick: show }, name) : name),
    el("td", { class: "metered" }, exact(peak_bytes), meter(peak_bytes / most, `${bytes(peak_bytes)} of ${bytes(most)}`)),
    el("td", { class: "number" }, arena_bytes == null ? "–" : exact(arena_bytes, largestArena())),
    el("td", { class: "number" }, extra_macs > 0 ? `+${((extra_macs / answer.macs) * 100).toFixed(1)} %` : "none"),
    el("td", { class: "number" }, ms(predicted_ms)));
}

/** `ask(choices)` answers a schedule, `choose(choices)` shows one, `shown()` are the choices of the one that is shown. */
export function comparison(ask, choose, shown) {
  const element = el("div", { class: "comparison" });
  const body = el("tbody");
  const note = el("p", { class: "faint", "aria-live": "polite" });
  const button = el("button", { type: "button", class: "compare-ways", onclick: run }, "Compare ways to run it");
  element.append(button);
  const rows = [];
  const mark = () => rows.forEach(([choices, one]) => { if (shown(choices)) one.setAttribute("aria-current", true); else one.removeAttribute("aria-current"); });

  async function run() {
    const heads = [["on one board"], ["peak memory"], ["packed", true], ["done again", true], ["predicted", true]];
    element.replaceChildren(el("h3", {}, "Ways to run it"), el("div", { class: "scroll" }, el("table", { class: "stack" },
      el("thead", {}, el("tr", {}, heads.map(([head, right]) => el("th", { scope: "col", class: right ? "number" : false }, head)))), body)), note);
    body.replaceChildren();
    rows.length = 0;
    let most = 0;
    for (const [i, [name, choices]] of WAYS.entries()) {
      note.textContent = `Asking the server: ${i + 1} of ${WAYS.length}.`;
      try {
        const { ordinary, partial, macs } = await ask(choices);
        most ||= ordinary.peak_bytes;
        if (i === 0) body.append(row("operator by operator", ordinary, most));
        rows.push([choices, row(name, { ...partial, macs }, most, () => choose(choices))]);
        body.append(rows.at(-1)[1]);
        mark();
      } catch (error) {
        note.textContent = error.line ?? error.message;
        element.append(button);
        return;
      }
    }
    const arena = largestArena();
    note.replaceChildren("Peak counts tensors alone; packed is the arena with the scratch of kernels. All give the same bits. A deployment on one board takes the fastest that fits, with its input whole. ",
      ...(arena > 0 && body.querySelector(".bad") ? [state("more", "bad"), ` than your largest arena of ${bytes(arena)}.`] : [arena > 0 ? `All fit your largest arena of ${bytes(arena)}.` : ""]));
  }
  return { element, mark };
}
