"""Clients of the installed service, on the standard library alone.

usage: clients.py steady KEY STOP [--keep]   sends requests until the file STOP exists, creates STOP.begun when all clients have started,
                                             and prints the number of requests and the failures
       clients.py tour DEMO.json             tests the features of a demo server that has only loopback
"""

import base64
import hashlib
import hmac
import http.client
import http.server
import itertools
import json
import pathlib
import queue
import ssl
import sys
import threading
import time
import urllib.request

SERVER = ("127.0.0.1", 443)
ANY_CERTIFICATE = ssl._create_unverified_context()


def connect():
    connection = http.client.HTTPSConnection(*SERVER, context=ANY_CERTIFICATE, timeout=60)
    connection.connect()
    # A closed connection is a failure here, so do not reconnect.
    connection.auto_open = 0
    return connection


class Steady:
    """One client that opens a new connection for each request, and with `keeps` a few clients that keep their connection."""

    def __init__(self, key, stop, keeps):
        self.keeps = keeps
        self.headers = {"Authorization": f"Bearer {key}"}
        self.stop = pathlib.Path(stop)
        self.begun = queue.Queue()
        self.requests = itertools.count()
        self.failures = []
        self.certificates = []

    def ask(self, connection):
        connection.request("GET", "/api/auth/session", headers=self.headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise ConnectionError(f"status {answer.status}")
        next(self.requests)

    def attempt(self, act):
        """Like HTTP clients do, sends a request again if its new connection was closed before the response."""
        try:
            act()
        except (ConnectionError, ssl.SSLEOFError):
            if self.keeps:
                raise
            act()

    def until_stopped(self, act):
        while not self.stop.exists():
            try:
                self.attempt(act)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{act.__name__}: {error!r}")
                break
            self.begun.put(act)
            # Stays within the rate limit of a key.
            time.sleep(0.25)
        self.begun.put(act)

    def keep(self):
        connection = None

        def kept():
            nonlocal connection
            connection = connection or connect()
            self.ask(connection)

        self.until_stopped(kept)

    def renew(self):
        def new():
            connection = connect()
            seen = hashlib.sha256(connection.sock.getpeercert(binary_form=True)).hexdigest()
            if self.certificates[-1:] != [seen]:
                self.certificates.append(seen)
            self.ask(connection)
            connection.close()

        self.until_stopped(new)

    def run(self):
        threads = [threading.Thread(target=self.keep) for _ in range(4 if self.keeps else 0)] + [threading.Thread(target=self.renew)]
        for thread in threads:
            thread.start()
        begun = set()
        while len(begun) < len(threads):
            begun.add(self.begun.get())
        self.stop.with_suffix(".begun").touch()
        for thread in threads:
            thread.join()
        report = {"requests": next(self.requests), "failures": self.failures, "certificates": len(self.certificates)}
        print(json.dumps(report))
        return 1 if self.failures or report["requests"] == 0 else 0


class Receiver(http.server.BaseHTTPRequestHandler):
    received = queue.Queue()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()
        self.received.put((self.headers, body))

    def log_message(self, *_):
        pass


class Tour:
    def __init__(self, demo):
        self.demo = demo

    def call(self, method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | (headers or {"Authorization": f"Bearer {self.demo['api_key']}"})
        request = urllib.request.Request(self.demo["url"] + path, data, headers, method=method)
        answer = urllib.request.urlopen(request, timeout=60)
        text = answer.read()
        return answer, json.loads(text) if text else None

    def sign_in(self):
        credentials = {"email": self.demo["email"], "password": self.demo["password"]}
        answer, _ = self.call("POST", "/api/auth/login", credentials, {"Accept": "application/json"})
        cookie = answer.headers["Set-Cookie"].split(";")[0]
        _, session = self.call("GET", "/api/auth/session", headers={"Cookie": cookie})
        assert session["tenant"]["kind"] == "evaluation", session

    def webhook(self):
        listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        hook = {"name": "Tour", "url": f"http://127.0.0.1:{listener.server_port}/hook", "events": ["ticket.created"]}
        _, endpoint = self.call("POST", "/api/admin/webhooks", hook)
        return endpoint["secret"]

    def ticket(self):
        _, page = self.call("GET", "/api/psa/tickets?limit=1&include_total=true")
        assert page["page"]["total"] > 0, page
        organization = page["data"][0]["organization"]["id"]
        _, ticket = self.call("POST", "/api/psa/tickets", {"subject": "Zeppelin moored on the roof", "organization_id": organization})
        _, changed = self.call("PATCH", f"/api/psa/tickets/{ticket['ref']}", {"tags": ["offline"]})
        assert changed["tags"] == ["offline"], changed
        return ticket

    def delivered(self, secret, ticket):
        """The delivery of this ticket, with the signature of Standard Webhooks."""
        headers, body = Receiver.received.get(timeout=60)
        signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signature = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert signature in headers["webhook-signature"].split(" "), headers
        assert ticket["id"] in body.decode(), body

    def run(self):
        self.sign_in()
        secret = self.webhook()
        ticket = self.ticket()
        self.delivered(secret, ticket)
        _, found = self.call("GET", "/api/search?q=zepelin+moored")
        assert found["data"][0]["id"] == ticket["id"], found
        _, inventory = self.call("GET", "/api/rmm/reports/asset-inventory?group_by=class&summary=true")
        assert sum(group["count"] for group in inventory["groups"]["values"]) > 0, inventory
        _, backups = self.call("GET", "/api/backup/customer-aggregate?limit=1")
        assert backups["data"], backups
        _, vms = self.call("GET", "/api/cloud/vms?limit=1")
        assert vms["data"], vms
        _, figures = self.call("GET", "/api/analytics/tenant?range=30d&metrics=tickets_created")
        assert figures["totals"]["tickets_created"]["value"] > 0, figures
        return 0


def main(command, *arguments):
    if command == "steady":
        key, stop, *flags = arguments
        return Steady(key, stop, flags == ["--keep"]).run()
    return Tour(json.loads(pathlib.Path(arguments[0]).read_text())).run()


sys.exit(main(*sys.argv[1:]))
