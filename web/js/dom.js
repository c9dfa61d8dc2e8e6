// Small helpers to build the page. Text always goes in as text: names from strangers are never markup.

const SVG = "http://www.w3.org/2000/svg";

function set(element, name, value) {
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (value === true) element.setAttribute(name, "");
  else if (value !== false && value != null) element.setAttribute(name, value);
}

const there = (child) => child != null && child !== false && child !== "";

/** An element with attributes and children; children may be text, elements, nested arrays, null or false. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children.flat(Infinity).filter(there));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children.flat(Infinity).filter(there));
  return element;
}

/** A definition list from pairs; pairs with a null, false or empty value are left out. */
export function facts(...pairs) {
  return el("dl", {}, pairs.filter((pair) => pair && there(pair[1]))
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** A bar that is `part` of 1 full, with an optional tick at `tick` of 1, and its meaning in words. */
export function meter(part, label, tick) {
  const clamp = (x) => Math.max(0, Math.min(1, x || 0)) * 100;
  return svg("svg", { class: "meter", viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("title", {}, label),
    svg("rect", { class: part > 1 ? "over" : "used", width: clamp(part), height: 1 }),
    tick != null && svg("rect", { class: "tick", x: Math.max(0, clamp(tick) - 0.6), width: 1.2, height: 1 }));
}

/**
 * A keyed list that is cheap to draw again: rows of items that are the same object stay as they are, so focus and
 * scrolling survive. Shows `size` rows and a button for more. `empty` is what to say and do when there are none.
 */
export function list(container, { key = (item) => item.id, render, empty, size = 60 }) {
  const rows = new Map();
  const inTable = (element) => (container.tagName === "TBODY" ? el("tr", {}, el("td", { colspan: 99 }, element)) : element);
  const more = inTable(el("button", { type: "button", class: "more", onclick: () => { shown += size; draw(last); } }, "Show more"));
  const none = inTable(el("p", { class: "empty" }, empty));
  let shown = size;
  let last = [];
  function draw(items) {
    last = items;
    const wanted = items.slice(0, shown).map((item) => {
      const id = key(item);
      const row = rows.get(id);
      if (row?.item === item) return row.element;
      const element = render(item);
      const focused = row?.element.contains(document.activeElement) && document.activeElement.textContent;
      rows.set(id, { item, element });
      if (focused) queueMicrotask(() => [...element.querySelectorAll("a, button, input, select")].find((e) => e.textContent === focused)?.focus());
      return element;
    });
    const keep = new Set(items.map(key));
    for (const id of rows.keys()) if (!keep.has(id)) rows.delete(id);
    if (items.length > shown) wanted.push(more);
    if (!items.length) wanted.push(none);
    // What went away goes first: then one changed row does not move all rows after it.
    const stay = new Set(wanted);
    for (const element of [...container.children]) if (!stay.has(element)) element.remove();
    wanted.forEach((element, i) => {
      if (container.children[i] !== element) container.insertBefore(element, container.children[i] ?? null);
    });
  }
  return draw;
}

/** A button that does something at the server: disabled meanwhile, its refusal shown beside it. */
export function action(text, call, attributes = {}) {
  const message = el("span", { class: "bad", role: "status" });
  const button = el("button", {
    type: "button",
    ...attributes,
    onclick: async () => {
      const focused = document.activeElement === button;
      button.disabled = true;
      message.textContent = "";
      try {
        await call();
      } catch (error) {
        message.textContent = error.line ?? error.message;
      }
      button.disabled = false;
      if (focused && document.activeElement === document.body) button.focus();
    },
  }, text);
  return [button, message];
}

/** A state with its colour and sign: kind is good, warn, bad or faint. */
export function state(text, kind) {
  return el("span", { class: `state ${kind}` }, text);
}

export function bytes(n) {
  if (n == null) return null;
  if (Math.abs(n) < 1024) return `${n} B`;
  if (Math.abs(n) < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(2)} MiB`;
}

export function ms(n) {
  return n == null ? null : n < 10 ? `${n.toFixed(2)} ms` : n < 10000 ? `${n.toFixed(1)} ms` : `${(n / 1000).toFixed(1)} s`;
}

export const number = (n) => (n == null ? null : n.toLocaleString("en"));

function ageText(at) {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(at)) / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** A time as its age, which grows by itself. */
export function age(at) {
  return at ? el("time", { class: "age", datetime: at, title: new Date(at).toLocaleString() }, ageText(at)) : null;
}

export function updateAges() {
  for (const time of document.querySelectorAll("time.age")) {
    const text = ageText(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
  }
}

export const short = (hash) => (hash ? hash.slice(0, 12) : "");
