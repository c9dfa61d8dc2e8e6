// timeout: 240
// Every page for everyone: contrast in light and dark, keyboard alone, 360 pixels, policy; and what the page weighs.
import fs from "node:fs";
import path from "node:path";
import { classify, deployDigits, equal, finish, get, launch, newContext, noComplaints, open, root, rule, settled, startBoards, startServer, until, upload, visit } from "./support/harness.mjs";
import { actions, focus, lowContrast, overflow, sideways, unreached } from "./support/judge.mjs";

await launch();
const empty = await startServer(null, "empty");
const server = await startServer();
await startBoards(server, ["one", "two", "three"], "--flash", "160K");
await deployDigits(server);
await upload(server, "second", path.join(root, "models/digits.tflite"));
const { inference } = await classify(server, 3);
await classify(server, 7);
const board = (await get(server, "/api/v1/boards")).items[0].id;
const deployment = (await get(server, "/api/v1/deployments")).items[0].id;

const pages = {
  overview: "#/", boards: "#/boards", board: `#/boards/${board}`, models: "#/models", model: "#/models/digits", undeployed: "#/models/second",
  deployments: "#/deployments", deployment: `#/deployments/${deployment}`, inference: `#/inferences/${inference}`,
  try: "#/try", missing: "#/no-such-page", "missing board": "#/boards/none", "missing model": "#/models/none",
  "missing deployment": "#/deployments/none", "missing inference": "#/inferences/none",
};
// The same pages after something was done on them: [link, what to do].
const states = {
  "boards, enrolling": ["#/boards", async (page) => {
    await page.getByRole("button", { name: "Enrol a board" }).click();
    await page.getByRole("button", { name: "Make a code" }).click();
    await page.getByText(/shoal-board --server/).first().waitFor();
  }],
  "models, a file refused": ["#/models", async (page) => {
    await page.locator("main input[type=file]").setInputFiles({ name: "notes.tflite", mimeType: "", buffer: Buffer.from("no model") });
    await page.getByRole("button", { name: "Upload" }).click();
    await page.getByText("refused").waitFor();
  }],
  "try, answered": ["#/try", async (page) => {
    await page.getByAltText("sample digit 7").click();
    await page.locator("svg.gantt rect").first().waitFor();
  }],
  "try, picture": ["#/try", (page) => page.getByRole("tab", { name: "Picture" }).click()],
  "try, tensor": ["#/try", (page) => page.getByRole("tab", { name: "Raw tensor" }).click()],
  "try, folder": ["#/try", (page) => page.getByRole("tab", { name: "Folder of images" }).click()],
};
const emptyPages = { overview: "#/", boards: "#/boards", models: "#/models", deployments: "#/deployments", try: "#/try" };

/** Tab from the top until the focus leaves the page or comes round. */
async function walk(page) {
  const { nameless } = await page.evaluate(actions);
  const faults = nameless.map((tag) => `has no name: ${tag}`);
  // The first stop of each page is the link that skips to its content. (A key first: a browser shows the focus to those
  // who use keys.)
  await page.keyboard.press("Tab");
  await page.evaluate(() => {
    globalThis.walked = new Set();
    document.querySelector(".skip").focus();
  });
  for (let i = 0; i < 400; i++) {
    const at = await page.evaluate(focus);
    if (!at || at.seen) break;
    if (!at.visible) faults.push(`focus not to be seen: ${at.tag}`);
    await page.keyboard.press("Tab");
  }
  return [...faults, ...(await page.evaluate(unreached)).map((tag) => `not reached: ${tag}`)];
}

async function narrow(page) {
  await page.setViewportSize({ width: 360, height: 740 });
  await settled(page, 150);
  const faults = [...await page.evaluate(overflow), ...await page.evaluate(sideways)];
  await page.setViewportSize({ width: 1280, height: 800 });
  return faults;
}

