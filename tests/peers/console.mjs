// Uses the console with Chromium as people do: by keyboard, with and without scripts, in light, dark and on a narrow screen. axe-core looks
// for barriers on every page. No page may load anything from another host or break the content security policy.
//
// Takes the folder of the npm packages, the file that the server wrote when it was ready, and optionally a folder for screenshots.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";

import { usePasskey } from "./passkey.mjs";
import { CLIENT, logIn, startProvider } from "./provider.mjs";

const [packages, ready, pictures] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const { url, api_key: key, email, password } = JSON.parse(readFileSync(ready, "utf8"));

const FORMS = [
  { name: "light", colorScheme: "light", viewport: { width: 1280, height: 800 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1280, height: 800 } },
  { name: "narrow", colorScheme: "light", viewport: { width: 390, height: 800 } },
];

async function api(path, change) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(url + path, change ? { method: "PATCH", headers, body: JSON.stringify(change) } : { headers });
  assert.equal(answer.status, 200, path);
  return answer.json();
}

/** What a page did that it must not do. */
function watch(context) {
  const complaints = [];
  context.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) complaints.push(`request to ${request.url()}`);
  });
  context.on("console", (message) => {
    if (/security policy/i.test(message.text())) complaints.push(message.text());
  });
  context.on("weberror", (error) => complaints.push(String(error.error())));
  return complaints;
}

