// timeout: 120
// What pages work out of a plan agrees with what the API says of it; a board's and a deployment's page at work.
import { check, classify, deployDigits, equal, finish, get, launch, newContext, noComplaints, open, rule, settled, startBoards, startServer, until, visit } from "./support/harness.mjs";
import { compare } from "../../web/js/drift.js";
import { boxText, exchangesOf, readPlan, volume } from "../../web/js/planview.js";

await launch();
const server = await startServer();
// Unequal shares: what a plan says of its parts differs from board to board.
await startBoards(server, ["one"]);
await startBoards(server, ["two"], "--clock", "450");
await startBoards(server, ["three"], "--clock", "200");
const deployment = await deployDigits(server);
const { inference } = await classify(server, 7);
const plan = await get(server, `/api/v1/deployments/${deployment.id}/plan`);
const layers = (await get(server, `/api/v1/models/digits/versions/latest/layers`)).items;
const asked = await get(server, `/api/v1/inferences/${inference}`);
const view = readPlan(plan);
const sum = (values) => values.reduce((total, value) => total + value, 0);

await rule("moves_read_from_a_plan_add_up_to_its_bytes", async () => {
  equal(sum(view.moves.map((move) => move.bytes)), plan.bytes_moved, "bytes moved");
  view.boards.forEach((board, b) => equal(sum(view.moves.filter((move) => move.to === board.party).map((move) => move.bytes)), plan.parties[b].bytes_received, `${board.name} receives`));
  for (const row of asked.timeline) {
    equal(row.received_bytes, plan.parties[row.party - 1].bytes_received, `${row.name} received`);
    equal(row.sent_bytes, plan.parties[row.party - 1].bytes_sent, `${row.name} sent`);
  }
  check(view.moves.every((move) => (move.from === 0 || move.fromOp >= 0)), "what a board sends was made by an operator");
  check(exchangesOf(view).every((line) => line.from !== line.to && line.from > 0 && line.to > 0), "exchanges go from board to another board");
});

await rule("the_boards_boxes_cover_every_layer", async () => {
  const ops = new Set(view.boards.flatMap((board) => [...board.boxes.keys()]));
  check(ops.size > 3, `${ops.size} operators`);
  for (const op of ops) {
    const whole = layers[op].output.dims.reduce((product, n) => product * n, 1);
    const made = sum(view.boards.flatMap((board) => (board.boxes.get(op) ?? []).map(volume)));
    check(made >= whole, `operator ${op}: ${made} of ${whole} values are made`);
  }
});

await rule("segments_beside_one_another_add_up_to_no_more_than_the_whole", async () => {
  const rows = compare(view, [asked], layers);
  equal(rows.length, plan.segments.length, "segments");
  const [expect, took] = [sum(rows.map((row) => row.predicted)), sum(rows.map((row) => row.measured))];
  check(expect > 0 && expect <= plan.latency_ms + 0.001, `predicted ${expect} of ${plan.latency_ms} ms`);
  check(took > 0 && took <= asked.latency_ms, `measured ${took} of ${asked.latency_ms} ms`);
});

const context = await newContext(server);
const page = await open(context, server, `#/inferences/${inference}`);

await rule("the_gantt_chart_tells_board_layer_box_and_bytes_by_keyboard", async () => {
  await page.locator("svg.gantt").focus();
  await page.keyboard.press("Home");
  const detail = () => page.locator(".gantt-box dl").innerText();
  const before = await detail();
  await page.keyboard.press("ArrowRight");
  await until("another layer is told", async () => (await detail()) !== before);
  const said = await detail();
  const row = asked.timeline.find((one) => said.includes(one.name));
  const { op } = row.segments[1];
  check(said.includes(`${op}: `), `layer ${op} in: ${said}`);
  const boxes = view.boards[row.party - 1].boxes.get(op);
  check(!boxes || said.includes(boxText(boxes[0])), `its box in: ${said}`);
  check(/received for it, .* sent after it/.test(said), `bytes in: ${said}`);
});

