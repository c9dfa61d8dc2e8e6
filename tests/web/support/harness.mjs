// What the browser tests share: lines that tests/run counts, a server and boards of their own, a browser that keeps an
// account of what a page must never do (ask another host, break the content security policy, throw). Everything started
// here is ended here, by its process number. Waiting is always for a condition; the limits are only for what never comes.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export const root = path.resolve(new URL("../../..", import.meta.url).pathname);
const B = path.resolve(root, process.env.B || "build");
export const patience = process.env.SANITIZE ? 4 : 1;
const LIMIT_MS = 30000 * patience;
const file = path.basename(process.argv[1], ".mjs");

const children = new Set();
const ends = [];
let failures = 0;
export const work = fs.mkdtempSync(path.join(os.tmpdir(), "shoal-web."));

// ---- lines ----

export function skip(name, reason) {
  console.log(`SKIP ${name}: ${reason}`);
}

/** One rule: `call` throws when it does not hold. A page is pictured then, beside the logs. */
export async function rule(name, call) {
  const began = Date.now();
  try {
    await call();
    console.log(`ok - ${name}`);
    if (Date.now() - began > 15000) console.log(`# took ${Date.now() - began} ms`);
  } catch (error) {
    failures++;
    console.log(String(error.stack ?? error).replace(/^/gm, "# "));
    console.log(`not ok - ${name}`);
    await picture(name);
  }
}

export function check(holds, what) {
  if (!holds) throw new Error(typeof what === "string" ? what : JSON.stringify(what));
}

export function equal(got, want, what = "") {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`${what} got ${a}, expected ${b}`);
}

/** Tries until `call` answers something true, and answers that. */
export async function until(what, call, limit = LIMIT_MS) {
  const end = Date.now() + limit;
  let last;
  for (;;) {
    const value = await Promise.resolve().then(call).catch((error) => { last = error; });
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what}: not within ${limit} ms${last ? `; ${last.message}` : ""}`);
    await new Promise((resolve) => { setTimeout(resolve, 40); });
  }
}

// ---- processes ----

function start(name, program, args) {
  const out = fs.openSync(path.join(work, `${name}.log`), "a");
  const child = spawn(path.join(B, program), args, { stdio: ["ignore", "pipe", out], cwd: root });
  fs.closeSync(out);
  child.said = "";
  child.stdout.on("data", (text) => { child.said += text; });
  child.ended = new Promise((resolve) => { child.on("exit", () => { children.delete(child); resolve(); }); });
  child.on("error", () => children.delete(child));
  children.add(child);
  return child;
}

export async function stop(child, signal = "SIGTERM") {
  child.kill(signal);
  const late = setTimeout(() => child.kill("SIGKILL"), 10000 * patience);
  await child.ended;
  clearTimeout(late);
}

/** A server on free ports; `again` is its former self, whose ports and data it takes. */
export async function startServer(again, name = "server") {
  const data = path.join(work, `${name}.data`);
  const child = start(name, "shoal", ["serve", "--data", data, "--listen", again?.listen ?? "127.0.0.1:0",
    "--board-listen", again?.boards ?? "127.0.0.1:0", "--json"]);
  const line = await until("the server listens", () => {
    check(child.exitCode === null, "it ended");
    return child.said.includes("\n") && child.said;
  });
  const said = JSON.parse(line);
  check(said.url, `the server says ${line}`);
  const url = said.url.replace(/\/$/, "");
  return { child, data, url, listen: url.replace("http://", ""), boards: said.board_address, code: again?.code };
}

export async function ask(server, method, where, body, type = "application/json") {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.headers["Content-Type"] = type;
    options.body = type === "application/json" ? JSON.stringify(body) : body;
  }
  const answer = await fetch(server.url + where, options);
  const text = await answer.text();
  check(answer.ok, `${method} ${where}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

export const get = (server, where) => ask(server, "GET", where);

/** A host board; enrols on its first start. */
export async function startBoard(server, name, ...options) {
  const state = path.join(work, name);
  if (!fs.existsSync(state)) {
    fs.mkdirSync(state);
    server.code ??= (await ask(server, "POST", "/api/v1/enrolments", { accept: true, uses: 16 })).code;
    options = ["--code", server.code, ...options];
  }
  return start(name, "shoal-board", ["--server", server.boards, "--state", state, "--name", name, ...options]);
}

export async function startBoards(server, names, ...options) {
  const boards = {};
  for (const name of names) boards[name] = await startBoard(server, name, ...options);
  await until("the boards are online", async () => {
    const { items } = await get(server, "/api/v1/boards");
    return names.every((name) => items.some((board) => board.name === name && board.link === "online"));
  });
  return boards;
}

export async function upload(server, name, file) {
  const said = await ask(server, "PUT", `/api/v1/models/${name}`, fs.readFileSync(file), "application/octet-stream");
  if (said.job) await get(server, `/api/v1/jobs/${said.job}?wait=60`);
  return said;
}

export async function deploy(server, body) {
  const { id } = await ask(server, "POST", "/api/v1/deployments", body);
  const deployment = await get(server, `/api/v1/deployments/${id}?wait=60`);
  equal(deployment.state, "active", `deployment of ${body.model}`);
  return deployment;
}

export const digits = path.join(root, "models/digits.tflite");
export const sample = (digit) => path.join(root, `web/samples/digit_${digit}.png`);

/** The digit reader over the boards that are online, with its labels. */
export async function deployDigits(server) {
  await upload(server, "digits", digits);
  await ask(server, "PUT", "/api/v1/models/digits/versions/latest/labels", fs.readFileSync(path.join(root, "models/digits.labels")), "application/octet-stream");
  return deploy(server, { model: "digits" });
}

export const classify = (server, digit, model = "digits") =>
  ask(server, "POST", `/api/v1/models/${model}/classify`, fs.readFileSync(sample(digit)), "image/png");

// ---- the browser ----

const CHROMIUM = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"].find((name) => name && fs.existsSync(name));
let browser = null;
const pages = new Set();

function playwright() {
  try {
    return createRequire(path.join(root, "build/node/"))("playwright-core").chromium;
  } catch {
    return null;
  }
}

export async function launch() {
  const driver = playwright();
  const missing = !driver ? "playwright-core is not in build/node (scripts/setup test)" : !CHROMIUM ? "there is no chromium" : null;
  if (missing) {
    skip(`web/${file}`, missing);
    await finish();
  }
  browser = await driver.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
  });
  ends.push(() => browser.close());
  return browser;
}

