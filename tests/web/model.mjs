// timeout: 150
// A model's page and the folder of images: what graph, table and chart show is what the API lists, and they select the
// same layer; accuracy, confusion and misses on the page are those of `shoal eval`.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { check, deployDigits, equal, finish, get, launch, newContext, noComplaints, open, root, rule, sample, startBoards, startServer, until, visit, work } from "./support/harness.mjs";

await launch();
const server = await startServer();
await startBoards(server, ["one", "two", "three"], "--flash", "160K");
await deployDigits(server);
const context = await newContext(server);
const page = await open(context, server, "#/models/digits");
const main = page.locator("main");
await main.locator(".graph").waitFor();
const layers = (await get(server, "/api/v1/models/digits/versions/latest/layers?limit=1000")).items;

await rule("the_graph_has_a_box_a_layer_and_an_arrow_an_input_and_no_two_boxes_overlap", async () => {
  const boxes = await main.locator(".graph .layer > rect").evaluateAll((all) => all.map((one) => ["x", "y", "width", "height"].map((key) => one[key].baseVal.value)));
  equal(boxes.length, layers.length);
  boxes.forEach(([x, y, w, h], i) => boxes.slice(0, i).forEach(([a, b, c, d], k) =>
    check(x >= a + c || a >= x + w || y >= b + d || b >= y + h, `layers ${i} and ${k} overlap`)));
  const inputs = layers.reduce((sum, layer) => sum + layer.inputs.filter((input) => !input.constant).length, 0);
  equal(await main.locator(".graph .arrow").count(), inputs + 1, "arrows, one of them to the output:");
});

await rule("graph_table_and_chart_select_the_same_layer", async () => {
  const add = layers.find((layer) => layer.op === "add");
  await main.locator(`.graph [data-layer="${add.index}"]`).evaluate((one) => one.scrollIntoView({ block: "center" }));
  await main.locator(".graph").focus();
  await page.keyboard.press("Home");
  for (let i = 0; i < add.index; i++) await page.keyboard.press("ArrowDown");
  await main.locator(".about-layer", { hasText: `Layer ${add.index}: add` }).waitFor();
  equal(await main.locator(".layer-table tr[aria-selected]").count(), 1);
  check((await main.locator(".layer-table tr[aria-selected]").innerText()).includes(add.name), "the table selects it");
  check((await main.locator(".chart-line").innerText()).startsWith(`Layer ${add.index},`), "the chart selects it");
  await main.getByRole("button", { name: "layer 0", exact: true }).click();
  equal(await main.locator('.graph [aria-selected="true"]').getAttribute("data-layer"), "0");
});

await rule("the_table_sorts_by_every_number", async () => {
  const macs = layers.map((layer) => layer.macs);
  const params = layers.map((layer) => layer.params);
  for (const [name, column, values] of [["multiply-adds", 5, macs], ["parameters", 6, params], ["layer", 1, layers.map((layer) => layer.index)]]) {
    const shown = async () => (await main.locator(`.layer-table tbody tr td:nth-child(${column})`).allInnerTexts()).map((text) => Number(text.replaceAll(",", "")));
    const [up, down] = [(a, b) => a - b, (a, b) => b - a];
    await main.locator(".layer-table .sort").getByText(name, { exact: true }).click();
    equal(await shown(), [...values].sort(name === "layer" ? up : down), name);
    await main.locator(".layer-table .sort").getByText(name, { exact: true }).click();
    equal(await shown(), [...values].sort(name === "layer" ? down : up), `${name}, the other way`);
  }
});

const schedule = async (options) => {
  const answer = await fetch(`${server.url}/api/v1/schedules`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ model: "digits", ...options }) });
  return answer.json();
};
const kib = (n) => (n < 1024 ? `${n} B` : `${(n / 1024).toFixed(1)} KiB`);

