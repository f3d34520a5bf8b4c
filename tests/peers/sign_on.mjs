// Tests single sign-on with oidc-provider, a certified OpenID provider, and Chromium: a person goes from the sign-in page through the
// provider to a session that can read tickets, without scripts on our pages, and again after the provider has rotated its keys.
//
// Takes the folder of the npm packages, and the file that the server wrote when it was ready.

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [packages, ready] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), "package.json"));
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);
const { chromium } = require("playwright-core");
const { url, api_key: key } = JSON.parse(readFileSync(ready, "utf8"));

const PATIENCE = 60_000;
const TRIES = 200;
const DOMAIN = "sign-on.example";
const CLIENT = { client_id: "tenantd", client_secret: "a secret of 32 letters and a few more" };

async function call(method, path, body) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await answer.text();
  return { status: answer.status, body: text ? JSON.parse(text) : null };
}

function newProvider(issuer, name) {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const provider = new Provider(issuer, {
    clients: [{ ...CLIENT, redirect_uris: [`${url}/api/auth/sso/callback`], grant_types: ["authorization_code"], response_types: ["code"] }],
    jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), kid: name, use: "sig", alg: "RS256" }] },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    pkce: { required: () => true },
    cookies: { keys: ["not a secret: it is only for this test"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@${DOMAIN}`, email_verified: true, name: `The person ${id}` }),
    }),
  });
  return provider.callback();
}

/** A provider whose keys can be changed under the same address. */
async function startProvider() {
  let handle;
  const server = createServer((request, response) => handle(request, response));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const change = (name) => (handle = newProvider(issuer, name));
  change("first");
  return { server, issuer, change };
}

/** Goes through the sign-in page and returns the final address of the browser. */
async function signOn(context, person) {
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => /security policy/i.test(message.text()) && complaints.push(message.text()));
  await page.goto(`${url}/sign-in?return_to=/api/psa/tickets`);
  await page.getByLabel("E-mail address").fill(`${person}@${DOMAIN}`);
  await page.getByRole("button", { name: "Continue" }).click();
  // The provider asks for a login and for consent, unless it has a session.
  const settled = (address) => address.href.startsWith(`${url}/api/`) || address.pathname.startsWith("/interaction/");
  await page.waitForURL(settled, { timeout: PATIENCE });
  while (!page.url().startsWith(url)) {
    const before = page.url();
    const login = page.locator("input[name=login]");
    if (await login.count()) {
      await login.fill(person);
      await page.locator("input[name=password]").fill("anything");
    }
    await page.locator("button[type=submit]").click();
    await page.waitForURL((address) => address.href !== before && settled(address), { timeout: PATIENCE });
  }
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

const { server, issuer, change } = await startProvider();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const made = [];
try {
  const provider = { name: "oidc-provider", issuer, ...CLIENT, auto_provision: true, default_role: "technician" };
  for (const more of [{ domains: [DOMAIN] }, { domains: ["disabled.example"], enabled: false }]) {
    const created = await call("POST", "/api/admin/identity-providers", { ...provider, ...more });
    assert.equal(created.status, 201, JSON.stringify(created.body));
    made.push(created.body.id);
  }
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
  console.log("Chromium has signed in through oidc-provider");

  const visitor = await context.newPage();
  await visitor.goto(`${url}/`);
  await visitor.getByRole("button", { name: "Sign out" }).click();
  await visitor.waitForURL(`${url}/sign-in`);
  await visitor.getByLabel("E-mail address").waitFor();
  assert.ok(!(await context.cookies(url)).some((cookie) => cookie.name === "tenantd_session"));
  console.log("and out");

  await compareTimes();

  change("second");
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
} finally {
  for (const id of made) await call("DELETE", `/api/admin/identity-providers/${id}`);
  await browser.close();
  server.close();
  server.closeAllConnections();
}