async function signIn(page, who = { email, password }) {
  await page.goto(`${url}/`);
  await page.getByLabel("E-mail address").fill(who.email);
  await page.keyboard.press("Enter");
  await page.getByLabel("Password", { exact: true }).fill(who.password);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${url}/`);
}

/** Every page for somebody who is signed in, with records that exist. */
async function pages() {
  const first = async (path) => (await api(path)).data[0];
  const ticket = await first("/api/psa/tickets?status_category=open&limit=1");
  const answered = await first("/api/psa/tickets?status=resolved&limit=1");
  const organization = await first("/api/directory/organizations?limit=1");
  const device = await first("/api/directory/devices?class=server&limit=1");
  const contact = await first("/api/directory/contacts?limit=1");
  const workflow = await first("/api/psa/workflows/trigger?limit=1");
  const run = await first("/api/psa/workflows/trigger?view=runs&limit=1");
  const webhook = await first("/api/admin/webhooks?limit=1");
  const delivery = await first(`/api/admin/webhooks/${webhook.id}/deliveries?limit=1`);
  const provider = await first("/api/cloud/providers?limit=1");
  const vm = await first("/api/cloud/vms?limit=1");
  const user = await first("/api/admin/users?limit=1");
  const apiKey = await first("/api/admin/api-keys?limit=1");
  return [
    "/",
    "/tickets",
    "/tickets?q=nothing-matches-this",
    "/tickets/new",
    `/tickets/new?organization_id=${organization.id}`,
    `/tickets/${ticket.ref}`,
    `/tickets/${answered.ref}`,
    "/organizations",
    "/organizations/new",
    `/organizations/${organization.id}`,
    `/organizations/${organization.id}/edit`,
    `/organizations/${organization.id}/delete`,
    `/organizations/${organization.id}/contacts`,
    `/organizations/${organization.id}/contacts/new`,
    `/contacts/${contact.id}`,
    `/contacts/${contact.id}/edit`,
    "/devices",
    "/devices?group_by=os",
    "/devices/new",
    `/devices/${device.id}`,
    `/devices/${device.id}/edit`,
    "/search?q=backup",
    "/search",
    "/profile",
    "/workflows",
    "/workflows/starters",
    "/workflows/new",
    `/workflows/${workflow.id}`,
    `/workflows/${workflow.id}/edit`,
    `/workflows/${workflow.id}/run`,
    `/workflows/${workflow.id}/delete`,
    "/workflows/runs",
    `/workflows/runs/${run.id}`,
    "/workflows/approvals",
    "/workflows/calendar",
    "/webhooks",
    "/webhooks/new",
    "/webhooks/events?q=ticket",
    "/webhooks/verify",
    `/webhooks/${webhook.id}`,
    `/webhooks/${webhook.id}/edit`,
    `/webhooks/${webhook.id}/rotate`,
    `/webhooks/${webhook.id}/deliveries`,
    `/webhooks/${webhook.id}/deliveries/${delivery.id}`,
    `/webhooks/${webhook.id}/replay`,
    "/clouds",
    "/clouds/new",
    "/clouds/new?kind=aws",
    `/clouds/${provider.id}`,
    `/clouds/${provider.id}/edit`,
    "/vms",
    "/vms/new",
    `/vms/${vm.id}`,
    "/backups",
    `/backups/${organization.id}`,
    "/backups/config",
    "/backups/config/edit",
    "/analytics",
    "/analytics?metrics=tickets_created&metrics=tickets_resolved&range=90d&bucket=week",
    "/settings",
    "/settings/quotas",
    "/settings/users",
    "/settings/users/new",
    `/settings/users/${user.id}`,
    `/settings/users/${user.id}/edit`,
    "/settings/rights",
    "/profile/keys",
    "/profile/keys/new",
    "/settings/keys",
    "/settings/keys/new",
    `/settings/keys/${apiKey.id}`,
    `/settings/keys/${apiKey.id}/edit`,
    `/settings/keys/${apiKey.id}/rotate`,
    "/settings/portal",
    "/settings/provisioning",
    "/settings/secrets",
    "/settings/secrets/new",
    "/settings/identity-providers",
    "/settings/identity-providers/new",
    "/settings/service-levels",
    "/settings/service-levels/edit",
    "/settings/audit",
    "/settings/audit/checkpoint",
    "/tickets/T-999999",
    "/documentation/",
    "/documentation/api/",
    "/documentation/api/tickets/create_tickets/",
    "/documentation/analytics/",
    "/status/",
  ];
}

/** Looks for barriers on every page in every form. Returns how many pages it looked at. */
async function look(browser, state) {
  let looked = 0;
  const barriers = [];
  const all = await pages();
  for (const { name, ...options } of FORMS) {
    const context = await browser.newContext({ ...options, storageState: state, bypassCSP: false });
    const complaints = watch(context);
    const page = await context.newPage();
    for (const path of all) {
      await page.goto(url + path);
      // The policy of the page forbids foreign scripts, so axe comes through the debugger.
      const session = await context.newCDPSession(page);
      await session.send("Runtime.evaluate", { expression: axe });
      const found = await session.send("Runtime.evaluate", {
        expression: "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => JSON.stringify(violations.map(({id, nodes}) => [id, nodes.map(({html}) => html.slice(0, 200))])))",
        awaitPromise: true,
        returnByValue: true,
      });
      if (found.result.value !== "[]") barriers.push(`${name} ${path}: ${found.result.value}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) barriers.push(`${name} ${path} is ${wide} px wider than the screen`);
      if (pictures) {
        const file = `${(path === "/" ? "home" : path.slice(1)).replace(/[^a-zA-Z0-9]+/g, "-")}-${name}.png`;
        await page.screenshot({ path: join(pictures, file), fullPage: false });
      }
      await session.detach();
      looked += 1;
    }
    for (const path of ["/sign-in", "/sign-in?password=true", "/set-password?token=wrong"]) {
      const stranger = await browser.newContext(options);
      const entry = await stranger.newPage();
      await entry.goto(url + path);
      const session = await stranger.newCDPSession(entry);
      await session.send("Runtime.evaluate", { expression: axe });
      const found = await session.send("Runtime.evaluate", {
        expression: "axe.run().then(({violations}) => JSON.stringify(violations.map(({id, nodes}) => [id, nodes.map(({html}) => html)])))",
        awaitPromise: true,
        returnByValue: true,
      });
      if (found.result.value !== "[]") barriers.push(`${name} ${path}: ${found.result.value}`);
      if (pictures) await entry.screenshot({ path: join(pictures, `${path.slice(1).replace(/[^a-z]+/g, "-")}-${name}.png`) });
      await stranger.close();
      looked += 1;
    }
    assert.deepEqual(complaints, [], name);
    await context.close();
  }
  assert.deepEqual(barriers, []);
  return looked;
}