await rule("the_partial_schedule_stands_beside_the_ordinary_one_layer_by_layer", async () => {
  const { partial, ordinary, bottleneck } = await schedule({});
  const section = main.locator("section", { hasText: "Memory on one board, layer by layer" });
  await section.scrollIntoViewIfNeeded();
  await section.getByText("The bottleneck").waitFor();
  const text = await section.innerText();
  for (const part of [`${kib(partial.peak_bytes)}`, kib(ordinary.peak_bytes), ...bottleneck.tensors.map((tensor) => kib(tensor.bytes))]) check(text.includes(part), `${part} in: ${text}`);
  await section.getByText(`The schedule: ${partial.steps.length} steps`).click();
  equal(await section.locator(".steps-table tbody tr").count(), partial.steps.length, "rows:");
  // A block for each step's layers that lie beside one another; at least as many as steps with layers of their own.
  check((await section.locator("svg.memory .block").count()) >= 1, "blocks are drawn");
  await section.locator("svg.memory").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  const said = await section.locator(".chart-line").innerText();
  const step = partial.steps.filter((one) => one.layers.includes(1)).sort((a, b) => b.peak_bytes - a.peak_bytes)[0];
  check(said.includes(`${kib(step.peak_bytes)} in the step of layer`), `the step of layer 1 in: ${said}`);
});

await rule("the_schedule_follows_its_controls_and_says_what_cannot_be", async () => {
  const section = main.locator("section", { hasText: "Memory on one board, layer by layer" });
  const narrow = await schedule({ axes: "channels", accumulator: 8 });
  await section.getByLabel("Parts of tensors by").selectOption("channels");
  await section.getByLabel("Partial sums").selectOption("8");
  await section.getByText("not on boards").waitFor();
  await until("its peak is told", async () => (await section.innerText()).includes(kib(narrow.partial.peak_bytes)));
  await section.getByLabel("Memory limit").fill("1K");
  await section.getByText("no such schedule").waitFor();
  const { error } = await schedule({ axes: "channels", accumulator: 8, ram: 1024 });
  check((await section.innerText()).includes(error.detail.need_bytes.toLocaleString("en")), "the least that was found, in bytes");
  await section.getByLabel("Memory limit").fill("a lot");
  await section.getByText(/is no size/).waitFor();
  await section.getByLabel("Memory limit").fill("");
  await section.getByText("not on boards").waitFor();
});

const shoal = (...options) => JSON.parse(execFileSync(path.join(root, process.env.B ?? "build", "shoal"), ["schedule", path.join(root, "models/digits.tflite"), ...options, "--json"], { encoding: "utf8" }));
const whole = (n) => `${n.toLocaleString("en")} bytes`;

await rule("ways_to_run_a_model_stand_beside_one_another_with_the_commands_numbers", async () => {
  const section = main.locator("section", { hasText: "Memory on one board, layer by layer" });
  await section.getByRole("button", { name: "Compare ways to run it" }).click();
  const rows = section.locator(".comparison tbody tr");
  await section.getByText("Peak counts tensors alone").waitFor();
  const ways = [["--axes", "channels"], [], ["--extra-macs", "10"], ["--image", "streamed"], ["--extra-macs", "10", "--image", "streamed"]];
  const [{ ordinary }] = [shoal()];
  const expected = [ordinary, ...ways.map((options) => { const { partial, macs } = shoal(...options); return { ...partial, macs }; })];
  equal(await rows.count(), expected.length, "rows:");
  const time = (n) => (n < 10 ? `${n.toFixed(2)} ms` : `${n.toFixed(1)} ms`);
  for (const [i, one] of expected.entries()) {
    const exact = await rows.nth(i).locator("td span[title]").evaluateAll((all) => all.map((span) => span.title));
    equal(exact, [whole(one.peak_bytes), whole(one.arena_bytes)], `way ${i}:`);
    const cells = await rows.nth(i).locator("td").allInnerTexts();
    equal(cells.slice(2), [kib(one.arena_bytes), one.extra_macs > 0 ? `+${((one.extra_macs / one.macs) * 100).toFixed(1)} %` : "none", time(one.predicted_ms)], `way ${i}:`);
  }
});

