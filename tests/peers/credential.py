"""Prints the credential that schemathesis uses with a demo server, one variable per line.

usage: credential.py tenant|operator SERVER.json DATA_DIRECTORY
"""

import http.cookies
import json
import pathlib
import ssl
import sys
import urllib.request


def main(who, server, directory):
    server = json.loads(pathlib.Path(server).read_text())
    directory = pathlib.Path(directory)
    if who == "tenant":
        # A separate key, because the tests may revoke the key of the demo.
        headers = {"Authorization": f"Bearer {server['api_key']}"}
        answer = post(server["url"] + "/api/admin/api-keys", {"name": "Peers", "scopes": ["*"]}, headers)
        key = json.load(answer)
        print(f"PEERS_API_KEY={key['key']}\nPEERS_KEY_ID={key['id']}")
        print(f"PEERS_EMAIL={server['email']}\nPEERS_PASSWORD={server['password']}")
        for name, value in existing(server["url"], headers, server["email"]).items():
            print(f"PEERS_{name}={value}")
    else:
        password = (directory / "initial-operator-password").read_text().strip()
        login = {"email": "operator@localhost.localdomain", "password": password}
        context = ssl.create_default_context(cafile=directory / "tls/certificate.pem")
        answer = post(server["url"] + "/api/auth/login", login, {}, context)
        cookie = http.cookies.SimpleCookie(answer.headers["Set-Cookie"])
        print(f"PEERS_SESSION={cookie['__Host-tenantd_session'].value}")


def existing(url, headers, email):
    """Creates records for requests, and a token that sets a password."""
    users = get(url + "/api/admin/users?limit=200", headers)["data"]
    tickets = get(url + "/api/psa/tickets?limit=200", headers)["data"]
    devices = {device["id"]: None for ticket in tickets for device in ticket["devices"]}
    provider = get(url + "/api/cloud/providers?name=shared", headers)["data"][0]
    new = {"name": "Peer", "kind": "staff", "role": "technician", "email": "peer@demo.example"}
    peer = json.load(post(url + "/api/admin/users", new, headers))
    return {
        "USER_ID": next(user["id"] for user in users if user.get("email") == email),
        "STAFF_ID": peer["id"],
        "TOKEN": peer["password_token"],
        "CONTACT_ID": next(user["id"] for user in users if user["kind"] == "contact"),
        "ORGANIZATION_ID": tickets[0]["organization"]["id"],
        "TICKET_ID": tickets[0]["id"],
        "OTHER_TICKET_ID": tickets[1]["id"],
        "PROVIDER_ID": provider["id"],
        "DEVICE_IDS": ",".join(devices),
    }


def get(url, headers):
    return json.load(urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30))


def post(url, body, headers, context=None):
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, context=context, timeout=30)


main(*sys.argv[1:])
