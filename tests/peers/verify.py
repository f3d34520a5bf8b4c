"""Verifies received deliveries with the official package from PyPI.

usage: verify.py DELIVERIES.json
"""

import base64
import json
import pathlib
import sys

from standardwebhooks import Webhook, WebhookVerificationError


def accepts(secret, headers, body):
    try:
        Webhook(secret).verify(body, headers)
        return True
    except WebhookVerificationError:
        return False


def flip(text, place):
    """Replaces the letter at this position with another of the same kind."""
    other = "1" if text[place] == "0" else "0" if text[place].isdigit() else "b" if text[place] == "a" else "a"
    return text[:place] + other + text[place + 1 :]


def flip_secret(secret):
    key = bytearray(base64.b64decode(secret.removeprefix("whsec_")))
    key[0] ^= 1
    return "whsec_" + base64.b64encode(key).decode()


def forgeries(secret, headers, body):
    for place in range(0, len(body), max(1, len(body) // 16)):
        yield f"body at {place}", secret, headers, flip(body, place)
    yield "longer body", secret, headers, body + " "
    for name in ("webhook-id", "webhook-timestamp"):
        yield name, secret, {**headers, name: flip(headers[name], len(headers[name]) - 1)}, body
    signatures = " ".join("v1," + flip(one.removeprefix("v1,"), 0) for one in headers["webhook-signature"].split())
    yield "webhook-signature", secret, {**headers, "webhook-signature": signatures}, body
    yield "secret", flip_secret(secret), headers, body


def main(deliveries):
    accepted = refused = 0
    for delivery in json.loads(pathlib.Path(deliveries).read_text()):
        headers, body = delivery["headers"], delivery["body"]
        for secret in delivery["accepted"]:
            assert accepts(secret, headers, body), f"{delivery['when']}: refused"
            accepted += 1
            for what, *forged in forgeries(secret, headers, body):
                assert not accepts(*forged), f"{delivery['when']}: accepted with another {what}"
                refused += 1
        for secret in delivery["refused"]:
            assert not accepts(secret, headers, body), f"{delivery['when']}: accepted with an old secret"
            refused += 1
    assert accepted and refused
    print(f"{accepted} accepted, {refused} refused, as they should be")


main(*sys.argv[1:])
