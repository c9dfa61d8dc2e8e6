// Charts over time, drawn by hand as SVG in real pixels, so that text keeps its size. A chart is one stop of the keyboard:
// arrows move a cursor from point to point, and what stands there is said in words beneath.
import { el, svg } from "./dom.js";

const PAD = { left: 56, right: 8, top: 8, bottom: 20 };

/** A number of the form 1, 2 or 5 times a power of ten, at least `most / steps`. */
function stepFor(most, steps) {
  const rough = most / steps;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= rough);
}

/** The values of an axis from 0 that reach `most`. */
export function ticks(most, steps = 4) {
  const step = stepFor(most || 1, steps);
  return Array.from({ length: Math.ceil((most || 1) / step) + 1 }, (_, i) => i * step);
}

const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const exact = (time) => new Date(time).toLocaleTimeString();

/** Calls `draw(width)` now and whenever the element's width changes; returns what ends it. */
export function whenSized(element, draw) {
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now && now !== width) draw((width = now));
  });
  observer.observe(element);
  return () => observer.disconnect();
}

/**
 * A chart over time. `series`: [{key, name, kind: "line" or "bars", look: a class}]; `format` says a value in words.
 * draw({begin, end, step, points: [{time, ...}]}) draws it; null values leave a gap. end() when it is taken away.
 */
export function timeChart({ title, series, format, height = 190, empty }) {
  const picture = svg("svg", { class: "chart", height, tabindex: 0, role: "img" });
  const said = el("p", { class: "said", "aria-live": "polite" });
  const key = el("span", { class: "keys" }, series.map((one) => [el("span", { class: `key ${one.look}` }), one.name]));
  const element = el("figure", { class: "chart-box" },
    el("figcaption", {}, el("h3", {}, title), key), picture, said);
  let data = { begin: 0, end: 1, step: 1, points: [] };
  let width = 0;
  let cursor = null;

  const x = (time) => PAD.left + ((time - data.begin) / (data.end - data.begin)) * (width - PAD.left - PAD.right);
  const values = (one) => data.points.map((point) => point[one.key]).filter((value) => value != null);

  function shapes(one, y) {
    const half = data.step / 2;
    if (one.kind === "bars") {
      const bar = Math.max(1, x(data.begin + data.step) - x(data.begin) - 1);
      return data.points.filter((point) => point[one.key]).map((point) =>
        svg("rect", { class: one.look, x: x(point.time), y: y(point[one.key]), width: bar, height: y(0) - y(point[one.key]) }));
    }
    // Neighbours are joined; a point without neighbours is a dot. Nothing is drawn across a gap.
    let path = "";
    let before = null;
    const dots = [];
    for (const point of data.points) {
      if (point[one.key] == null) continue;
      const at = `${x(point.time + half).toFixed(1)} ${y(point[one.key]).toFixed(1)}`;
      path += `${before != null && point.time - before <= data.step * 1.5 ? "L" : "M"}${at}`;
      before = point.time;
      dots.push(svg("circle", { class: one.look, cx: x(point.time + half), cy: y(point[one.key]), r: 2 }));
    }
    return [svg("path", { class: `${one.look} line`, d: path }), dots];
  }

  function words(point) {
    return `${exact(point.time)}: ${series.map((one) => `${one.name} ${point[one.key] == null ? "–" : format(point[one.key])}`).join(", ")}`;
  }

  function paint() {
    if (!width) return;
    const most = Math.max(0, ...series.flatMap(values));
    const marks = ticks(most);
    const top = marks.at(-1);
    const y = (value) => height - PAD.bottom - (value / top) * (height - PAD.top - PAD.bottom);
    const some = data.points.length > 0;
    const count = width < 500 ? 4 : 6;
    const times = Array.from({ length: count }, (_, i) => data.begin + ((data.end - data.begin) * i) / (count - 1));
    picture.setAttribute("width", width);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("aria-label", some ? `${title}, ${clock(data.begin)} to ${clock(data.end)}; most ${format(most)}. Arrow keys read the points.` : `${title}: ${empty}`);
    if (!some) {
      picture.replaceChildren(svg("text", { class: "empty-text", x: width / 2, y: height / 2, "text-anchor": "middle" }, empty));
      said.textContent = "";
      return;
    }
    picture.replaceChildren(
      ...marks.map((mark) => svg("g", {},
        svg("line", { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: y(mark), y2: y(mark) }),
        svg("text", { class: "tick-text", x: PAD.left - 6, y: y(mark) + 4, "text-anchor": "end" }, format(mark, true)))),
      ...times.map((time, i) => svg("text", { class: "tick-text", x: x(time), y: height - 4,
        "text-anchor": i === 0 ? "start" : i === times.length - 1 ? "end" : "middle" }, clock(time))),
      ...series.flatMap((one) => shapes(one, y)).flat(2));
    const point = cursor == null ? null : data.points.find((one) => one.time === cursor);
    if (point) {
      const at = x(point.time + data.step / 2);
      picture.append(svg("line", { class: "cursor", x1: at, x2: at, y1: PAD.top, y2: height - PAD.bottom }));
    }
    said.textContent = point ? words(point) : "";
  }

  function choose(point) {
    cursor = point ? point.time : null;
    paint();
  }
  picture.addEventListener("pointermove", (event) => {
    const at = data.begin + ((event.offsetX - PAD.left) / (width - PAD.left - PAD.right)) * (data.end - data.begin) - data.step / 2;
    choose(data.points.reduce((best, point) => (best && Math.abs(best.time - at) <= Math.abs(point.time - at) ? best : point), null));
  });
  picture.addEventListener("pointerleave", () => choose(null));
  picture.addEventListener("blur", () => choose(null));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step || !data.points.length) return;
    event.preventDefault();
    const now = data.points.findIndex((point) => point.time === cursor);
    const next = now < 0 ? data.points.length - 1 : now + step;
    choose(data.points[Math.max(0, Math.min(data.points.length - 1, next))]);
  });

  const end = whenSized(element, (now) => {
    width = now;
    paint();
  });
  return {
    element,
    end,
    draw(next) {
      data = next;
      paint();
    },
  };
}
