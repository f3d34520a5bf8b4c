// Tests single sign-on with oidc-provider, a certified OpenID provider, and Chromium: a person goes from the sign-in page through the
// provider to a session that can read tickets, without scripts on our pages, and again after the provider has rotated its keys. Their
// groups give them a role, the provider ends their session, and passwords stop working once the provider is required.
//
// Takes the folder of the npm packages, and the file that the server wrote when it was ready.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

import { CLIENT, logIn, startProvider } from "./provider.mjs";

const [packages, ready] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), "package.json"));
const { chromium } = require("playwright-core");
const { url, api_key: key, email, password } = JSON.parse(readFileSync(ready, "utf8"));

const PATIENCE = 60_000;
const TRIES = 200;
const DOMAIN = "sign-on.example";

async function call(method, path, body) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await answer.text();
  return { status: answer.status, body: text ? JSON.parse(text) : null };
}

/** Goes through the sign-in page and returns the final address of the browser. */
async function signOn(context, person) {
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => /security policy/i.test(message.text()) && complaints.push(message.text()));
  await page.goto(`${url}/sign-in?return_to=/api/psa/tickets`);
  await page.getByLabel("E-mail address").fill(`${person}@${DOMAIN}`);
  await page.getByRole("button", { name: "Continue" }).click();
  await logIn(page, person, (address) => address.href.startsWith(`${url}/api/`), PATIENCE);
  const end = { url: page.url(), text: await page.textContent("body"), complaints };
  await page.close();
  return end;
}

async function timeRefusal(domain) {
  const body = JSON.stringify({ domain });
  const started = performance.now();
  const answer = await fetch(`${url}/api/auth/sso`, { method: "POST", headers: { "content-type": "application/json" }, body });
  await answer.text();
  assert.equal(answer.status, 404);
  return performance.now() - started;
}

/** Compares the times of a domain without a provider and of one with a disabled provider. Only reported: a busy machine is not an error. */
async function compareTimes() {
  const times = { "disabled.example": [], "unknown.example": [] };
  for (let turn = 0; turn < TRIES; turn += 1) {
    for (const domain of Object.keys(times)) times[domain].push(await timeRefusal(domain));
  }
  const [disabled, unknown] = Object.values(times).map((list) => list.sort((one, other) => one - other)[TRIES / 2]);
  console.log(`refused, median of ${TRIES}: disabled ${disabled.toFixed(3)} ms, unknown ${unknown.toFixed(3)} ms, ratio ${(disabled / unknown).toFixed(3)}`);
}

/** Requires the provider: the password of the demo's administrator works only while they are a break-glass account. */
async function requireProvider(id) {
  const path = `/api/admin/identity-providers/${id}`;
  const signIn = () =>
    fetch(`${url}/api/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ email, password }),
    });
  const admin = (await call("GET", `/api/admin/users?q=${email}`)).body.data[0];
  const alone = await call("PUT", path, { enforcement: "tenant" });
  assert.equal(alone.status, 422, JSON.stringify(alone.body));
  assert.equal(alone.body.errors[0].pointer, "/break_glass_user_ids");
  const required = await call("PUT", path, { enforcement: "tenant", break_glass_user_ids: [admin.id] });
  assert.equal(required.status, 200, JSON.stringify(required.body));
  assert.equal((await signIn()).status, 200);
  const used = await call("GET", "/api/events?types=auth.break_glass_used");
  assert.equal(used.body.data.length, 1);
}

const { server, issuer, change } = await startProvider(packages, url, DOMAIN);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const made = [];
const records = [];
try {
  const provider = {
    name: "oidc-provider",
    issuer,
    ...CLIENT,
    auto_provision: true,
    default_role: "viewer",
    scopes: ["openid", "email", "profile", "groups"],
    role_mappings: [{ group: "helpdesk", role: "technician" }],
  };
  for (const more of [{ domains: [DOMAIN] }, { domains: ["disabled.example"], enabled: false }]) {
    const created = await call("POST", "/api/admin/identity-providers", { ...provider, ...more });
    assert.equal(created.status, 201, JSON.stringify(created.body));
    made.push(created.body.id);
    records.push(created.body);
  }
  const [record] = records;
  change("first", record);
  const context = await browser.newContext({ javaScriptEnabled: false });
  const first = await signOn(context, "ada");
  assert.equal(first.url, `${url}/api/psa/tickets`, first.text);
  assert.ok(JSON.parse(first.text).data.length > 0, "the session opens the tickets");
  assert.deepEqual(first.complaints, [], "nothing is held back by a policy");
  const cookies = await context.cookies(url);
  const session = cookies.find((cookie) => cookie.name === "tenantd_session");
  assert.ok(session.httpOnly && session.sameSite === "Lax");
  assert.ok(!cookies.some((cookie) => cookie.name === "tenantd_sign_on"), "the ticket is gone");
  const users = await call("GET", `/api/admin/users?q=ada@${DOMAIN}`);
  assert.equal(users.body.data[0].sso.subject, "ada");
  assert.equal(users.body.data[0].role, "technician", "the group decides");
  console.log("Chromium has signed in through oidc-provider");

  const visitor = await context.newPage();
  await visitor.goto(`${url}/`);
  await visitor.getByRole("button", { name: "Sign out" }).click();
  const wayOut = visitor.getByRole("link", { name: "Sign out of oidc-provider" });
  await wayOut.waitFor();
  assert.ok(!(await context.cookies(url)).some((cookie) => cookie.name === "tenantd_session"));
  console.log("and out");

  // A second session of the same person ends when they sign out of the provider.
  const second = await signOn(context, "ada");
  assert.equal(second.url, `${url}/api/psa/tickets`, second.text);
  await wayOut.click();
  await visitor.waitForURL((address) => address.href.startsWith(`${issuer}/session/end`));
  await visitor.getByRole("button", { name: /sign me out/i }).click();
  await visitor.waitForURL(`${issuer}/session/end/success*`);
  for (const end = Date.now() + PATIENCE; ; ) {
    const answer = await context.request.get(`${url}/api/auth/session`);
    if (answer.status() === 401) break;
    assert.ok(Date.now() < end, "the provider ends the session by a logout token");
    await new Promise((done) => setTimeout(done, 250));
  }
  console.log("the provider has ended a session");

  await compareTimes();

  change("second", record);
  // Keys that were fetched a moment ago are not fetched again, so the first attempt may be refused.
  const end = Date.now() + PATIENCE;
  for (;;) {
    const again = await signOn(context, "ada");
    if (again.url === `${url}/api/psa/tickets`) break;
    assert.ok(Date.now() < end, `the new key was not found: ${again.text}`);
  }
  console.log("and in again after a change of keys");
  const events = await call("GET", "/api/events?types=auth.login_failed&limit=200");
  const reasons = new Set(events.body.data.map((event) => event.data.sign_in.reason));
  assert.ok([...reasons].every((reason) => reason === "bad_signature"), [...reasons].join());

  await requireProvider(record.id);
  console.log("and is required");
} finally {
  for (const id of made) await call("PUT", `/api/admin/identity-providers/${id}`, { enforcement: "off" });
  for (const id of made) await call("DELETE", `/api/admin/identity-providers/${id}`);
  await browser.close();
  server.close();
  server.closeAllConnections();
}
