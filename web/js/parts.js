// Small parts that several pages share.
import { action, el } from "./dom.js";

/** A button that asks once more before it does what cannot be undone. */
export function confirmed(text, question, call) {
  const box = el("span", { class: "confirmed" });
  const ask = el("button", {
    type: "button",
    onclick: () => {
      box.replaceChildren(...action(question, call, { class: "danger" }), el("button", { type: "button", onclick: () => { box.replaceChildren(ask); ask.focus(); } }, "Keep it"));
      box.querySelector("button").focus();
    },
  }, text);
  box.append(ask);
  return box;
}

/** Calls `call` once after the last of many calls, `wait` ms later. */
export function settled(call, wait = 250) {
  let timer = 0;
  const run = () => {
    clearTimeout(timer);
    timer = setTimeout(call, wait);
  };
  run.cancel = () => clearTimeout(timer);
  return run;
}

/** Makes an element take files that are dropped on it; `over` is the class while they hover. */
export function dropTarget(target, take, over = "over") {
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0;
  const listeners = {
    dragenter(event) {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth++;
      (target.body ?? target).classList.add(over);
    },
    dragover(event) {
      if (hasFiles(event)) event.preventDefault();
    },
    dragleave() {
      depth = Math.max(0, depth - 1);
      if (!depth) (target.body ?? target).classList.remove(over);
    },
    drop(event) {
      depth = 0;
      (target.body ?? target).classList.remove(over);
      if (!hasFiles(event) || event.defaultPrevented) return;
      event.preventDefault();
      take([...event.dataTransfer.files]);
    },
  };
  for (const [name, call] of Object.entries(listeners)) target.addEventListener(name, call);
  return () => {
    for (const [name, call] of Object.entries(listeners)) target.removeEventListener(name, call);
    (target.body ?? target).classList.remove(over);
  };
}
