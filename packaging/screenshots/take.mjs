// Takes pictures of pages of the console. Takes the folder of the npm packages, the file that the server wrote when it was ready, and the
// folder for the pictures.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [packages, ready, pictures] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), "package.json"));
const { chromium } = require("playwright-core");
const { url, api_key: key, sign_in_url: link } = JSON.parse(readFileSync(ready, "utf8"));

/** The open ticket with the longest conversation. */
async function busiestTicket() {
  const answer = await fetch(`${url}/api/psa/tickets?status=in_progress&limit=200`, { headers: { authorization: `Bearer ${key}` } });
  const tickets = (await answer.json()).data;
  tickets.sort((one, other) => other.counts.comments - one.counts.comments);
  return tickets[0].ref;
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto(link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`${url}/`);
  const ticket = await busiestTicket();
  for (const [name, path, colorScheme] of [
    ["home", "/", "light"],
    ["queue", "/tickets?status_category=open&sort=due_at", "light"],
    ["ticket", `/tickets/${ticket}`, "dark"],
  ]) {
    await page.emulateMedia({ colorScheme });
    await page.goto(url + path);
    await page.screenshot({ path: join(pictures, `${name}.png`) });
  }
} finally {
  await browser.close();
}
