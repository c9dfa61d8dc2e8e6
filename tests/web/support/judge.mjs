// Judges of a whole page, run inside it: contrast of text (WCAG AA), overflow, what the keyboard reaches. Each answers a
// list of faults in words; an empty list is a pass.

/** Texts whose contrast with what lies behind them is under 4.5 (3 for large text). Disabled controls are exempt. */
export function lowContrast() {
  const parse = (text) => {
    const n = text.match(/[\d.]+/g)?.map(Number);
    if (!n || n.length < 3) return null;
    const scale = text.startsWith("color(") ? 255 : 1;
    return { r: n[0] * scale, g: n[1] * scale, b: n[2] * scale, a: n[3] ?? 1 };
  };
  const over = (top, below, alpha = top.a) => ({
    r: top.r * alpha + below.r * (1 - alpha), g: top.g * alpha + below.g * (1 - alpha), b: top.b * alpha + below.b * (1 - alpha), a: 1,
  });
  const light = ({ r, g, b }) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => {
    const [x, y] = [light(a), light(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const canvas = dark ? { r: 18, g: 18, b: 18, a: 1 } : { r: 255, g: 255, b: 255, a: 1 };
  const chain = (element) => {
    const all = [];
    for (let e = element; e; e = e.parentElement) all.unshift(e);
    return all;
  };
  // What is painted under a text in an SVG: the shapes before it that contain its middle.
  function behind(text, ground) {
    const box = text.getBoundingClientRect();
    const root = text.closest("svg");
    let colour = ground;
    for (const shape of root.querySelectorAll("rect, circle, ellipse, path, polygon")) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
      const style = getComputedStyle(shape);
      const fill = parse(style.fill);
      const matrix = shape.getScreenCTM();
      if (!fill || style.fill === "none" || style.visibility === "hidden" || style.display === "none" || !matrix) continue;
      const point = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2).matrixTransform(matrix.inverse());
      if (shape.isPointInFill(point)) colour = over(fill, colour, fill.a * style.fillOpacity * style.opacity);
    }
    return colour;
  }
  function judge(element, style, what) {
    if (element.closest(":disabled, [aria-disabled=true], [hidden]")) return null;
    let ground = canvas;
    let opacity = 1;
    for (const one of chain(element)) {
      const background = parse(getComputedStyle(one).backgroundColor);
      opacity *= getComputedStyle(one).opacity;
      if (background) ground = over(background, ground);
    }
    const inSvg = element instanceof SVGElement;
    const ink = parse(inSvg ? style.fill : style.color);
    if (!ink) return null;
    if (inSvg) ground = behind(element, ground);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const got = contrast(over(ink, ground, ink.a * opacity), ground);
    return got + 0.005 < least ? `${got.toFixed(2)} of ${least}: "${what.trim().slice(0, 40)}" <${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}">` : null;
  }
  const faults = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || /^(SCRIPT|STYLE|NOSCRIPT|TITLE|OPTION)$/i.test(element.tagName)) continue;
    if (!element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    const fault = judge(element, getComputedStyle(element), node.data);
    if (fault) faults.add(fault);
  }
  for (const input of document.querySelectorAll("input[placeholder], textarea[placeholder]")) {
    const fault = input.checkVisibility() && judge(input, getComputedStyle(input, "::placeholder"), input.placeholder);
    if (fault) faults.add(fault);
  }
  return [...faults];
}

/** What makes the page wider than the window. */
export function overflow() {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const clipped = (element) => {
    for (let e = element.parentElement; e && e !== document.body; e = e.parentElement) if (getComputedStyle(e).overflowX !== "visible") return true;
    return false;
  };
  const wide = [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > width + 0.5 && !clipped(e));
  return [`${document.documentElement.scrollWidth} px in ${width}: ${wide.slice(-3).map((e) => `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") ?? ""}"> ${e.textContent.slice(0, 30)}`).join("; ")}`];
}

/** Tables that must be moved sideways to be read; a confusion matrix may. */
export function sideways() {
  return [...document.querySelectorAll("main .scroll")].filter((box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1 && !box.querySelector(".confusion"))
    .map((box) => `${box.scrollWidth} px in ${box.clientWidth}: ${box.getAttribute("aria-label") ?? box.textContent.slice(0, 60)}`);
}

/** Marks what can be acted on by pointer, and answers how many; `nameless` lists those that a screen reader could not name. */
export function actions() {
  const found = new Set(document.querySelectorAll("a[href], button, input, select, textarea, summary, [role=button], [contenteditable=true]"));
  for (const e of document.querySelectorAll("main *, dialog *")) {
    const types = globalThis.listening.get(e);
    if (types?.has("click") || types?.has("pointerdown") || types?.has("mousedown")) found.add(e);
  }
  const usable = [...found].filter((e) => !e.disabled && e.type !== "hidden" && e.checkVisibility({ checkVisibilityCSS: true }));
  usable.forEach((e, i) => e.setAttribute("data-action", i));
  const name = (e) => e.getAttribute("aria-label") || e.textContent.trim() || e.title || e.alt || e.labels?.length || e.getAttribute("aria-labelledby") || e.placeholder || e.querySelector("title, img[alt]")
    || e.closest("[role=img][aria-label]"); // what lies in a picture is part of it
  return { count: usable.length, nameless: usable.filter((e) => !name(e)).map((e) => e.outerHTML.slice(0, 100)) };
}

/** Where the focus is: the action's number, and whether it can be seen. */
export function focus() {
  const e = document.activeElement;
  if (!e || e === document.body) return null;
  globalThis.walked ??= new Set();
  const seen = globalThis.walked.has(e);
  globalThis.walked.add(e);
  const style = getComputedStyle(e);
  const visible = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1) || style.boxShadow !== "none" || Boolean(e.querySelector(".focus-ring"));
  return { seen, visible, tag: e.outerHTML.slice(0, 100) };
}

/**
 * Actions that the keyboard did not reach. One is reached by itself; or it stands for others of its group: a radio button
 * for its group, an element with arrow keys (a roving tabindex) for those inside; a pointer target that only repeats what a
 * reached element within it or around it does is no loss.
 */
export function unreached() {
  const walked = [...globalThis.walked];
  const keyed = walked.filter((e) => globalThis.listening.get(e)?.has("keydown"));
  const keyedAround = (e) => {
    for (let p = e.parentElement; p; p = p.parentElement) if (globalThis.listening.get(p)?.has("keydown")) return walked.some((w) => p.contains(w));
    return false;
  };
  return [...document.querySelectorAll("[data-action]")].filter((e) => {
    if (globalThis.walked.has(e) || walked.some((w) => e.contains(w) || (w.contains(e) && w.matches("a, button, label, summary")))) return false;
    const group = e.closest("[role=tablist], [role=radiogroup], [role=toolbar], [role=listbox], [role=grid]");
    if (group && walked.some((w) => group.contains(w) && globalThis.listening.get(w)?.has("keydown"))) return false;
    if (e.tagName === "CANVAS") return false; // drawing is for pointers; the samples beside it are for the keyboard
    if (e.type === "radio" && walked.some((w) => w.type === "radio" && w.name === e.name)) return false;
    return !(keyed.some((w) => w.contains(e)) || keyedAround(e));
  }).filter((e) => e.isConnected && e.checkVisibility({ checkVisibilityCSS: true })).map((e) => e.outerHTML.slice(0, 140));
}