async function inDark(page) {
  await page.emulateMedia({ colorScheme: "dark" });
  const faults = await page.evaluate(lowContrast);
  await page.emulateMedia({ colorScheme: "light" });
  return faults;
}

const rules = {
  contrast_of_text_is_AA_in_light_on_every_page: (page) => page.evaluate(lowContrast),
  contrast_of_text_is_AA_in_dark_on_every_page: inDark,
  the_keyboard_reaches_and_shows_every_action_on_every_page: walk,
  no_page_and_no_table_scrolls_sideways_at_360_pixels: narrow,
};
const faults = Object.fromEntries(Object.keys(rules).map((name) => [name, []]));
const contexts = [];
// One visit of each page, of the server with everything and of the one with nothing: every judge looks at it.
for (const [where, list] of [[server, { ...pages, ...states }], [empty, emptyPages]]) {
  const context = await newContext(where);
  contexts.push(context);
  const page = await context.newPage();
  for (const [name, what] of Object.entries(list)) {
    const [link, act] = [what].flat();
    await visit(page, where, link);
    await act?.(page);
    await settled(page, 250);
    for (const [ruleName, judge] of Object.entries(rules))
      for (const fault of await judge(page)) faults[ruleName].push(`${where === empty ? "empty " : ""}${name}: ${fault}`);
  }
}
for (const name of Object.keys(rules)) await rule(name, () => equal(faults[name].join("\n"), ""));

const context = await newContext(server);
const page = await open(context, server);
await rule("the_keyboard_alone_opens_a_page_and_its_actions", async () => {
  const tabTo = async (name) => until(`focus on ${name}`, async () => {
    await page.keyboard.press("Tab");
    return (await page.evaluate(() => document.activeElement.textContent.trim())) === name;
  });
  await visit(page, server, "#/");
  await tabTo("Boards");
  await page.keyboard.press("Enter");
  await page.locator("main h1", { hasText: "Boards" }).waitFor();
  await tabTo("Enrol a board");
  await page.keyboard.press("Enter");
  await tabTo("Make a code");
  await page.keyboard.press("Enter");
  await page.getByText(/shoal-board --server/).first().waitFor();
  await tabTo("Rename");
  await page.keyboard.press("Space");
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.press("Escape");
  await until("the dialog is gone", async () => (await page.locator("dialog").count()) === 0);
  equal(await page.evaluate(() => document.activeElement.textContent), "Rename", "the focus comes back");
});

await rule("every_page_has_one_heading_a_title_and_a_language", async () => {
  for (const link of Object.values(pages)) {
    await visit(page, server, link);
    equal(await page.locator("main h1").count(), 1, link);
    equal(await page.evaluate(() => [document.documentElement.lang, / · Shoal$/.test(document.title)]), ["en", true], link);
  }
});

await rule("the_whole_dashboard_weighs_less_than_half_a_megabyte", async () => {
  const weigh = (folder) => fs.readdirSync(folder, { withFileTypes: true })
    .reduce((sum, one) => sum + (one.isDirectory() ? weigh(path.join(folder, one.name)) : fs.statSync(path.join(folder, one.name)).size), 0);
  const fresh = await newContext(server);
  let sent = 0;
  fresh.on("response", (answer) => answer.body().then((body) => { if (!answer.url().includes("/api/")) sent += body.length; }).catch(() => undefined));
  const first = await open(fresh, server);
  await settled(first);
  const carried = fs.readdirSync(path.join(root, "build/node/page")).filter((name) => name.startsWith("uplot."));
  equal(carried, ["uplot.css", "uplot.js"], "of npm:");
  const all = weigh(path.join(root, "web")) + carried.reduce((sum, name) => sum + fs.statSync(path.join(root, "build/node/page", name)).size, 0);
  console.log(`# page weight: the overview ${sent} bytes, all files of all pages ${all} bytes`);
  equal([sent > 0 && sent < 200000, all < 512 * 1024], [true, true]);
  await fresh.close();
});

await noComplaints(context, ...contexts);
await finish();
