"""Receives deliveries of a running server before, during and after rotations of the secret, and stores them for the verifiers.

usage: deliveries.py SERVER.json DELIVERIES.json
"""

import http.server
import json
import pathlib
import queue
import sys
import threading
import urllib.request

PATH = "/api/admin/webhooks"
# A body with characters of all lengths in UTF-8, and with characters that JSON escapes.
NAME = 'Größe € 𝄞 "quoted" \\ / <b> \u2028 é'


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    received = queue.Queue()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()
        self.received.put(({name.lower(): value for name, value in self.headers.items()}, body.decode()))

    def log_message(self, *_):
        pass


class Server:
    def __init__(self, told):
        self.url = told["url"]
        self.headers = {"Authorization": f"Bearer {told['api_key']}", "Content-Type": "application/json"}

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers, method=method)
        text = urllib.request.urlopen(request, timeout=30).read()
        return json.loads(text) if text else None


def main(server, target):
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    server = Server(json.loads(pathlib.Path(server).read_text()))
    url = f"http://127.0.0.1:{listener.server_port}/hook"
    endpoint = server.call("POST", PATH, {"name": "Peers", "url": url, "events": ["api_key.created"]})
    path = f"{PATH}/{endpoint['id']}"
    found = []

    def keep(when, accepted, refused=()):
        headers, body = Receiver.received.get(timeout=30)
        found.append({"when": when, "headers": headers, "body": body, "accepted": list(accepted), "refused": list(refused)})
        return len(headers["webhook-signature"].split(" "))

    def deliver(*arguments):
        server.call("POST", "/api/admin/api-keys", {"name": f"{NAME} {len(found)}", "scopes": ["events:read"]})
        return keep(*arguments)

    def test(*arguments):
        server.call("POST", f"{path}/test")
        return keep(*arguments)

    def rotate(grace):
        return server.call("POST", f"{path}/rotate-secret", {"grace_seconds": grace})["secret"]

    first = endpoint["secret"]
    assert deliver("before", [first]) == 1
    second = rotate(3600)
    assert deliver("during", [first, second]) == 2
    assert test("test during", [first, second]) == 2
    third = rotate(1)
    # The grace period of one second is over when there is only one signature again.
    while test("while the grace ends", [third], [first]) == 2:
        pass
    assert deliver("after", [third], [first, second]) == 1
    fourth = rotate(0)
    assert deliver("after a rotation without grace", [fourth], [first, second, third]) == 1
    server.call("DELETE", path)
    pathlib.Path(target).write_text(json.dumps(found))
    print(f"{len(found)} deliveries received")


main(*sys.argv[1:])