/** A technician takes, answers and resolves a ticket by keyboard alone. */
async function workByKeyboard(page) {
  await page.goto(`${url}/tickets?status=new`);
  await page.keyboard.press("j");
  const reference = await page.evaluate(() => document.activeElement?.closest("tr")?.querySelector("code")?.textContent);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${url}/tickets/${reference}`);
  await page.getByRole("button", { name: "Start work" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /In progress/.test(document.querySelector("main")?.textContent ?? ""));
  await page.locator("textarea[name=body]").focus();
  await page.keyboard.type("We are looking into it.");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => /We are looking into it\./.test(document.querySelector(".timeline")?.textContent ?? ""));
  await page.getByText("Resolve…").first().focus();
  await page.keyboard.press("Enter");
  await page.locator("textarea[name=summary], input[name=summary]").first().focus();
  await page.keyboard.type("The cable was loose.");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => /Resolved/.test(document.querySelector("main")?.textContent ?? ""));
  const ticket = await api(`/api/psa/tickets/${reference}`);
  assert.deepEqual([ticket.status, ticket.resolution.summary, ticket.counts.comments > 0], ["resolved", "The cable was loose.", true]);
}

/** An evaluator finds the organization with the worst backups from Home. */
async function findWorstBackup(page) {
  const worst = (await api("/api/backup/customer-aggregate?sort=score&limit=1")).data[0];
  await page.goto(`${url}/`);
  await page.getByRole("link", { name: worst.organization.name }).first().click();
  await page.waitForURL(`${url}/backups/${worst.organization.id}`);
  assert.match(await page.textContent("main"), new RegExp(`\\b${worst.score}\\b`));
}

/** An analyst finds the devices with a program, and downloads the table. */
async function findProgram(page) {
  const device = (await api("/api/directory/devices?class=workstation&limit=1")).data[0];
  const program = device.software[0].name;
  await page.goto(`${url}/devices?software=${encodeURIComponent(program)}`);
  assert.match(await page.textContent("main"), /[0-9]+/);
  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "CSV" }).first().click();
  const table = readFileSync(await (await download).path(), "utf8");
  assert.ok(table.split("\n").length > 2, table.slice(0, 300));
}

/** Anyone finds a device by its hardware address, in another spelling. */
async function findAddress(page) {
  const device = (await api("/api/directory/devices?class=server&limit=1")).data[0];
  const mac = device.network.interfaces[0].mac.toLowerCase().replaceAll(":", "-");
  await page.goto(`${url}/`);
  await page.keyboard.press("/");
  await page.keyboard.type(mac);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/search\?/);
  await page.getByRole("link", { name: device.name, exact: true }).first().click();
  await page.waitForURL(`${url}/devices/${device.id}`);
}

/** Two technicians: one sees what the other does without loading the page again, and nothing is taken away while they write. */
async function seeChanges(page) {
  const ticket = (await api("/api/psa/tickets?status_category=open&limit=1")).data[0];
  const told = page.waitForResponse((response) => response.url().includes("/live?"));
  await page.goto(`${url}/tickets/${ticket.ref}`);
  await told;
  await page.evaluate(() => document.body.setAttribute("data-loaded", "once"));
  await api(`/api/psa/tickets/${ticket.ref}`, { subject: "The printer burns" });
  await page.getByRole("heading", { name: "The printer burns" }).waitFor();
  await page.locator("textarea[name=body]").fill("Half a sen");
  await api(`/api/psa/tickets/${ticket.ref}`, { subject: "The printer is cold again" });
  await page.getByText("This page has changed.").waitFor();
  assert.equal(await page.locator("textarea[name=body]").inputValue(), "Half a sen");
  assert.equal(await page.locator("body").getAttribute("data-loaded"), "once", "the page was loaded again");
  await page.getByRole("link", { name: "Show it again" }).click();
  await page.getByRole("heading", { name: "The printer is cold again" }).waitFor();
}

/** An administrator makes a key and uses it with the line that the page shows. */
async function makeKey(page) {
  await page.goto(`${url}/settings/keys/new?scopes=tickets%3Aread`);
  const name = `Nightly report ${Date.now()}`;
  await page.getByLabel("Name").first().fill(name);
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByText("Copy the key now.").waitFor();
  const lines = await page.locator("main code").allTextContents();
  const line = lines.find((text) => text.includes("curl"));
  const answer = JSON.parse(execFileSync("bash", ["-c", line ?? ""], { encoding: "utf8" }));
  assert.equal(answer.name, name, line);
}

/** An administrator makes a webhook, sees a delivery that fails, mends the receiver, and delivers it again. */
async function mendWebhook(page) {
  let status = 500;
  const receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(status).end();
  });
  await new Promise((begin) => receiver.listen(0, "127.0.0.1", begin));
  try {
    await page.goto(`${url}/webhooks/new`);
    await page.getByLabel("Name").first().fill("Chat");
    await page.getByLabel("URL").first().fill(`http://127.0.0.1:${receiver.address().port}/`);
    await page.locator("input[type=checkbox][value='*']").check();
    await page.getByRole("button", { name: /Create/ }).click();
    await page.getByText("whsec_").first().waitFor();
    const webhook = (await api("/api/admin/webhooks?limit=1")).data[0];
    await page.goto(`${url}/webhooks/${webhook.id}/test`);
    await page.getByRole("button", { name: /test/i }).click();
    await page.getByText("500").first().waitFor();
    status = 204;
    await page.goto(`${url}/webhooks/${webhook.id}/deliveries`);
    await page.locator("[data-record]").first().click();
    await page.getByRole("button", { name: "Redeliver" }).click();
    const delivery = new URL(page.url()).pathname.split("/").pop();
    const path = `/api/admin/webhooks/${webhook.id}/deliveries/${delivery}`;
    for (let attempt = 0; (await api(path)).status !== "delivered"; attempt += 1) {
      assert.ok(attempt < 100, "the delivery is not delivered");
      await page.waitForTimeout(100);
    }
  } finally {
    receiver.close();
  }
}

