// timeout: 150
// From a file to an answer, by mouse, on boards of which none could hold the model alone: drop, refusal, dry run, deploy,
// draw, sample, time line. What the page says is compared with what the API says.
import fs from "node:fs";
import path from "node:path";
import { check, digits, equal, finish, get, launch, newContext, noComplaints, open, rule, sample, startBoards, startServer, until, upload, visit, work } from "./support/harness.mjs";
import { withUnknownOperator } from "./support/tflite.mjs";

await launch();
const server = await startServer();
await startBoards(server, ["one", "two", "three"], "--flash", "160K");
const context = await newContext(server);
const page = await open(context, server, "#/models");
const main = page.locator("main");

/** Lets a file of the given bytes fall onto the page. */
async function drop(name, bytes, type = "") {
  const files = await page.evaluateHandle(([name, text, type]) => {
    const files = new DataTransfer();
    files.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name, { type }));
    return files;
  }, [name, bytes.toString("base64"), type]);
  for (const event of ["dragenter", "dragover", "drop"]) await page.dispatchEvent("main", event, { dataTransfer: files });
}

await rule("a_dropped_model_is_imported_scheduled_and_says_what_it_needs", async () => {
  await drop("Digits.tflite", fs.readFileSync(digits));
  await main.getByText("ready").waitFor();
  const version = (await get(server, "/api/v1/models/digits")).versions[0].version;
  check((await main.innerText()).includes(version.slice(0, 12)), "the version's name is shown");
  await main.locator("article", { hasText: "digits" }).waitFor();
});

await rule("a_refusal_names_layer_and_reason", async () => {
  await drop("strange.tflite", withUnknownOperator(fs.readFileSync(digits)));
  const box = main.locator("li", { hasText: "strange.tflite" });
  await box.getByText("refused").waitFor();
  const answer = await fetch(`${server.url}/api/v1/models/strange`, { method: "PUT", body: withUnknownOperator(fs.readFileSync(digits)), headers: { "Content-Type": "application/octet-stream" } });
  const { error } = await answer.json();
  check(error.detail.layer && /DEPTH_TO_SPACE/.test(error.message), `the server says ${JSON.stringify(error)}`);
  const text = await box.innerText();
  check(text.includes(error.detail.layer) && text.includes("DEPTH_TO_SPACE"), `layer and operator in: ${text}`);
  await drop("notes.tflite", Buffer.from("this is no model"));
  const notes = main.locator("li", { hasText: "notes.tflite" });
  await notes.getByText("refused").waitFor();
  await notes.getByRole("button", { name: "Dismiss notes" }).click();
  await notes.waitFor({ state: "detached" });
  check(await box.isVisible(), "only the one that was dismissed goes");
});

