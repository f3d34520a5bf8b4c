"""A typical automation with the client that openapi-python-client generates from the published document.

usage: automation.py SERVER.json
"""

import json
import pathlib
import sys
import uuid
from http import HTTPStatus
from typing import TypeVar

from tenantd_api import AuthenticatedClient
from tenantd_api.api.analytics import report_tenant_analytics
from tenantd_api.api.api_keys import create_api_key
from tenantd_api.api.directory import create_organizations, delete_organization_by_id, read_organization
from tenantd_api.api.inventory import report_asset_inventory
from tenantd_api.api.search import search
from tenantd_api.api.tickets import create_tickets, list_tickets, read_ticket, update_ticket_by_id
from tenantd_api.api.webhooks import create_webhook, read_webhook
from tenantd_api.models import (
    AnalyticsRange,
    AnalyticsReport,
    ApiKeyWithSecret,
    CreateApiKey,
    CreateOrganization,
    CreateTicket,
    CreateTicketCustomFields,
    CreateWebhook,
    InventoryReport,
    InventoryTotals,
    Organization,
    Problem,
    ProblemCode,
    SearchResults,
    Ticket,
    TicketList,
    TicketPriority,
    UpdateTicket,
    Webhook,
    WebhookWithSecret,
)
from tenantd_api.types import Response, Unset

S = TypeVar("S")
T = TypeVar("T")
PRIORITIES = [TicketPriority.CRITICAL, TicketPriority.HIGH]


def expect(answer: Response[S], status: HTTPStatus, kind: type[T]) -> T:
    """Returns the record of a response with this status and type."""
    assert answer.status_code == status, (answer.status_code, answer.content)
    assert isinstance(answer.parsed, kind), answer.parsed
    return answer.parsed


def present(value: T | Unset) -> T:
    assert not isinstance(value, Unset)
    return value


def page_through_tickets(client: AuthenticatedClient) -> Ticket:
    """Two pages of a list whose filter has two values."""
    first = expect(
        list_tickets.sync_detailed(client=client, priority=PRIORITIES, limit=5, include_total=True), HTTPStatus.OK, TicketList
    )
    cursor = present(first.page.next_cursor)
    second = expect(list_tickets.sync_detailed(client=client, priority=PRIORITIES, limit=5, cursor=cursor), HTTPStatus.OK, TicketList)
    tickets = first.data + second.data
    assert len({ticket.id for ticket in tickets}) == 10
    assert {ticket.priority for ticket in tickets} <= set(PRIORITIES)
    assert present(first.page.total) > 10
    return tickets[0]


def create_a_ticket(client: AuthenticatedClient, organization_id: str) -> Ticket:
    """A repeated request gets the same ticket."""
    fields = CreateTicketCustomFields()
    fields.additional_properties = {"rack": "B4", "units": 2}
    body = CreateTicket(subject="Printed by a generated client", organization_id=organization_id, custom_fields=fields)
    key = str(uuid.uuid4())
    made = [
        expect(create_tickets.sync_detailed(client=client, body=body, idempotency_key=key), HTTPStatus.CREATED, Ticket) for _ in range(2)
    ]
    assert made[0].id == made[1].id
    assert made[0].custom_fields.additional_properties == {"rack": "B4", "units": 2}
    return made[0]


def read_and_change(client: AuthenticatedClient, ticket: Ticket) -> None:
    answer = read_ticket.sync_detailed(ticket.id, client=client)
    assert expect(answer, HTTPStatus.OK, Ticket).subject == ticket.subject
    etag = answer.headers["etag"]
    unchanged = read_ticket.sync_detailed(ticket.id, client=client, if_none_match=etag)
    assert unchanged.status_code == HTTPStatus.NOT_MODIFIED
    body = UpdateTicket(subject="Changed by a generated client", category=None)
    changed = expect(update_ticket_by_id.sync_detailed(ticket.id, client=client, body=body, if_match=etag), HTTPStatus.OK, Ticket)
    assert changed.subject == body.subject
    assert changed.version == ticket.version + 1
    lost = expect(
        update_ticket_by_id.sync_detailed(ticket.id, client=client, body=body, if_match=etag), HTTPStatus.PRECONDITION_FAILED, Problem
    )
    assert lost.code is ProblemCode.VERSION_CONFLICT
    assert present(lost.current_version) == changed.version


