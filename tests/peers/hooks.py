"""What schemathesis has to know of this API beyond its document, each with its reason."""

import os
import re

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData, UseAfterFree

# The key that the requests are made with.
KEY_IN_USE = os.environ.get("PEERS_KEY_ID")
# Somebody who can sign in.
EMAIL = os.environ.get("PEERS_EMAIL")
PASSWORD = os.environ.get("PEERS_PASSWORD")
EXAMPLE_PASSWORD = "correct horse battery staple"
# A key that does not exist.
NO_KEY = "key_00000000000000000000000000"

# The form that the document gives for `If-Match`.
TAGS = re.compile(r'\*|(W/)?"v[0-9]{1,19}"( *, *(W/)?"v[0-9]{1,19}")*')


@schemathesis.hook
def before_call(ctx, case, kwargs):
    spare_key_in_use(case)
    shorten_wait(case)
    correct_if_match(case)
    sign_in(case)


def spare_key_in_use(case):
    """A list of keys shows the key in use as well. Revoked, disabled or rotated, it would end the run, so that changes of it go to
    a key that does not exist. Reading it is fine."""
    if KEY_IN_USE is None or case.method.upper() == "GET":
        return
    for place in (case.path_parameters, case.query, case.body):
        if isinstance(place, dict) and place.get("id") == KEY_IN_USE:
            place["id"] = NO_KEY


def shorten_wait(case):
    """A wait for events that do not come takes as long as asked for: a second shows the same as half a minute."""
    wait = case.query.get("wait_seconds") if isinstance(case.query, dict) else None
    if str(wait).isdigit() and 1 < int(wait) <= 30:
        case.query["wait_seconds"] = 1


def correct_if_match(case):
    """schemathesis has entity tags of its own for this header. Where they do not fit the pattern that the document says, it sends an
    empty one and takes it for valid."""
    tag = (case.headers or {}).get("If-Match")
    if tag is not None and case.meta is not None and case.meta.generation.mode.is_positive and not TAGS.fullmatch(tag):
        case.headers["If-Match"] = "*"


def sign_in(case):
    """The document's example of a login is nobody's. With somebody's it is one that succeeds."""
    if EMAIL is not None and isinstance(case.body, dict) and case.body.get("password") == EXAMPLE_PASSWORD:
        case.body.update(email=EMAIL, password=PASSWORD)


# What a text among the scopes or the networks of a key becomes, unless it is long: made up ones are refused at once, and nothing
# behind that would be tested.
KNOWN = {
    "scopes": ["api_keys:read", "events:read", "tickets:*", "*:read", "api_keys:write", "*"],
    "allowed_ips": ["127.0.0.0/8", "203.0.113.7", "2001:db8::/32", "::1"],
}


@schemathesis.hook
def map_body(ctx, body):
    for name, known in KNOWN.items():
        texts = body.get(name) if isinstance(body, dict) else None
        if isinstance(texts, list) and 0 < len(texts) <= len(known) and all(isinstance(text, str) and len(text) < 9 for text in texts):
            # Entries that are repeated on purpose stay repeated.
            body[name] = [known[texts.index(text)] for text in texts]
    return body


# Codes of problems that tell of the state of things and not of the form of the request: no schema can say which cursors exist, or
# which version a record has now.
ABOUT_STATE = {"cursor_mismatch", "id_mismatch", "idempotency_key_reused", "invalid_transition", "version_conflict"}

# Rules that the descriptions tell in words, because JSON Schema cannot or not in a way that makes a better error: what is told, and
# where. Anything else that is refused although the document allows it is a failure.
RULES_IN_WORDS = {
    # Scopes and kinds of events grow with every release; the error lists them.
    ("unknown_scope", "/scopes"),
    ("unknown_scope", "scope"),
    ("unknown_event", "types"),
    # A network, which has no format in JSON Schema.
    ("wrong_form", "/allowed_ips"),
    # The most is a setting of the operator.
    ("out_of_range", "/expires_days"),
    # Only for one kind of tenant.
    ("not_allowed", "/expires_days"),
    # A name without a letter or digit makes no slug, and one slug is the operator's own.
    ("required", "/slug"),
    ("wrong_form", "/slug"),
    # In the query or in the body, but somewhere.
    ("required", "id"),
}


@schemathesis.hook
def filter_failure(ctx, failure, case, response):
    if isinstance(failure, UseAfterFree):
        # A key is revoked for good, but its record stays to be read for a while: it must say so.
        return response.json().get("status") != "revoked"
    if not isinstance(failure, RejectedPositiveData):
        return True
    problem = response.json()
    if problem["code"] in ABOUT_STATE:
        return False
    errors = problem.get("errors", [])
    told = {(error["code"], error.get("pointer", error.get("parameter"))) for error in errors}
    return not told or not told <= RULES_IN_WORDS
