// The frame of the page: which page is shown, the state of the link to the server, ages that grow.
import { live, start, subscribe } from "./live.js";
import { updateAges } from "./dom.js";

// Pages export show(container, parameters): draws into the container, returns a function that ends it.
const pages = [
  [/^\/$/, "overview", "Overview"],
  [/^\/boards$/, "boards", "Boards"],
  [/^\/boards\/([^/]+)$/, "board", "Board"],
  [/^\/models$/, "models", "Models"],
  [/^\/models\/([^/]+)(?:\/([^/]+))?$/, "model", "Model"],
  [/^\/deployments$/, "deployments", "Deployments"],
  [/^\/deployments\/([^/]+)$/, "deployment", "Deployment"],
  [/^\/inferences\/([^/]+)$/, "inference", "Inference"],
  [/^\/try(?:\/([^/]+))?$/, "try", "Try it"],
];

const main = document.getElementById("main");
let end = () => undefined;
let turn = 0;

function mark(path) {
  for (const link of document.querySelectorAll("nav a")) {
    const target = link.getAttribute("href").slice(1);
    const current = target === "/" ? path === "/" : path === target || path.startsWith(`${target}/`);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function route(focus) {
  const path = location.hash.startsWith("#/") ? location.hash.slice(1) : "/";
  const found = pages.map(([pattern, name, title]) => ({ match: path.match(pattern), name, title })).find((page) => page.match);
  const mine = ++turn;
  mark(path);
  end();
  end = () => undefined;
  const page = found ?? { match: [], name: "missing", title: "Not found" };
  const module = await import(`/pages/${page.name}.js`);
  if (mine !== turn) return;
  document.title = `${page.title} · Shoal`;
  main.replaceChildren();
  window.scrollTo(0, 0);
  end = module.show(main, page.match.slice(1).map((part) => part && decodeURIComponent(part))) ?? (() => undefined);
  if (focus) main.focus({ preventScroll: true });
}

/** Cells of tables know their column's name: on a phone a row is a card of named values (css/fleet.css). */
function nameCells(row) {
  const heads = row.closest("table")?.tHead?.rows[0]?.cells ?? [];
  for (const [i, cell] of [...row.cells].entries())
    if (cell.tagName === "TD" && cell.colSpan === 1 && heads[i]?.textContent) cell.dataset.name = heads[i].textContent;
}
new MutationObserver((changes) => {
  for (const { addedNodes } of changes)
    for (const node of addedNodes)
      if (node.nodeType === Node.ELEMENT_NODE) for (const row of node.matches("tr") ? [node] : node.querySelectorAll("tbody tr")) nameCells(row);
}).observe(main, { childList: true, subtree: true });

subscribe(["link"], () => {
  const link = document.getElementById("link");
  link.textContent = { true: "live", false: "The server is out of reach; trying again.", null: "connecting" }[live.link];
  link.className = live.link === false ? "link bad" : "link";
  document.body.classList.toggle("out-of-reach", live.link === false);
});

addEventListener("hashchange", () => location.hash.startsWith("#/") && route(true));
start();
route(false);
setInterval(updateAges, 1000);
