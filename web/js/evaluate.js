// A folder of labelled images (label/file.png) put to a deployed model one by one: accuracy, confusion, misses as pictures,
// latency. The same counting as `shoal eval`.
import { sendBytes } from "./api.js";
import { el, meter, ms, number, state } from "./dom.js";
import { nameOf } from "./answers.js";

const AT_ONCE = 3;
const MISSES = 60;
const IMAGE = /\.(png|jpe?g)$/i;

/** Right answers are named by the label's text; without labels by the number of the output. */
export const matches = (item, truth) => (item.label != null && item.label === truth) || (item.label == null && String(item.index) === truth);

export function percentile(sorted, part) {
  return sorted.length ? sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] : null;
}

/** Results {truth, said, top, latency} to figures. */
export function figures(results) {
  const latencies = results.map((r) => r.latency).sort((a, b) => a - b);
  const names = [...new Set(results.flatMap((r) => [r.truth, r.said]))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const confusion = new Map(names.map((name) => [name, new Map()]));
  for (const { truth, said } of results) confusion.get(truth).set(said, (confusion.get(truth).get(said) ?? 0) + 1);
  return {
    images: results.length,
    top1: results.filter((r) => r.top === 1).length,
    top5: results.filter((r) => r.top >= 1 && r.top <= 5).length,
    mean: latencies.reduce((sum, x) => sum + x, 0) / (latencies.length || 1),
    p50: percentile(latencies, 0.5),
    p95: percentile(latencies, 0.95),
    names, confusion,
  };
}

function imagesOf(files) {
  return files.filter((file) => IMAGE.test(file.name)).map((file) => {
    const path = (file.webkitRelativePath || file.name).split("/");
    return { file, truth: path.length > 1 ? path.at(-2) : "", path: path.slice(-2).join("/") };
  }).filter((image) => image.truth).sort((a, b) => a.path.localeCompare(b.path, "en", { numeric: true }));
}

function matrix({ names, confusion }) {
  if (names.length > 40) return el("p", { class: "faint" }, `${names.length} labels: too many for a table. The misses below name what was said.`);
  const row = (truth) => {
    const all = [...confusion.get(truth).values()].reduce((sum, n) => sum + n, 0);
    return el("tr", {}, el("th", { scope: "row" }, truth), names.map((said) => {
      const n = confusion.get(truth).get(said) ?? 0;
      const shade = n ? ` heat-${Math.max(1, Math.round((n / all) * 4))}` : "";
      return el("td", { class: `${said === truth ? "right" : "wrong"}${shade}`, title: `${truth} read as ${said}: ${n} of ${all}` }, n || "·");
    }), el("td", { class: "number" }, all ? `${(((confusion.get(truth).get(truth) ?? 0) / all) * 100).toFixed(1)} %` : ""));
  };
  return el("div", { class: "scroll", tabindex: 0 }, el("table", { class: "confusion" },
    el("caption", {}, "Rows: what it is. Columns: what the model said."),
    el("thead", {}, el("tr", {}, el("td"), names.map((name) => el("th", { scope: "col" }, name)), el("th", { scope: "col", class: "number" }, "right"))),
    el("tbody", {}, names.filter((name) => confusion.get(name).size).map(row))));
}

/** `model()` names the deployed model to ask, `knows(label)` says whether it can answer that label at all. */
export function evaluation(model, knows) {
  const input = el("input", { type: "file", webkitdirectory: true, multiple: true });
  const status = el("p", { role: "status" });
  const progress = el("progress", { max: 1, value: 0, hidden: true, "aria-label": "images asked" });
  const stop = el("button", { type: "button", hidden: true, onclick: () => { running = null; } }, "Stop");
  const out = el("div");
  const urls = [];
  let running = null;

  function show(results, misses, failed) {
    const f = figures(results);
    const tile = (name, value, part) => el("div", { class: "figure" }, el("dt", {}, name), el("dd", {}, value), part != null && meter(part, `${name}: ${value}`));
    const percent = (n) => `${((n / (f.images || 1)) * 100).toFixed(1)} %`;
    out.replaceChildren(
      el("dl", { class: "figures" },
        tile("first answer right", `${percent(f.top1)}`, f.top1 / (f.images || 1)),
        tile("among the first five", percent(f.top5), f.top5 / (f.images || 1)),
        tile("images", number(f.images)),
        tile("median latency", ms(f.p50)), tile("95 of 100 within", ms(f.p95))),
      ...[failed.length && el("details", {}, el("summary", { class: "bad" }, `${failed.length} images could not be asked`),
        el("ul", { class: "plain" }, failed.slice(0, MISSES).map(({ path, error }) => el("li", {}, `${path}: ${error.line ?? error.message}`)))),
      el("h3", {}, "Confusion"), matrix(f),
      el("h3", {}, misses.length ? `Misses: ${misses.length}` : "No misses")].filter(Boolean),
      el("div", { class: "misses" }, misses.slice(0, MISSES).map((miss) => el("figure", {},
        el("img", { src: miss.url, alt: miss.path, loading: "lazy" }), el("figcaption", {}, el("strong", {}, miss.truth), ` read as ${miss.said}`)))),
      misses.length > MISSES ? el("p", { class: "faint" }, `and ${misses.length - MISSES} more; shoal eval --json lists all`) : "");
  }

  async function run(files) {
    const images = imagesOf(files);
    urls.splice(0).forEach((url) => URL.revokeObjectURL(url));
    out.replaceChildren();
    if (!images.length) {
      status.replaceChildren(state("nothing to ask", "warn"), " No PNG or JPEG in folders named by label was found: the folder should look like digits/7/picture.png.");
      return;
    }
    const unknown = [...new Set(images.map((image) => image.truth))].filter((truth) => !knows(truth));
    if (unknown.length) {
      status.replaceChildren(state("not asked", "bad"), ` The model has no label ${unknown.slice(0, 5).map((text) => `“${text}”`).join(", ")}${unknown.length > 5 ? ` and ${unknown.length - 5} more` : ""}, so each such image would count as a miss. Name the folders as the model's labels are, or set the labels on the model's page.`);
      return;
    }
    const mine = {};
    running = mine;
    const [results, misses, failed] = [[], [], []];
    const name = model();
    let next = 0;
    let shown = 0;
    progress.hidden = stop.hidden = false;
    async function worker() {
      while (next < images.length && running === mine) {
        const { file, truth, path } = images[next++];
        try {
          const answer = await sendBytes("POST", `/api/v1/models/${encodeURIComponent(name)}/classify?top=5`, file, /png$/i.test(file.name) ? "image/png" : "image/jpeg");
          const said = nameOf(answer.labels[0]);
          const top = answer.labels.findIndex((item) => matches(item, truth)) + 1;
          results.push({ truth, said, top, latency: answer.latency_ms });
          if (top !== 1 && misses.length < MISSES) urls.push(URL.createObjectURL(file));
          if (top !== 1) misses.push({ path, truth, said, url: urls.at(-1) });
        } catch (error) {
          failed.push({ path, error });
          if (error.status === 404 || error.status === 0) running = null;
        }
        const done = results.length + failed.length;
        progress.value = done / images.length;
        status.textContent = `${number(done)} of ${number(images.length)} images`;
        if (performance.now() - shown > 1000) {
          shown = performance.now();
          show(results, misses, failed);
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    if (running === mine || running === null) {
      progress.hidden = stop.hidden = true;
      status.textContent = `${number(results.length)} of ${number(images.length)} images asked of ${name}`;
      show(results, misses, failed);
    }
  }
  input.addEventListener("change", () => run([...input.files]));
  return {
    element: el("div", {}, el("p", {}, "Choose a folder whose sub-folders are named by label, as in ", el("code", {}, "digits/7/picture.png"),
      ". Every image is asked and none is kept. In CI: ", el("code", {}, "shoal eval NAME --set FOLDER"), "."),
    el("label", { class: "field" }, "Folder of labelled images", input), el("div", { class: "actions" }, progress, stop), status, out),
    run,
    end: () => {
      running = {};
      urls.forEach((url) => URL.revokeObjectURL(url));
    },
  };
}
