// timeout: 150
// What happens while a page is open: a board dies or falls silent, the server dies and comes back, eight tabs look on.
import { check, classify, deploy, deployDigits, equal, finish, get, launch, newContext, noComplaints, open, rule, settled, startBoards, startServer, stop, until, visit } from "./support/harness.mjs";

await launch();
let server = await startServer();
const boards = await startBoards(server, ["one", "two", "three"]);
await deployDigits(server);
const context = await newContext(server);
const page = await open(context, server, "#/boards");

await rule("an_inference_asked_elsewhere_appears_on_the_overview", async () => {
  await visit(page, server, "#/");
  const { inference } = await classify(server, 4);
  await page.locator(`main a[href="#/inferences/${inference}"]`).waitFor();
});

await rule("a_killed_board_shows_within_six_seconds", async () => {
  const seen = async (where, text) => {
    const tab = await open(context, server, where);
    await settled(tab);
    return { tab, shows: () => until(`${where} says ${text}`, async () => text.test(await tab.locator("main").innerText()), 6000) };
  };
  const { id } = (await get(server, "/api/v1/boards")).items.find((board) => board.name === "two");
  const all = await Promise.all([seen("#/", /two.*(offline|not reached|out of reach)/is), seen(`#/boards/${id}`, /offline|stale|silent/i), seen("#/deployments", /degraded/i)]);
  const began = Date.now();
  await stop(boards.two, "SIGKILL");
  await Promise.all(all.map((one) => one.shows()));
  console.log(`# shown on three pages after ${Date.now() - began} ms`);
  await Promise.all(all.map((one) => one.tab.close()));
});

await rule("eight_tabs_share_one_event_stream_and_all_stay_live", async () => {
  const tabs = [page];
  let streams = 0;
  const crowd = await newContext(server);
  crowd.on("request", (request) => { if (request.url().includes("/api/v1/events")) streams++; });
  for (let i = 0; i < 8; i++) tabs[i] = await open(crowd, server, i % 2 ? "#/" : "#/boards");
  equal(streams, 1, "event streams");
  // Each tab still reaches the server: no pool of connections is used up.
  await Promise.all(tabs.map(async (tab) => equal(await tab.evaluate(() => fetch("/api/v1/limits").then((answer) => answer.status)), 200)));
  const away = (tab) => tab.evaluate(() => /offline|stale|degraded/i.test(document.querySelector("main").innerText));
  await Promise.all(tabs.map((tab) => until("the tab says that board two is away", () => away(tab))));
  boards.two = (await startBoards(server, ["two"])).two;
  await Promise.all(tabs.map((tab) => until("the tab says that board two is back", async () =>
    tab.evaluate(() => !/offline|stale/i.test(document.querySelector("main").innerText)))));
  // The tab that listens is closed: another takes over.
  await tabs[0].close();
  await until("another tab listens", () => streams === 2);
  await stop(boards.two, "SIGKILL");
  await until("the last tab hears of it", () => tabs[7].evaluate(() => /two/.test(document.querySelector("main").innerText) && /offline|stale/i.test(document.querySelector("main").innerText)));
  equal(crowd.complaints, []);
  await crowd.close();
});

await rule("a_board_that_says_nothing_more_shows_within_six_seconds", async () => {
  await visit(page, server, "#/boards");
  await until("board one is online", async () => (await page.getByRole("article").filter({ hasText: "one" }).first().innerText()).includes("online"));
  boards.one.kill("SIGSTOP"); // its connection stays open
  try {
    await until("the card says so", async () => /offline|stale|silent/i.test(await page.getByRole("article").filter({ hasText: "one" }).first().innerText()), 6000);
  } finally {
    boards.one.kill("SIGCONT");
  }
});

await rule("a_killed_server_is_shown_at_once_and_its_return_too", async () => {
  await visit(page, server, "#/boards");
  await settled(page);
  const born = await page.evaluate(() => performance.timeOrigin);
  const kept = await page.locator("main").innerText();
  await stop(server.child, "SIGKILL");
  await until("the page says that the server is away", async () => /out of reach/.test(await page.locator("#link").innerText()), 3000);
  check((await page.locator("main").innerText()).includes("one"), `what was known is still there: ${kept}`);
  server = await startServer(server);
  await until("live again", async () => (await page.locator("#link").innerText()) === "live");
  boards.two = (await startBoards(server, ["one", "two", "three"].slice(1, 2))).two;
  await until("boards are seen anew", async () => !/offline|stale/i.test(await page.locator("main").innerText()));
  equal(await page.evaluate(() => performance.timeOrigin), born, "the page was not loaded anew: its beginning");
});

await rule("a_dead_board_is_replaced_from_the_overview_and_the_answer_is_the_same", async () => {
  await until("the deployment is back with its boards", async () => (await get(server, "/api/v1/deployments")).items[0].state === "active");
  const before = await classify(server, 4);
  const [deployment] = (await get(server, "/api/v1/deployments")).items;
  await startBoards(server, ["spare"]);
  await stop(boards.two, "SIGKILL");
  const todo = page.locator("li.todo", { has: page.getByRole("link", { name: "two", exact: true }) });
  await visit(page, server, "#/");
  await todo.getByRole("button", { name: "Replace…" }).click();
  const dialog = page.getByRole("dialog");
  const offered = await dialog.locator("option").allInnerTexts();
  equal([offered.length, offered[0].startsWith("spare: free")], [1, true], `boards to choose from, ${offered}:`);
  await dialog.getByRole("button", { name: "Replace", exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  const { generation } = await get(server, `/api/v1/deployments/${deployment.id}?wait=60`);
  equal(generation, deployment.generation + 1, "generation");
  await page.getByText("Nothing needs you now.").waitFor();
  const after = await classify(server, 4);
  equal(after.labels, before.labels, "labels and scores");
  const names = (await get(server, "/api/v1/boards")).items.map((board) => board.name).sort();
  equal(names, ["one", "three", "two", "two-old"], "boards");
  await visit(page, server, "#/boards");
  await page.getByRole("article").filter({ hasText: "two-old" }).getByText(/safe to unplug/i).first().waitFor();
});

await rule("roll_back_is_offered_only_when_there_is_a_former_deployment", async () => {
  await visit(page, server, "#/deployments");
  const card = page.getByRole("article").first();
  await card.getByRole("button", { name: "Retire" }).waitFor();
  equal(await card.getByRole("button", { name: "Roll back" }).count(), 0, "buttons without a former one");
  const { former } = await deploy(server, { model: "digits", shares: "even", replace: true });
  check(former, "the API names the former one");
  await card.getByRole("button", { name: "Roll back" }).click();
  const dialog = page.getByRole("dialog");
  check(/deployment, [0-9A-Z]+, is pushed/.test(await dialog.innerText()) && (await dialog.innerText()).includes(former), "the dialog names it, in its sentence");
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await until("the former one is active", async () => (await get(server, `/api/v1/deployments/${former}`)).state === "active");
  // From the page of a deployment to the page of the one that takes over.
  const next = await deploy(server, { model: "digits", shares: "even", replace: true });
  await visit(page, server, `#/deployments/${next.id}`);
  await page.getByRole("button", { name: "Roll back" }).click();
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await page.waitForURL(new RegExp(`#/deployments/${next.former}$`));
  await until("it is active", async () => (await get(server, `/api/v1/deployments/${next.former}`)).state === "active");
});

await noComplaints(context);
await finish();
