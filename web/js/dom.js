// Small helpers to build the page. Text always goes in as text: names from strangers are never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; children may be text, elements or null. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A definition list from pairs; pairs with a null value are left out. */
export function facts(...pairs) {
  return el("dl", {}, pairs.filter(([, value]) => value != null && value !== "")
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** A bar that is `part` of 1 full, with its meaning for those who do not see it. */
export function meter(part, label) {
  const width = Math.max(0, Math.min(1, part)) * 100;
  return svg("svg", { class: "meter", viewBox: "0 0 100 1", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { width, height: 1 }));
}

/** Puts children into a container, or a sentence that says what to do when there are none. */
export function fill(container, children, empty) {
  container.replaceChildren(...(children.length ? children : [el("p", { class: "empty" }, empty)]));
}

export function bytes(n) {
  if (n == null) return null;
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(2)} MiB`;
}

export function ms(n) {
  return n == null ? null : n < 10 ? `${n.toFixed(2)} ms` : `${n.toFixed(1)} ms`;
}

export function age(at) {
  if (!at) return null;
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(at)) / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function short(hash) {
  return hash ? hash.slice(0, 12) : "";
}