/** An administrator edits a starter, checks it, runs it, and approves the run. */
async function approveRun(page) {
  await page.goto(`${url}/workflows/approvals`);
  await page.getByLabel("Reason").first().fill("They left on Friday.");
  await page.getByRole("button", { name: "Approve" }).first().click();
  const isDecided = (run) => run.workflow.name === "Offboard a person" && run.status !== "waiting";
  for (let attempt = 0; !(await api("/api/psa/workflows/trigger?view=runs&limit=50")).data.some(isDecided); attempt += 1) {
    assert.ok(attempt < 100, "no run went on");
    await page.waitForTimeout(100);
  }
}

/** An account manager compares two months. */
async function compareMonths(page) {
  await page.goto(`${url}/analytics`);
  await page.getByLabel("Compare with").selectOption({ index: 1 });
  await page.getByRole("button", { name: "Show" }).click();
  await page.waitForURL(/compare/);
  assert.match(await page.textContent("main"), /than|more|less|before|previous|%/i);
  await page.emulateMedia({ media: "print" });
  assert.ok(await page.locator(".side").isHidden(), "the navigation is printed");
  await page.emulateMedia({ media: "screen" });
}

/** An administrator types a definition: the page says what is wrong with it while they type, and never moves the focus. */
async function typeWorkflow(page) {
  await page.goto(`${url}/workflows/new`);
  const text = page.locator("#definition");
  const definition = await text.inputValue();
  await page.getByLabel("Name").first().fill("Typed");
  await text.focus();
  await text.fill(definition.replace("ticket.create", "ticket.creat"));
  await page.locator(".gutter .faulty").waitFor();
  assert.match((await page.textContent("#check-live")) ?? "", /1 problem\. Line [0-9]+: there is no step type ticket\.creat/);
  assert.equal(await page.evaluate(() => document.activeElement?.id), "definition");
  assert.equal(await text.getAttribute("aria-invalid"), "true");
  await text.fill(definition);
  await page.waitForFunction(() => document.querySelector("#check-live")?.textContent?.includes("no problems"));
  assert.equal(await page.locator(".gutter .faulty").count(), 0);
}

/** A developer tries an operation on its page. */
async function tryOperation(page) {
  await page.goto(`${url}/documentation/api/tickets/list_tickets/`);
  await page.getByText("Try it", { exact: true }).click();
  await page.getByLabel("priority (query)").fill("critical");
  await page.getByLabel("limit (query)").fill("1");
  await page.getByRole("button", { name: "Send GET" }).click();
  await page.getByText("200 OK").waitFor();
  assert.match((await page.textContent("#answer")) ?? "", /"priority": "critical"/);
}

