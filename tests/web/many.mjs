// 500 boards and 200 models: the lists are windowed, a filter finds one among all, and what happens to one
// board touches only its own row. The numbers of elements are bounded, not times: those are the machine's.
import { check, deployDigits, equal, finish, get, launch, newContext, noComplaints, open, rule, settled, startBoards, startServer, until, visit } from "./support/harness.mjs";

const BOARDS = 500;
const MODELS = 200;
const MOST_ELEMENTS = 4500; // on any page, however many boards there are

await launch();
const server = await startServer();
await startBoards(server, ["one", "two"]);
await deployDigits(server);
const context = await newContext(server);

// Real boards and models of this server as patterns, many times over, served page by page as the API does.
const hex = (n) => n.toString(16).padStart(32, "0");
const [pattern] = (await get(server, "/api/v1/boards")).items;
const whole = await get(server, `/api/v1/boards/${pattern.id}`);
const boards = Array.from({ length: BOARDS }, (_, i) => ({ ...whole, ...pattern, id: hex(i + 1), name: `board-${String(i).padStart(3, "0")}`,
  link: i % 50 === 7 ? "offline" : "online", state: i % 100 === 3 ? "pending" : "accepted", location: `rack ${i % 20}` }));
const [model] = (await get(server, "/api/v1/models")).items;
const models = Array.from({ length: MODELS }, (_, i) => ({ ...model, name: `model-${String(i).padStart(3, "0")}`, active: i % 2 ? null : model.active }));

async function serve(name, items, key) {
  await context.route((url) => url.pathname === `/api/v1/${name}`, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const begin = query.get("after") ? items.findIndex((item) => item[key] === query.get("after")) + 1 : 0;
    const page = items.slice(begin, begin + Number(query.get("limit") ?? 50));
    return route.fulfill({ json: { items: page, next: begin + page.length < items.length ? page.at(-1)[key] : null } });
  });
}
await serve("boards", boards, "id");
await serve("models", models, "name");
await context.route((url) => /^\/api\/v1\/boards\/0/.test(url.pathname) && !/\/(log|states|readings)$/.test(url.pathname), (route) => {
  const id = new URL(route.request().url()).pathname.split("/").at(-1);
  return route.fulfill({ json: boards.find((board) => board.id === id) ?? {} });
});

const page = await open(context, server);
const main = page.locator("main");
const elements = () => page.evaluate(() => document.querySelectorAll("*").length);

await rule("no_page_grows_with_the_fleet", async () => {
  const counts = {};
  for (const link of ["#/", "#/boards", "#/models", "#/models/digits", "#/deployments", "#/try"]) {
    await visit(page, server, link);
    await settled(page);
    counts[link] = await elements();
  }
  console.log(`# elements: ${JSON.stringify(counts)}`);
  equal(Object.entries(counts).filter(([, count]) => count > MOST_ELEMENTS), []);
});

await rule("a_filter_finds_one_board_among_500", async () => {
  await visit(page, server, "#/boards");
  await main.getByText("board-000", { exact: true }).first().waitFor();
  check(/500/.test(await main.innerText()), "how many there are");
  await main.getByRole("searchbox").fill("board-487");
  await main.getByText("board-487", { exact: true }).first().waitFor();
  await until("only that one", async () => (await main.getByRole("article").count()) === 1);
});

await rule("a_filter_finds_one_model_among_200", async () => {
  await visit(page, server, "#/models");
  await main.getByText("model-000", { exact: true }).first().waitFor();
  await main.getByRole("searchbox").fill("model-199");
  await main.getByText("model-199", { exact: true }).first().waitFor();
  await until("only that one", async () => (await main.getByRole("article").count()) === 1);
});

await rule("all_boards_can_be_reached_by_showing_more", async () => {
  await visit(page, server, "#/boards");
  await main.getByRole("button", { name: "Show more" }).waitFor();
  const before = await main.getByRole("article").count();
  const clicks = await page.evaluate(() => {
    const more = () => [...document.querySelectorAll("main button")].find((button) => button.textContent === "Show more");
    let clicks = 0;
    for (; more() && clicks < 100; clicks++) more().click();
    return clicks;
  });
  equal([before < 120, clicks < 20, await main.locator("article").count()], [true, true, BOARDS]);
});

await rule("a_change_of_one_board_draws_one_row_anew", async () => {
  await visit(page, server, "#/boards");
  await main.getByText("board-010", { exact: true }).first().waitFor();
  await settled(page);
  await page.evaluate(() => {
    globalThis.drawn = 0;
    new MutationObserver((changes) => {
      for (const change of changes) for (const node of change.addedNodes) if (node.nodeName === "ARTICLE") globalThis.drawn++;
    }).observe(document.querySelector("main"), { childList: true, subtree: true });
  });
  boards[10] = { ...boards[10], location: "moved to the attic" };
  await page.evaluate(async () => (await import("/js/live.js")).refreshBoards());
  await main.getByText(/moved to the attic/).first().waitFor();
  const drawn = await page.evaluate(() => globalThis.drawn);
  equal(drawn, 1, "rows drawn:");
});

await noComplaints(context);
await finish();