/** In every page before its own scripts: reports of the content security policy, and elements that listen to clicks. */
function spy() {
  addEventListener("securitypolicyviolation", (event) => console.error(`POLICY ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
  const add = EventTarget.prototype.addEventListener;
  globalThis.listening = new WeakMap();
  EventTarget.prototype.addEventListener = function addEventListener(type, ...rest) {
    const known = globalThis.listening.get(this) ?? new Set();
    globalThis.listening.set(this, known.add(type));
    return add.call(this, type, ...rest);
  };
}

/**
 * A browser's profile of its own. `complaints` gathers what no page may ever do. Failed requests that a test brings about
 * on purpose (a refusal, a server that is gone) are told by the browser as "Failed to load resource": no complaint.
 */
export async function newContext(server, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(LIMIT_MS);
  context.complaints = [];
  const complain = (text) => context.complaints.push(text);
  const host = new URL(server.url).host;
  context.on("request", (request) => {
    const url = new URL(request.url());
    if (!["data:", "blob:"].includes(url.protocol) && url.host !== host) complain(`asked another host: ${request.url()}`);
  });
  context.on("page", (page) => {
    pages.add(page);
    page.on("close", () => pages.delete(page));
    page.on("pageerror", (error) => complain(`error on ${page.url()}: ${error.stack ?? error}`));
    page.on("dialog", (dialog) => { complain(`a dialog of the browser: ${dialog.message()}`); dialog.dismiss(); });
    page.on("console", (message) => {
      if (message.type() === "error" && !/^Failed to load resource/.test(message.text())) complain(`on ${page.url()}: ${message.text()}`);
    });
  });
  await context.addInitScript(spy);
  return context;
}

/** A page of the dashboard that knows the server's state. */
export async function open(context, server, where = "#/") {
  const page = await context.newPage();
  await visit(page, server, where);
  return page;
}

export async function visit(page, server, where) {
  const url = `${server.url}/${where}`;
  if (page.url() === url) await page.reload();
  else {
    // Only the part behind # changes, so the page stays: its former heading is not the one to wait for.
    await page.evaluate(() => document.querySelector("main h1")?.setAttribute("data-former", ""));
    await page.goto(url);
  }
  await page.locator("#link", { hasText: /^live$/ }).waitFor();
  await page.locator("main h1:not([data-former])").first().waitFor();
}

/** Waits until nothing on the page changes any more: no new text or element for a moment. */
export async function settled(page, still = 350) {
  await page.evaluate((still) => new Promise((resolve) => {
    let timer = setTimeout(done, still);
    const late = setTimeout(done, 4000);
    const watcher = new MutationObserver((changes) => {
      if (changes.every((change) => change.target.nodeName === "TIME" || change.target.parentNode?.nodeName === "TIME")) return;
      clearTimeout(timer);
      timer = setTimeout(done, still);
    });
    function done() {
      clearTimeout(late);
      watcher.disconnect();
      resolve();
    }
    watcher.observe(document.body, { childList: true, subtree: true, characterData: true });
  }), still);
}

export async function noComplaints(...contexts) {
  await rule("no_page_asks_another_host_breaks_the_policy_or_throws", () => equal(contexts.flatMap((context) => context.complaints), []));
}

async function picture(name) {
  const folder = path.join(root, process.env.B || "build", "test-results");
  if (!fs.existsSync(folder)) return;
  let i = 0;
  for (const page of pages) await page.screenshot({ path: path.join(folder, `web.${file}.${name}${i++ || ""}.png`), timeout: 3000 }).catch(() => undefined);
}

// ---- the end ----

let ending = false;
export async function finish() {
  if (ending) return;
  ending = true;
  for (const end of ends.reverse()) await end().catch(() => undefined);
  await Promise.all([...children].map((child) => stop(child)));
  if (failures) {
    for (const log of fs.readdirSync(work).filter((name) => name.endsWith(".log"))) {
      const lines = fs.readFileSync(path.join(work, log), "utf8").trim().split("\n").slice(-12);
      console.log(`# --- ${log}\n${lines.map((line) => `# ${line}`).join("\n")}`);
    }
  }
  fs.rmSync(work, { recursive: true, force: true });
  process.exit(failures ? 1 : 0);
}

function failed(error) {
  console.log(String(error.stack ?? error).replace(/^/gm, "# "));
  console.log(`not ok - ${file}_runs_to_its_end`);
  failures++;
  finish();
}
process.on("uncaughtException", failed);
process.on("unhandledRejection", failed);
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => { failures++; finish(); });