/** An administrator connects an identity provider, and tests it with a sign-in. */
async function connectProvider(browser, state) {
  const { server, issuer, change } = await startProvider(packages, url, "connected.example");
  const context = await browser.newContext({ storageState: state });
  try {
    const page = await context.newPage();
    await page.goto(`${url}/settings/identity-providers/new`);
    await page.getByLabel("Name").first().fill("Connected");
    await page.getByLabel("Issuer").fill(issuer);
    await page.getByLabel("Client ID").fill(CLIENT.client_id);
    await page.getByLabel("Client secret").fill(CLIENT.client_secret);
    await page.getByLabel("Domains").fill("connected.example");
    await page.getByLabel("Unknown people").selectOption("true");
    await page.getByRole("button", { name: "Create provider" }).click();
    await page.waitForURL(/\/settings\/identity-providers\/idp_/);
    const provider = page.url();
    const found = (await api("/api/admin/identity-providers")).data.find((record) => record.issuer === issuer);
    change("first", found);
    await page.getByRole("button", { name: "Test", exact: true }).click();
    await page.getByText("No check failed.").waitFor();
    await page.getByRole("link", { name: "Start the test sign-in" }).click();
    await logIn(page, "ada", (address) => address.href.startsWith(url), 60_000);
    await page.goto(provider);
    assert.match((await page.textContent("main")) ?? "", /Last test\s*Succeeded[^:]*: ada@connected\.example/);
    const headers = { authorization: `Bearer ${key}` };
    assert.equal((await fetch(`${url}/api/admin/identity-providers/${found.id}`, { method: "DELETE", headers })).status, 204);
  } finally {
    await context.close();
    server.close();
    server.closeAllConnections();
  }
}

/** The operator creates an evaluation tenant, and its visitor signs in. */
async function createEvaluation(browser) {
  const folder = join(dirname(ready), ready.split("/").pop().replace(/\.json$/, ""));
  const secret = readFileSync(join(folder, "initial-operator-password"), "utf8").trim();
  const context = await browser.newContext();
  const complaints = watch(context);
  const page = await context.newPage();
  await signIn(page, { email: "operator@localhost.localdomain", password: secret });
  await page.goto(`${url}/operator/tenants/new?kind=evaluation`);
  await page.getByLabel("Name").first().fill("Müller Trial");
  await page.getByLabel("Organizations").fill("2");
  await page.getByLabel("Devices").fill("3");
  await page.getByLabel("Tickets").fill("20");
  await page.getByRole("button", { name: "Create evaluation" }).click();
  await page.getByText("Copy these credentials now.").waitFor();
  const codes = await page.locator("dl code").allTextContents();
  const who = { email: codes.find((text) => text.includes("@muller-trial.example")), password: codes[2] };
  for (let attempt = 0; ; attempt += 1) {
    await page.goto(`${url}/operator/tenants?status=active`);
    if (/Müller Trial/.test((await page.textContent("main")) ?? "")) break;
    assert.ok(attempt < 300, "the tenant is not active");
    await page.waitForTimeout(200);
  }
  assert.deepEqual(complaints, []);
  await context.close();
  const visitor = await browser.newContext();
  await signIn(await visitor.newPage(), who);
  await visitor.close();
}

/** Somebody without scripts creates a ticket, sends its form twice, and signs out. */
async function workWithoutScripts(browser) {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const complaints = watch(context);
  const page = await context.newPage();
  await signIn(page);
  const organization = (await api("/api/directory/organizations?limit=1")).data[0];
  await page.goto(`${url}/tickets/new?organization_id=${organization.id}`);
  await page.getByLabel("Subject").fill("A ticket without scripts");
  await page.getByRole("button", { name: "Create" }).click();
  await page.waitForURL(/\/tickets\/T-[0-9]+/);
  assert.match(await page.textContent("h1"), /A ticket without scripts/);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/\/sign-in/);
  await page.goto(`${url}/tickets`);
  assert.match(page.url(), /\/sign-in\?return_to=/);
  assert.deepEqual(complaints, []);
  await context.close();
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
});
try {
  if (pictures) mkdirSync(pictures, { recursive: true });
  const context = await browser.newContext({ viewport: FORMS[0].viewport });
  const complaints = watch(context);
  const page = await context.newPage();
  await signIn(page);
  for (const journey of [findWorstBackup, workByKeyboard, findProgram, findAddress, seeChanges, makeKey, mendWebhook, approveRun, compareMonths, typeWorkflow, tryOperation]) {
    await journey(page);
    console.log(`journey: ${journey.name}`);
  }
  assert.deepEqual(complaints, []);
  await connectProvider(browser, await context.storageState());
  console.log("journey: connectProvider");
  console.log(`${await look(browser, await context.storageState())} pages without a barrier`);
  for (const journey of [createEvaluation, workWithoutScripts, usePasskey /* last, because a first factor ends other sessions */]) {
    await journey(browser, url, { email, password });
    console.log(`journey: ${journey.name}`);
  }
} finally {
  await browser.close();
}
