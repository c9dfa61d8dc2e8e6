// Names that strangers choose (models' labels, boards' names, places and tags, tags of deployments, file names, tensors)
// are text wherever they show: no element comes of them, no script runs.
import { ask, check, classify, deploy, digits, equal, finish, get, launch, newContext, noComplaints, open, rule, settled, startBoards, startServer, stop, upload, visit } from "./support/harness.mjs";

const MARKS = ['<img src=x onerror="boom(1)">', "<script>boom(2)</script>", "<b>bold</b>", '"><svg onload=boom(3)>', "&lt;&amp;", "{{7*7}}", "javascript:boom(4)", "\u202egnirts"];
const mark = (i) => `${MARKS[i % MARKS.length]}`;

await launch();
const server = await startServer();
const boards = await startBoards(server, ["one", "two"]);
const ids = (await get(server, "/api/v1/boards")).items.map((board) => board.id);

const names = ids.map((_, i) => `${mark(i)}${i}`);
for (const [i, id] of ids.entries()) await ask(server, "PATCH", `/api/v1/boards/${id}`, { name: names[i], location: mark(i), tags: [mark(i + 1), "plain"] });
await upload(server, "digits", digits);
await ask(server, "PUT", "/api/v1/models/digits/versions/latest/labels", Array.from({ length: 10 }, (_, i) => `${mark(i)} ${i}\n`).join(""), "application/octet-stream");
const tags = [mark(0), mark(1)];
const deployment = await deploy(server, { model: "digits", tags });
const { inference } = await classify(server, 5);
// An attempt to enrol that fails, so that the page shows what a stranger sent.
const context = await newContext(server);
await context.addInitScript(() => { globalThis.boom = (n) => console.error(`a script of a name ran: ${n}`); });
const page = await open(context, server);

await rule("the_server_takes_hostile_names_as_they_are", async () => {
  equal([deployment.state, deployment.tags], ["active", tags]);
  equal((await get(server, "/api/v1/boards")).items.map((board) => board.name).sort(), [...names].sort());
});

/** What a name would have become as markup. */
const foreign = () => [...document.querySelectorAll('main script, main b:not([class]), img[src="x"], [onerror], [onload], a[href^="javascript:"]')]
  .filter((e) => !(e.tagName === "B" && !/^bold$/.test(e.textContent))).map((e) => e.outerHTML);

await rule("hostile_names_are_text_on_every_page", async () => {
  const texts = {};
  const where = ["#/", "#/boards", ...ids.map((id) => `#/boards/${id}`), "#/models", "#/models/digits", "#/deployments", `#/deployments/${deployment.id}`,
    `#/inferences/${inference}`, "#/try", "#/try/%3Cimg%20src%3Dx%20onerror%3Dboom(5)%3E", "#/models/%3Cb%3Ebold%3C%2Fb%3E", "#/boards/%3Cb%3Ebold%3C%2Fb%3E",
    "#/deployments/%3Cb%3Ebold%3C%2Fb%3E", "#/inferences/%3Cb%3Ebold%3C%2Fb%3E"];
  for (const link of where) {
    await visit(page, server, link);
    await settled(page);
    equal(await page.evaluate(foreign), [], link);
    texts[link] = await page.locator("main").innerText();
  }
  const board = await get(server, `/api/v1/boards/${ids[0]}`);
  check(texts[`#/boards/${ids[0]}`].includes(board.name) && texts[`#/boards/${ids[0]}`].includes(board.location), "a board's name and place, letter by letter");
  check(texts[`#/deployments/${deployment.id}`].includes(tags[0]), "a deployment's tags, letter by letter");
});

await rule("hostile_labels_are_text_in_an_answer", async () => {
  await visit(page, server, "#/try");
  const [answer] = await Promise.all([page.waitForResponse((one) => one.url().includes("/classify")), page.getByAltText("sample digit 2").click()]);
  const { labels } = await answer.json();
  await page.locator("main").getByText(labels[0].label, { exact: false }).first().waitFor();
  await settled(page);
  equal(await page.evaluate(foreign), []);
  check((await page.locator("main").innerText()).includes(labels[0].label), labels[0].label);
});

await rule("a_hostile_file_name_is_text", async () => {
  await visit(page, server, "#/models");
  const files = await page.evaluateHandle((name) => {
    const files = new DataTransfer();
    files.items.add(new File(["no model"], name));
    return files;
  }, `${MARKS[0]}.tflite`);
  for (const event of ["dragenter", "dragover", "drop"]) await page.dispatchEvent("main", event, { dataTransfer: files });
  await page.locator("main").getByText("refused").waitFor();
  equal(await page.evaluate(foreign), []);
  check((await page.locator("main").innerText()).includes(MARKS[0]), "the name, letter by letter");
});

await rule("hostile_names_are_text_in_what_needs_attention", async () => {
  await stop(boards.one, "SIGKILL");
  await visit(page, server, "#/");
  await page.locator("main .todo").first().waitFor();
  await settled(page);
  const text = await page.locator("main .first").innerText();
  equal(await page.evaluate(foreign), []);
  check(names.some((name) => text.includes(name)), `a name, letter by letter, in: ${text}`);
});

await noComplaints(context);
await finish();
