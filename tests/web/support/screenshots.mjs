// scripts/screenshots: pictures of the pages, of a real fleet that has been asked a few things.
import fs from "node:fs";
import path from "node:path";
import { check, classify, deployDigits, finish, get, launch, newContext, open, root, settled, startBoards, startServer, visit } from "./harness.mjs";

const WIDTHS = [390, 1280, 1920];
const MOST_BYTES = 200000;
const [all, into] = process.argv[2] === "--all" ? [true, process.argv[3] ?? "build/screenshots"] : [false, path.join(root, "docs/images")];
fs.mkdirSync(into, { recursive: true });

await launch();
const server = await startServer();
await startBoards(server, ["kitchen", "attic", "workshop"], "--flash", "160K");
await deployDigits(server);
const asked = [];
for (let i = 0; i < 40; i++) asked.push(await classify(server, i % 10));
const board = (await get(server, "/api/v1/boards")).items[0].id;
const deployment = (await get(server, "/api/v1/deployments")).items[0].id;

async function shoot(page, name, options = {}) {
  const file = path.join(into, `${name}.png`);
  await page.screenshot({ path: file, animations: "disabled", ...options });
  const { size } = fs.statSync(file);
  console.log(`${path.relative(root, file)} ${size} bytes`);
  return size;
}

/** "Try it" with the answer to the sample seven and its time line. */
async function answered(page) {
  await visit(page, server, "#/try");
  await page.getByAltText("sample digit 7").click();
  await page.locator(".answered").waitFor();
  await page.locator("svg.gantt rect").first().waitFor();
  await settled(page, 600);
  await page.evaluate(() => scrollTo(0, 0));
}

if (!all) {
  // 1280x800 pixels, of a window that has room for the whole time line.
  const page = await open(await newContext(server, { viewport: { width: 1600, height: 1000 }, deviceScaleFactor: 0.8 }), server, `#/deployments/${deployment}`);
  await page.getByText("Who holds which part of each layer").waitFor();
  await settled(page, 600);
  let most = await shoot(page, "deployment");
  await answered(page);
  most = Math.max(most, await shoot(page, "try-it"));
  check(most <= MOST_BYTES, `a picture has ${most} bytes; at most ${MOST_BYTES}`);
} else {
  const pages = { overview: "#/", boards: "#/boards", board: `#/boards/${board}`, models: "#/models", model: "#/models/digits", deployments: "#/deployments",
    deployment: `#/deployments/${deployment}`, inference: `#/inferences/${asked.at(-1).inference}`, try: null, missing: "#/nowhere" };
  for (const colorScheme of ["light", "dark"]) {
    const context = await newContext(server, { colorScheme });
    const page = await open(context, server);
    for (const [name, link] of Object.entries(pages).filter(([name]) => !process.argv[4] || process.argv[4].split(",").includes(name))) {
      if (link) await visit(page, server, link);
      else await answered(page);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: width < 500 ? 844 : width === 1280 ? 800 : 1080 });
        // Some parts come when they come into sight.
        await page.evaluate(async () => {
          for (let y = 0; y < document.body.scrollHeight; y += innerHeight / 2) {
            scrollTo(0, y);
            await new Promise(requestAnimationFrame);
          }
          scrollTo(0, 0);
        });
        await settled(page, 300);
        await shoot(page, `${name}-${width}-${colorScheme}`, { fullPage: true });
      }
    }
  }
}
await finish();