await rule("a_deployments_page_says_what_each_board_holds_by_keyboard", async () => {
  await visit(page, server, `#/deployments/${deployment.id}`);
  const map = page.locator("svg.heat");
  await map.focus();
  await page.keyboard.press("ArrowRight");
  const said = await page.locator(".heat-frame + .said").innerText();
  check(/layer \d+ \(.*\): \d+(\.\d)? %/.test(said), said);
  for (const board of deployment.boards) check((await page.locator("main").innerText()).includes(board.fragment.slice(0, 12)), `${board.name}'s fragment`);
});

await rule("each_boards_schedule_is_the_plans", async () => {
  await visit(page, server, `#/deployments/${deployment.id}`);
  const section = page.locator("section", { hasText: "Each board's schedule" });
  await section.locator(".steps-table tbody tr").first().waitFor();
  for (const [b, board] of plan.boards.entries()) {
    if (!plan.parties[b].used) continue;
    await section.getByRole("combobox").selectOption({ label: board.name });
    const peak = `${(plan.parties[b].peak_bytes / 1024).toFixed(1)} KiB`;
    await section.getByText(`peak ${peak}`).first().waitFor();
    const top = await section.locator(".steps-table tr", { hasText: " peak" }).first().innerText();
    check(top.includes(peak), `${board.name}: ${peak} in ${top}`);
  }
});

await rule("a_drained_board_is_said_to_be_safe_to_unplug_and_may_come_back", async () => {
  await visit(page, server, "#/boards");
  await settled(page);
  const card = page.locator("article", { hasText: "three" });
  await card.getByRole("button", { name: "Drain", exact: true }).click();
  await card.getByText("safe to unplug").waitFor();
  equal((await get(server, "/api/v1/boards/three")).safe_to_unplug, true, "the API says so too");
  await card.getByRole("button", { name: "Undrain" }).click();
  await card.getByText("safe to unplug").waitFor({ state: "detached" });
});

await rule("charts_over_time_say_by_keyboard_what_the_api_tells", async () => {
  await visit(page, server, "#/");
  const chart = page.getByRole("img", { name: /^Latency, last/ });
  await chart.locator("canvas").waitFor();
  const point = (await get(server, "/api/v1/load?minutes=15&points=90")).points.at(-1);
  await chart.focus();
  await page.keyboard.press("End");
  const said = () => chart.locator("xpath=../p[@aria-live]").innerText();
  check((await said()).includes(`median ${point.p50_ms.toFixed(point.p50_ms < 10 ? 2 : 1)} ms`), `${point.p50_ms} ms in: ${await said()}`);
  await page.keyboard.press("Home");
  check(/median \d/.test(await said()), "the first point is told");
  const wide = async () => chart.locator("canvas").evaluate((canvas) => [canvas.getBoundingClientRect().width, canvas.closest(".chart").clientWidth]);
  for (const width of [360, 900]) {
    await page.setViewportSize({ width, height: 800 });
    await until(`the chart is as wide as its place at ${width} pixels`, async () => { const [a, b] = await wide(); return Math.abs(a - b) <= 1; });
  }
  await page.setViewportSize({ width: 1280, height: 800 });
});

await rule("a_boards_readings_are_drawn_over_time", async () => {
  const board = (await get(server, "/api/v1/boards")).items[0];
  const { items } = await get(server, `/api/v1/boards/${board.id}/readings`);
  check(items.length >= 1 && items.at(-1).stack_high_water_bytes > 0, JSON.stringify(items));
  await visit(page, server, `#/boards/${board.id}`);
  const chart = page.getByRole("img", { name: /^Memory in use/ });
  await chart.locator("canvas").waitFor();
  await chart.focus();
  await page.keyboard.press("Home");
  const said = await chart.locator("xpath=../p[@aria-live]").innerText();
  check(said.includes(`stack ${(items[0].stack_high_water_bytes / 1024).toFixed(1)} KiB`), `${items[0].stack_high_water_bytes} in: ${said}`);
});

await noComplaints(context);
await finish();
