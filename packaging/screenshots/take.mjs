// Takes pictures of pages of the console. Takes the folder of the npm packages, the file that the server wrote when it was ready, and the
// folder for the pictures.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [packages, ready, pictures] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), "package.json"));
const { chromium } = require("playwright-core");
const { url, api_key: key, sign_in_url: link } = JSON.parse(readFileSync(ready, "utf8"));

/** What the API answers; with a body, to a POST. */
async function api(path, body) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(url + path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
  if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  return answer.json();
}

/** The open ticket with the longest conversation. */
async function busiestTicket() {
  const tickets = (await api("/api/psa/tickets?status=in_progress&limit=200")).data;
  tickets.sort((one, other) => other.counts.comments - one.counts.comments);
  return tickets[0].ref;
}

/** The path of a delivery that a receiver refused at first. */
async function refusedDelivery() {
  const receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(503, { "content-type": "text/plain" }).end("The chat is being upgraded.");
  });
  await new Promise((begin) => receiver.listen(0, "127.0.0.1", begin));
  const target = `http://127.0.0.1:${receiver.address().port}/hooks/tickets`;
  const webhook = await api("/api/admin/webhooks", { name: "Chat", url: target, events: ["ticket.*"] });
  const organization = (await api("/api/directory/organizations?limit=1")).data[0];
  await api("/api/psa/tickets", { subject: "The printer on the second floor jams", organization_id: organization.id });
  for (;;) {
    const delivery = (await api(`/api/admin/webhooks/${webhook.id}/deliveries?limit=1`)).data[0];
    if (delivery?.attempt_count > 0) {
      receiver.close();
      return `/webhooks/${webhook.id}/deliveries/${delivery.id}`;
    }
    await new Promise((go) => setTimeout(go, 200));
  }
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto(link);
  await page.waitForURL(`${url}/`);
  const ticket = await busiestTicket();
  const run = (await api("/api/psa/workflows/trigger?view=runs&status=waiting&limit=1")).data[0];
  const delivery = await refusedDelivery();
  for (const [name, path, colorScheme] of [
    ["home", "/", "light"],
    ["queue", "/tickets?status_category=open&sort=due_at", "light"],
    ["ticket", `/tickets/${ticket}`, "dark"],
    ["run", `/workflows/runs/${run.id}`, "light"],
    ["delivery", delivery, "light"],
  ]) {
    await page.emulateMedia({ colorScheme });
    await page.goto(url + path);
    await page.screenshot({ path: join(pictures, `${name}.png`) });
  }
} finally {
  await browser.close();
}
