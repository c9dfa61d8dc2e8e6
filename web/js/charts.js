// Charts over time, drawn by uPlot. A chart is one stop of the keyboard: arrows move the cursor from point to point, and
// what stands there is said in words beneath. Colours are the page's, light or dark.
import uPlot from "/uplot/uplot.js";
import { ticks, whenSized } from "./axis.js";
import { el } from "./dom.js";

const FONT = "12px system-ui, sans-serif";
const dark = matchMedia("(prefers-color-scheme: dark)");
const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const exact = (time) => new Date(time).toLocaleTimeString();
const colour = (token) => getComputedStyle(document.documentElement).getPropertyValue(token).trim();

/** uPlot's columns: a row for each point, at the middle of its time, and empty rows wherever points are missing. */
function columns(data, series) {
  const times = [];
  const values = series.map(() => []);
  const points = [];
  const put = (time, point) => {
    times.push((time + (data.middle ?? data.step / 2)) / 1000);
    series.forEach((one, i) => values[i].push(point?.[one.key] ?? null));
    points.push(point);
  };
  let next = data.begin;
  const fill = (until) => {
    for (; next < until - data.step / 2; next += data.step) put(next, null);
  };
  for (const point of data.points) {
    fill(point.time);
    put(point.time, point);
    next = point.time + data.step;
  }
  fill(data.end);
  return { rows: [times, ...values], points };
}

/** The row with a point that lies nearest to a row. */
function nearest(points, row) {
  for (let off = 0; row != null && off < points.length; off++) {
    if (points[row - off]) return points[row - off];
    if (points[row + off]) return points[row + off];
  }
  return null;
}

/**
 * A chart over time. `series`: [{key, name, kind: "line" or "bars", look: a class of the key, colour: a token, dash}];
 * `format(value, onAxis)` says a value in words. `base`: the axis has round multiples of it, 1024 for bytes.
 * draw({begin, end, step, middle, points: [{time, ...}]}) draws it, in milliseconds; a point lies `middle` after its time
 * (half a step, unless said); null values leave a gap. end() when it is taken away.
 */
export function timeChart({ title, series, format, height = 200, empty, base = 1 }) {
  const port = el("div", { class: "chart", tabindex: 0, role: "img" });
  const none = el("p", { class: "chart-empty", hidden: true }, empty);
  const said = el("p", { class: "said", "aria-live": "polite" });
  const keys = el("span", { class: "keys" }, series.map((one) => [el("span", { class: `key ${one.look}` }), one.name]));
  const element = el("figure", { class: "chart-box" },
    el("figcaption", {}, el("h3", {}, title), keys), port, none, said);
  let data = { begin: 0, end: 1, step: 1, points: [] };
  let drawn = { rows: [[]], points: [] };
  let plot = null;
  let width = 0;

  const words = (point) =>
    `${exact(point.time)}: ${series.map((one) => `${one.name} ${point[one.key] == null ? "–" : format(point[one.key])}`).join(", ")}`;

  function say() {
    const point = nearest(drawn.points, plot?.cursor.idx);
    said.textContent = point ? words(point) : "";
  }

  function options() {
    const [faint, line, ink] = ["--faint", "--line", "--ink"].map(colour);
    const scale = () => ticks(Math.max(0, ...drawn.rows.slice(1).flat()) / base, 4).map((mark) => mark * base);
    const axis = { stroke: faint, font: FONT, ticks: { show: false } };
    return {
      width, height, padding: [8, 26, 0, 0],
      legend: { show: false },
      // No zooming: the page says which stretch of time it shows.
      cursor: { y: false, drag: { x: false, y: false }, bind: { mousedown: () => null, mouseup: () => null, dblclick: () => null }, points: { size: 7, fill: ink, stroke: ink } },
      scales: { x: { time: true, range: () => [data.begin / 1000, data.end / 1000] }, y: { range: () => [0, scale().at(-1)] } },
      axes: [
        { ...axis, size: 24, gap: 4, space: 80, grid: { show: false }, values: (_, times) => times.map((time) => clock(time * 1000)) },
        { ...axis, size: 62, gap: 6, grid: { stroke: line, width: 1 }, splits: scale, values: (_, marks) => marks.map((mark) => format(mark, true)) },
      ],
      series: [{}, ...series.map((one) => {
        const stroke = colour(one.colour);
        return one.kind === "bars"
          ? { label: one.name, fill: stroke, width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.85, 40], align: 0 }) }
          : { label: one.name, stroke, width: 2, dash: one.dash, points: { show: true, size: 5, fill: stroke, stroke } };
      })],
      hooks: { setCursor: [say] },
    };
  }

  function make() {
    plot?.destroy();
    plot = width ? new uPlot(options(), drawn.rows, port) : null;
  }

  function paint() {
    const some = data.points.length > 0;
    port.hidden = !some;
    none.hidden = some;
    if (!some || !width) return;
    const most = Math.max(0, ...drawn.rows.slice(1).flat());
    port.setAttribute("aria-label", `${title}, ${clock(data.begin)} to ${clock(data.end)}; most ${format(most)}. Arrow keys read the points.`);
    if (plot) plot.setData(drawn.rows);
    else make();
    say();
  }

  /** Puts the cursor on a row, or (null) away. */
  function choose(row) {
    if (plot) plot.setCursor(row == null ? { left: -10, top: -10 } : { left: plot.valToPos(drawn.rows[0][row], "x"), top: 0 });
  }
  port.addEventListener("blur", () => choose(null));
  port.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    const rows = drawn.points.flatMap((point, row) => (point ? [row] : []));
    if (!step || !rows.length) return;
    event.preventDefault();
    const now = rows.indexOf(plot?.cursor.idx ?? -1);
    choose(rows[now < 0 ? rows.length - 1 : Math.max(0, Math.min(rows.length - 1, now + step))]);
  });
  dark.addEventListener("change", make);
  const unsize = whenSized(element, (now) => {
    width = now;
    if (plot) plot.setSize({ width, height });
    else paint();
  });
  return {
    element,
    end() {
      unsize();
      dark.removeEventListener("change", make);
      plot?.destroy();
    },
    draw(next) {
      data = next;
      drawn = columns(data, series);
      paint();
    },
  };
}