def be_refused(client: AuthenticatedClient, organization_id: str) -> None:
    body = CreateTicket(subject="", organization_id=organization_id)
    problem = expect(create_tickets.sync_detailed(client=client, body=body), HTTPStatus.UNPROCESSABLE_ENTITY, Problem)
    assert problem.code is ProblemCode.VALIDATION_FAILED
    [error] = present(problem.errors)
    assert (error.pointer, error.code) == ("/subject", "too_short")


def make_a_key(client: AuthenticatedClient) -> None:
    body = CreateApiKey(name=f"Generated {uuid.uuid4()}", scopes=["tickets:read"])
    made = expect(create_api_key.sync_detailed(client=client, body=body), HTTPStatus.CREATED, ApiKeyWithSecret)
    limited = client.with_headers({})
    limited.token = made.key
    expect(list_tickets.sync_detailed(client=limited, limit=1), HTTPStatus.OK, TicketList)


def make_a_webhook(client: AuthenticatedClient) -> None:
    body = CreateWebhook(name=f"Generated {uuid.uuid4()}", url="http://127.0.0.1:9/hook", events=["ticket.created"])
    made = expect(create_webhook.sync_detailed(client=client, body=body), HTTPStatus.CREATED, WebhookWithSecret)
    assert made.secret.startswith("whsec_")
    read = expect(read_webhook.sync_detailed(made.id, client=client), HTTPStatus.OK, Webhook)
    assert (read.url, read.events) == (body.url, body.events)


def report_devices(client: AuthenticatedClient) -> None:
    report = expect(report_asset_inventory.sync_detailed(client=client, limit=3, summary=True), HTTPStatus.OK, InventoryReport)
    rows = present(report.data)
    assert len(rows) == 3
    assert all(row.id.startswith("dev_") and row.organization.name for row in rows)
    totals: InventoryTotals = present(report.totals)
    assert totals.devices > 3


def find_printers(client: AuthenticatedClient) -> None:
    found = expect(search.sync_detailed(client=client, q="printer", limit=2), HTTPStatus.OK, SearchResults)
    assert [hit for hit in found.data if "printer" in hit.title.lower()]


def add_and_remove_an_organization(client: AuthenticatedClient) -> None:
    body = CreateOrganization(name=f"Generated {uuid.uuid4()}")
    made = expect(create_organizations.sync_detailed(client=client, body=body), HTTPStatus.CREATED, Organization)
    assert made.name == body.name
    assert delete_organization_by_id.sync_detailed(made.id, client=client).status_code == HTTPStatus.NO_CONTENT
    gone = expect(read_organization.sync_detailed(made.id, client=client), HTTPStatus.NOT_FOUND, Problem)
    assert gone.code is ProblemCode.NOT_FOUND


def report_analytics(client: AuthenticatedClient) -> None:
    answer = report_tenant_analytics.sync_detailed(client=client, range_=AnalyticsRange("7d"), metrics=["tickets_created"])
    report = expect(answer, HTTPStatus.OK, AnalyticsReport)
    [series] = report.series
    assert series.metric == "tickets_created"
    total = report.totals.additional_properties["tickets_created"].value
    assert total == sum(point.v for point in series.points)


def main(path: str) -> None:
    server: dict[str, str] = json.loads(pathlib.Path(path).read_text())
    client = AuthenticatedClient(base_url=server["url"], token=server["api_key"], raise_on_unexpected_status=True)
    organization = page_through_tickets(client).organization.id
    ticket = create_a_ticket(client, organization)
    read_and_change(client, ticket)
    be_refused(client, organization)
    make_a_key(client)
    make_a_webhook(client)
    report_devices(client)
    find_printers(client)
    add_and_remove_an_organization(client)
    report_analytics(client)


main(sys.argv[1])
