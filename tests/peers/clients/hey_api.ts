// A typical automation with the client that @hey-api/openapi-ts generates from the published document.
// usage: node hey_api.js SERVER.json

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { client } from "./generated/client.gen.js";
import * as api from "./generated/index.js";
import type { Problem, Ticket } from "./generated/index.js";

const server: { url: string; api_key: string } = JSON.parse(readFileSync(process.argv[2]!, "utf8"));
client.setConfig({ baseUrl: server.url, auth: server.api_key });

// Returns the record of a successful response.
function expect<T>(answer: { data: T | undefined; error: Problem | undefined; response: Response }, status: number): T {
  assert.equal(answer.response.status, status, JSON.stringify(answer.error));
  assert(answer.data !== undefined);
  return answer.data;
}

function refused(answer: { error: Problem | undefined; response: Response }, status: number): Problem {
  assert.equal(answer.response.status, status);
  assert(answer.error !== undefined);
  return answer.error;
}

// Two pages of a list whose filter has two values.
async function pageThroughTickets(): Promise<Ticket> {
  const filter = { priority: ["critical" as const, "high" as const], limit: 5 };
  const first = expect(await api.listTickets({ query: { ...filter, include_total: true } }), 200);
  const cursor = first.page.next_cursor;
  assert(cursor !== undefined);
  const second = expect(await api.listTickets({ query: { ...filter, cursor } }), 200);
  const tickets = [...first.data, ...second.data];
  assert.equal(new Set(tickets.map((ticket) => ticket.id)).size, 10);
  assert(tickets.every((ticket) => ticket.priority === "critical" || ticket.priority === "high"));
  assert((first.page.total ?? 0) > 10);
  return tickets[0]!;
}

// A repeated request gets the same ticket.
async function createTicket(organization_id: string): Promise<Ticket> {
  const request = {
    headers: { "Idempotency-Key": randomUUID() },
    body: { subject: "Printed by a generated client", organization_id, custom_fields: { rack: "B4", units: 2 } },
  };
  const made = expect(await api.createTickets(request), 201);
  const again = expect(await api.createTickets(request), 201);
  assert("id" in made && "id" in again);
  assert.equal(made.id, again.id);
  assert.deepEqual(made.custom_fields, { rack: "B4", units: 2 });
  return made;
}

async function readAndChange(ticket: Ticket): Promise<void> {
  const path = { id: ticket.id };
  const read = await api.readTicket({ path });
  assert.equal(expect(read, 200).subject, ticket.subject);
  const etag = read.response.headers.get("etag");
  assert(etag !== null);
  const unchanged = await api.readTicket({ path, headers: { "If-None-Match": etag } });
  assert.equal(unchanged.response.status, 304);
  const change = {
    path,
    headers: { "If-Match": etag },
    body: { subject: "Changed by a generated client", category: null },
  };
  const changed = expect(await api.updateTicketById(change), 200);
  assert.equal(changed.subject, change.body.subject);
  assert.equal(changed.version, ticket.version + 1);
  const lost = refused(await api.updateTicketById(change), 412);
  assert.equal(lost.code satisfies Problem["code"], "version_conflict");
  assert.equal(lost.current_version, changed.version);
}

async function beRefused(organization_id: string): Promise<void> {
  const body = { subject: "", organization_id };
  const problem = refused(await api.createTickets({ body }), 422);
  assert.equal(problem.code, "validation_failed");
  const [error] = problem.errors ?? [];
  assert.deepEqual([error?.pointer, error?.code], ["/subject", "too_short"]);
}

async function makeKey(): Promise<void> {
  const made = expect(await api.createApiKey({ body: { name: `Generated ${randomUUID()}`, scopes: ["tickets:read"] } }), 201);
  const auth = made.key;
  expect(await api.listTickets({ query: { limit: 1 }, auth }), 200);
}

async function makeWebhook(): Promise<void> {
  const body = { name: `Generated ${randomUUID()}`, url: "http://127.0.0.1:9/hook", events: ["ticket.created"] };
  const made = expect(await api.createWebhook({ body }), 201);
  assert(made.secret.startsWith("whsec_"));
  const read = expect(await api.readWebhook({ path: { id: made.id } }), 200);
  assert.deepEqual([read.url, read.events], [body.url, body.events]);
}

async function reportDevices(): Promise<void> {
  const query = { limit: 3, summary: true };
  const report = expect(await api.reportAssetInventory({ query }), 200);
  assert.equal(report.data?.length, 3);
  assert(report.data.every((row) => row.id.startsWith("dev_") && row.organization.name !== ""));
  assert((report.totals?.devices ?? 0) > 3);
}

async function findPrinters(): Promise<void> {
  const found = expect(await api.search({ query: { q: "printer", limit: 2 } }), 200);
  assert(found.data.some((hit) => hit.title.toLowerCase().includes("printer")));
}

async function addAndRemoveOrganization(): Promise<void> {
  const made = expect(await api.createOrganizations({ body: { name: `Generated ${randomUUID()}` } }), 201);
  assert("id" in made);
  const path = { id: made.id };
  const removed = await api.deleteOrganizationById({ path });
  assert.equal(removed.response.status, 204);
  assert.equal(refused(await api.readOrganization({ path }), 404).code, "not_found");
}

async function reportAnalytics(): Promise<void> {
  const query = { range: "7d" as const, metrics: ["tickets_created"] };
  const report = expect(await api.reportTenantAnalytics({ query }), 200);
  const [series] = report.series;
  assert(series !== undefined);
  assert.equal(series.metric, "tickets_created");
  const sum = series.points.reduce((sum, point) => sum + point.v, 0);
  assert.equal(report.totals["tickets_created"]?.value, sum);
}

const organization = (await pageThroughTickets()).organization.id;
await readAndChange(await createTicket(organization));
await beRefused(organization);
await makeKey();
await makeWebhook();
await reportDevices();
await findPrinters();
await addAndRemoveOrganization();
await reportAnalytics();