await rule("a_dry_run_says_by_how_many_bytes_and_what_would_help_then_that_it_fits", async () => {
  await visit(page, server, "#/models/digits");
  const what = main.locator("section", { hasText: "What would it need?" });
  await what.getByText(/fits\b/).first().waitFor();
  const planned = await (await fetch(`${server.url}/api/v1/plans`, { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"model":"digits"}' })).json();
  check(new RegExp(`on ${planned.boards_used} of 3 boards`).test(await what.innerText()), "as many boards as the API says");
  await what.getByText(/^Boards: 3 of 3$/).click();
  for (const name of ["one", "two"]) await what.locator("label", { hasText: new RegExp(`^ ${name} `) }).locator("input").uncheck();
  await what.getByText("does not fit").waitFor();
  const refused = await fetch(`${server.url}/api/v1/plans`, { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"model":"digits","boards":["three"]}' });
  equal(refused.status, 422);
  const { error } = await refused.json();
  check((await what.innerText()).includes(`${error.detail.missing_bytes.toLocaleString("en")} bytes`), `the missing bytes in: ${await what.innerText()}`);
  await what.locator("button", { hasText: /^use/ }).first().click();
  await what.getByText(/fits\b/).first().waitFor();
});

await rule("deploying_from_the_dry_run_leads_to_an_active_deployment", async () => {
  const what = main.locator("section", { hasText: "What would it need?" });
  await what.getByRole("button", { name: "all that can be used" }).click();
  await what.getByText(/on \d of 3 boards/).waitFor();
  await what.getByRole("button", { name: "Deploy this" }).click();
  await page.waitForURL(/#\/deployments\//);
  await main.getByText("active").first().waitFor();
  await main.getByText("Who holds which part of each layer").waitFor();
  const [deployment] = (await get(server, "/api/v1/deployments")).items;
  equal([deployment.state, page.url().endsWith(deployment.id)], ["active", true]);
  for (const name of ["one", "two", "three"]) await main.locator("td", { hasText: name }).first().waitFor();
});

await rule("what_runs_already_is_planned_in_its_own_place", async () => {
  await visit(page, server, "#/models/digits");
  const what = main.locator("section", { hasText: "What would it need?" });
  await what.getByText(/on \d of 3 boards/).waitFor(); // two of them on one board do not fit
  const replace = what.getByRole("checkbox", { name: "replace the version that runs now" });
  equal(await replace.isChecked(), true, "the page says so:");
  await replace.uncheck();
  await what.getByText("does not fit").waitFor();
  await what.getByRole("button", { name: "plan in its place" }).click();
  await what.getByText(/on \d of 3 boards/).waitFor();
});

await rule("a_model_that_does_not_fit_beside_others_is_told_who_holds_the_flash", async () => {
  await upload(server, "second", digits);
  await visit(page, server, "#/models/second");
  const what = main.locator("section", { hasText: "What would it need?" });
  await what.getByText("does not fit").waitFor();
  const [deployment] = (await get(server, "/api/v1/deployments")).items;
  equal(await what.locator(`a[href="#/deployments/${deployment.id}"]`).innerText(), "the deployment of 'digits' retired", "the one that could give way, tried:");
  equal(await what.getByText("replace the version that runs now").isVisible(), false, "a version to replace, where none runs:");
  await fetch(`${server.url}/api/v1/models/second`, { method: "DELETE" });
});

/** What the page shows as answer, once it is the one of the given inference; the inference as the API tells it. */
async function answered(act) {
  const [response] = await Promise.all([page.waitForResponse((one) => one.url().includes("/classify")), act()]);
  const said = await response.json();
  await main.locator(`a[href="#/inferences/${said.inference}"]`).first().waitFor();
  return said;
}

const words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
await rule("labels_are_typed_and_saved_on_the_models_page", async () => {
  await visit(page, server, "#/models/digits");
  await page.locator("textarea").fill(words.join("\n"));
  await main.getByRole("button", { name: "Save labels" }).click();
  await until("the server has the labels", async () =>
    (await (await fetch(`${server.url}/api/v1/models/digits/versions/latest/labels`)).text()).trim() === words.join("\n"));
});

await rule("a_drawn_digit_is_answered_with_its_label", async () => {
  await visit(page, server, "#/try");
  const canvas = main.locator("canvas");
  const box = await canvas.boundingBox();
  const said = await answered(async () => {
    await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.15);
    await page.mouse.down();
    for (let y = 0.15; y <= 0.85; y += 0.05) await page.mouse.move(box.x + box.width * (0.5 + (y - 0.5) * 0.08), box.y + box.height * y);
    await page.mouse.up();
  });
  equal(said.labels[0].label, "one", "a stroke from top to bottom is a one:");
  check((await main.locator(".answered").innerText()).startsWith("one"), "the page says so");
});

await rule("every_sample_digit_is_read_right", async () => {
  for (const digit of words.keys()) {
    const said = await answered(() => main.getByAltText(`sample digit ${digit}`).click());
    equal([said.labels[0].label, (await main.locator(".answered p").first().innerText()).split(" ")[0]], [words[digit], words[digit]]);
  }
});

await rule("a_picture_that_is_dropped_is_answered", async () => {
  const said = await answered(() => drop("digit.png", fs.readFileSync(sample(6)), "image/png"));
  equal(said.labels[0].label, "six");
});

await rule("a_folder_of_labelled_images_gives_accuracy_confusion_and_misses", async () => {
  const set = path.join(work, "set");
  // Nine right, one under a wrong name.
  for (const [digit, word] of words.entries()) {
    const folder = path.join(set, digit === 9 ? "three" : word);
    fs.mkdirSync(folder, { recursive: true });
    fs.copyFileSync(sample(digit), path.join(folder, `sample_${digit}.png`));
  }
  await visit(page, server, "#/try");
  await main.getByRole("tab", { name: "Folder of images" }).click();
  await main.locator("input[webkitdirectory]").setInputFiles(set);
  await main.getByRole("heading", { name: "Misses: 1" }).waitFor();
  const text = await main.innerText();
  check(/90(\.0)? ?%/.test(text), `nine of ten in: ${text}`);
  equal(await main.locator(".misses figure").count(), 1, "misses:");
  check((await main.locator(".misses figure").innerText()).includes("nine"), "what was said instead");
  equal(await main.locator(".confusion").count(), 1, "confusion:");
  await main.getByRole("tab", { name: "Draw" }).click();
  await answered(() => main.getByAltText("sample digit 6").click());
});

await rule("the_time_line_of_that_inference_shows_every_board_and_names_layer_box_and_bytes", async () => {
  // On the page itself, or one link away.
  const link = main.locator('a[href^="#/inferences/"]').first();
  const inference = await get(server, `/api/v1/inferences/${(await link.getAttribute("href")).split("/").at(-1)}`);
  if (!(await page.locator("svg.gantt").count())) await link.click();
  const picture = page.locator("svg.gantt").first();
  await picture.locator("rect").first().waitFor();
  const ran = inference.timeline.filter((board) => board.segments?.length);
  equal(await picture.locator(".computing").count(), ran.flatMap((board) => board.segments).filter((segment) => segment.computing_ms > 0).length, "a bar for each layer that was computed:");
  check(await page.locator("path.exchange").first().getAttribute("d"), "exchanges are lines");
  await picture.scrollIntoViewIfNeeded();
  const bar = await picture.locator("rect.computing").nth(2).boundingBox();
  await page.mouse.move(bar.x + bar.width / 2, bar.y + bar.height / 2);
  const detail = await page.locator("dl.detail").first().innerText();
  for (const word of ["board", "layer", "its box", "received"]) check(detail.includes(word), `${word} in: ${detail}`);
  check(ran.some((board) => detail.includes(board.name)), detail);
});

await rule("the_models_graph_and_layers_are_all_there", async () => {
  await visit(page, server, "#/models/digits");
  const layers = (await get(server, "/api/v1/models/digits/versions/latest/layers?limit=1000")).items;
  const table = main.locator("table", { has: page.getByRole("columnheader", { name: "multiply-adds" }) });
  await table.waitFor();
  equal(await table.locator("tbody tr").count(), layers.length, "rows of layers:");
  equal(await main.locator(".graph .layer").count(), layers.length, "boxes of the graph:");
});

await noComplaints(context);
await finish();
