"""Gets the credential that schemathesis uses from a demonstration server, one variable a line.

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
        # A key of its own: the demonstration's may be revoked on the way.
        headers = {"Authorization": f"Bearer {server['api_key']}"}
        answer = post(server["url"] + "/api/admin/api-keys", {"name": "Peers", "scopes": ["*"]}, headers)
        key = json.load(answer)
        print(f"PEERS_API_KEY={key['key']}\nPEERS_KEY_ID={key['id']}")
        print(f"PEERS_EMAIL={server['email']}\nPEERS_PASSWORD={server['password']}")
    else:
        password = (directory / "initial-operator-password").read_text().strip()
        login = {"email": "operator@localhost.localdomain", "password": password}
        context = ssl.create_default_context(cafile=directory / "tls/certificate.pem")
        answer = post(server["url"] + "/api/auth/login", login, {}, context)
        cookie = http.cookies.SimpleCookie(answer.headers["Set-Cookie"])
        print(f"PEERS_SESSION={cookie['__Host-tenantd_session'].value}")


def post(url, body, headers, context=None):
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, context=context, timeout=30)


main(*sys.argv[1:])
