// timeout: 120
// A board that runs parts of tensors: the page reads the steps out of the stored plan as the API tells them, and says of each
// what is done, with what happens inside a patch.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { ask, check, deploy, digits, equal, finish, get, launch, newContext, noComplaints, open, root, rule, startBoards, startServer, upload, visit } from "./support/harness.mjs";
import { readPlan, scheduleOf } from "../../web/js/planview.js";
import { how, ranges } from "../../web/js/steps.js";

await launch();
const server = await startServer();
// As little memory as a plan can do with: a refusal says how much would do, or leads there.
const plan = (ram) => spawnSync(path.join(root, process.env.B ?? "build", "shoal"), ["plan", digits, "--boards", "1", "--ram", `${ram}`, "--json"], { encoding: "utf8" });
let ram = 1024;
for (let answer = plan(ram), tries = 0; answer.status !== 0 && tries < 8; answer = plan(ram), tries++) ram = JSON.parse(answer.stdout).error.detail.need_bytes;
await startBoards(server, ["tiny"], "--ram", `${ram}`);
await upload(server, "digits", digits);
const planned = await ask(server, "POST", "/api/v1/plans", { model: "digits" });
const [{ schedule, peak_bytes }] = planned.parties;
const deployment = await deploy(server, { model: "digits" });
const layers = (await get(server, "/api/v1/models/digits/versions/latest/layers?limit=1000")).items;

await rule("a_stored_plans_steps_are_those_of_the_dry_run", async () => {
  const view = readPlan(await get(server, `/api/v1/deployments/${deployment.id}/plan`));
  const sorted = (step) => Object.fromEntries(Object.entries({ ...step, inner: step.inner.map(sorted) }).sort(([a], [b]) => a.localeCompare(b)));
  equal(scheduleOf(view, 0, layers).map(sorted), schedule.map(sorted));
  check(schedule.some((step) => step.inner.length) && schedule.some((step) => step.mode === "rows"), "patches and rows");
});

const context = await newContext(server);
const page = await open(context, server, `#/deployments/${deployment.id}`);
const section = page.locator("section", { hasText: "Each board's schedule" });

await rule("a_boards_page_says_of_each_step_what_is_done", async () => {
  await section.locator(".steps-table tbody tr").first().waitFor();
  const macs = layers.reduce((sum, layer) => sum + layer.macs, 0);
  equal(await section.locator(".steps-table .how").evaluateAll((cells) => cells.map((cell) => cell.firstChild.textContent)), schedule.map((step) => how(step, macs)));
  equal(await section.locator(".inner li").allInnerTexts(), schedule.flatMap((step) => step.inner.map((one) => `${ranges(one.layers)} ${how(one)}`)));
  check((await section.innerText()).includes(`peak ${(peak_bytes / 1024).toFixed(1)} KiB`), "its peak");
});

await rule("the_steps_are_read_without_moving_sideways_on_any_screen", async () => {
  for (const width of [1280, 768, 390]) {
    await page.setViewportSize({ width, height: 900 });
    const [inner, outer] = await section.locator(".scroll").evaluate((box) => [box.scrollWidth, box.clientWidth]);
    check(inner <= outer + 1, `${inner} px in ${outer} at ${width}`);
  }
});

await rule("ways_that_need_more_than_the_largest_arena_are_marked", async () => {
  await page.setViewportSize({ width: 1280, height: 900 });
  await visit(page, server, "#/models/digits");
  await page.getByRole("button", { name: "Compare ways to run it" }).click();
  await page.locator(".comparison p", { hasText: `than your largest arena of ${(ram / 1024).toFixed(1)} KiB` }).waitFor();
  const packed = await page.locator(".comparison tbody td:nth-child(3) span[title]").evaluateAll((all) => all.map((one) => [Number(one.title.replace(/\D/g, "")), one.querySelector(".bad") !== null]));
  check(packed.length > 4, `${packed.length} ways`);
  for (const [arena, marked] of packed) equal(marked, arena > ram, `${arena} bytes:`);
  for (const width of [1280, 768, 390]) {
    await page.setViewportSize({ width, height: 900 });
    const [inner, outer] = await page.locator(".comparison .scroll").evaluate((box) => [box.scrollWidth, box.clientWidth]);
    check(inner <= outer + 1, `${inner} px in ${outer} at ${width}`);
  }
});

await noComplaints(context);
await finish();
