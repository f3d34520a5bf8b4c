"""Keeps schemathesis from cutting off the branch that it sits on. Nothing here changes what is checked."""

import os

import schemathesis

# The key that the requests are made with.
KEY_IN_USE = os.environ.get("PEERS_KEY_ID")
# A key that does not exist.
NO_KEY = "key_00000000000000000000000000"


@schemathesis.hook
def before_call(ctx, case, kwargs):
    spare_key_in_use(case)
    shorten_wait(case)


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