await rule("a_way_that_is_chosen_is_the_schedule_that_is_shown", async () => {
  const section = main.locator("section", { hasText: "Memory on one board, layer by layer" });
  const way = section.getByRole("button", { name: "with up to 10 % of the work done twice" });
  await way.click();
  const { partial, bottleneck } = shoal("--extra-macs", "10");
  await section.locator(".comparison tr[aria-current]", { hasText: "10 %" }).waitFor();
  equal(await section.locator(".comparison tr[aria-current]").count(), 1, "ways that are marked:");
  equal(await section.getByLabel("Extra multiply-adds, %").inputValue(), "10");
  check((await section.innerText()).includes(`${kib(bottleneck.bytes)} are in use when it makes`), "its bottleneck is told");
  const at = partial.steps.flatMap((step, i) => (step.peak_bytes === partial.peak_bytes ? [i + 1] : []));
  check((await section.innerText()).includes(at.length === 1 ? `Step ${at[0]} needs the most` : `step ${at[0]} first`), `step ${at}`);
});

await rule("a_step_is_said_on_the_page_as_the_command_says_it", async () => {
  const section = main.locator("section", { hasText: "Memory on one board, layer by layer" });
  const text = execFileSync(path.join(root, process.env.B ?? "build", "shoal"), ["schedule", path.join(root, "models/digits.tflite"), "--extra-macs", "100"], { encoding: "utf8" });
  const [head, ...lines] = text.split("\n\n")[0].split("\n");
  const [from, to] = [head.indexOf("how"), head.indexOf("operators")];
  const said = lines.map((line) => line.slice(from, to).trim().replace(/^each: /, ""));
  await section.getByLabel("Extra multiply-adds, %").fill("100");
  await section.getByText(`The schedule: ${lines.filter((line) => /^ *\d/.test(line.slice(0, 4))).length} steps`).click();
  const shown = await section.locator(".steps-table tbody tr").evaluateAll((rows) => rows.flatMap((row) => {
    const cell = row.querySelector(".how");
    return [cell.firstChild.textContent, ...[...cell.querySelectorAll(".inner li")].map((one) => one.lastChild.textContent.trim())];
  }));
  const plain = (words) => words.replaceAll("→", "->").replaceAll("×", "x").replaceAll("–", "-");
  equal(shown.map(plain), said);
  check(["patches of", "channels, ", "row"].every((kind) => said.some((words) => words.startsWith(kind))), `kinds of steps: ${said}`);
});

await rule("a_folder_is_counted_as_shoal_eval_counts_it", async () => {
  const set = path.join(work, "set");
  for (let digit = 0; digit < 10; digit++) {
    fs.mkdirSync(path.join(set, String(digit)), { recursive: true });
    fs.copyFileSync(sample(digit), path.join(set, String(digit), "a.png"));
  }
  fs.copyFileSync(sample(5), path.join(set, "3", "wrong.png"));
  const said = JSON.parse(execFileSync(path.join(root, process.env.B ?? "build", "shoal"), ["eval", "digits", "--set", set, "--url", server.url, "--json"], { encoding: "utf8" }));
  await visit(page, server, "#/try/digits");
  await page.getByRole("tab", { name: "Folder" }).click();
  await main.locator("input[webkitdirectory]").setInputFiles(set);
  await main.getByText("11 of 11 images asked").waitFor();
  const text = await main.locator("#panel-folder").innerText();
  check(text.includes(`${(said.top1 * 100).toFixed(1)} %`), `${said.top1} in: ${text}`);
  equal(await main.locator(".misses figure").count(), said.misses.length);
  equal(await main.locator(".misses figcaption").allInnerTexts(), said.misses.map((miss) => `${miss.label} read as ${miss.said}`));
  const cells = await main.locator(".confusion tbody td:not(.number)").allInnerTexts();
  equal(cells.filter((cell) => cell !== "·").map(Number).sort(), said.confusion.map((pair) => pair.count).sort());
});

await rule("a_folder_with_a_label_that_the_model_lacks_is_not_asked", async () => {
  const set = path.join(work, "strange");
  fs.mkdirSync(path.join(set, "cat"), { recursive: true });
  fs.copyFileSync(sample(1), path.join(set, "cat", "a.png"));
  const before = (await get(server, "/api/v1/inferences?limit=1")).items[0].id;
  await main.locator("input[webkitdirectory]").setInputFiles(set);
  await main.getByText("no label “cat”").waitFor();
  equal((await get(server, "/api/v1/inferences?limit=1")).items[0].id, before);
});

await noComplaints(context);
await finish();
