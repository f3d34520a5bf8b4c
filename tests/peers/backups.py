"""Stores backups of tenantd in moto, an independent S3 server, and restores them.

Takes the path of the program. moto checks every signature. The backups have more than one part.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request

import boto3

from clouds import start_moto, user

BUCKET = "backups"
ALL_OF_S3 = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": "*"}]}
PART_BYTES = 8 << 20
TICKETS = "100"


class Installation:
    def __init__(self, program, folder):
        self.program, self.data, self.folder = program, f"{folder}/data", folder
        self.settings, self.credentials = f"{folder}/tenantd.toml", f"{folder}/credentials"

    def run(self, *arguments, data=None):
        command = [self.program, *arguments, "--config", self.settings, "--data-dir", data or self.data, "--json"]
        return subprocess.run(command, capture_output=True, text=True, timeout=600)

    def answer(self, *arguments, data=None):
        done = self.run(*arguments, data=data)
        assert done.returncode == 0, (arguments, done.stderr)
        return json.loads(done.stdout)

    def fill(self):
        """Creates the installation with sample data."""
        command = [self.program, "demo", "--tickets", TICKETS, "--listen", "127.0.0.1:0", "--data-dir", self.data, "--json"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=120) == 0

    def serve(self):
        """Starts the server and waits until it is ready."""
        path = f"{self.folder}/notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(120)
            command = [self.program, "serve", "--config", self.settings, "--data-dir", self.data]
            server = subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": path}, stdout=subprocess.DEVNULL)
            while b"READY=1" not in manager.recv(4096):
                pass
            return server

    def let_in(self, credential):
        with open(self.credentials, "w") as file:
            for name, value in credential.items():
                file.write(f"aws_{name} = {value}\n")


def main():
    moto, endpoint = start_moto()
    try:
        with tempfile.TemporaryDirectory() as folder:
            judge(Installation(sys.argv[1], folder), endpoint)
    finally:
        moto.send_signal(signal.SIGTERM)
        moto.wait()


def judge(installation, endpoint):
    anybody = {"endpoint_url": endpoint, "region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    iam = boto3.client("iam", **anybody)
    boto3.client("s3", **anybody).create_bucket(Bucket=BUCKET)
    allowed = user(iam, "backups", ALL_OF_S3)
    s3 = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=allowed["access_key_id"],
        aws_secret_access_key=allowed["secret_access_key"],
    )
    # From now on moto checks signatures and permissions.
    guard = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", data=b"0", method="POST", headers={"content-type": "text/plain"})
    urllib.request.urlopen(guard, timeout=10).read()

    installation.fill()
    identity = f"{installation.folder}/backup.key"
    with open(installation.settings, "w") as file:
        file.write("[listen]\ntls = false\naddress = \"127.0.0.1:0\"\n")
    recipient = installation.answer("backup-key", identity)["recipient"]
    with open(installation.settings, "a") as file:
        file.write(
            f'[offsite]\nurl = "s3://{BUCKET}/some/prefix"\nendpoint = "{endpoint}"\ncredentials_file = "{installation.credentials}"\n'
            f'recipients = ["{recipient}"]\nevery_hours = 0\nkeep_last = 1\nkeep_daily = 1\nkeep_weekly = 0\nkeep_monthly = 0\njournal_days = 0\n'
        )

    def keys():
        """The objects of backups, without the journal segments between them."""
        found = (entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET).get("Contents", []))
        return sorted(key for key in found if "/journal/" not in key)

    server = installation.serve()
    try:
        installation.let_in({**allowed, "secret_access_key": "wrong"})
        refused = installation.run("backup", "--offsite")
        assert refused.returncode == 1 and allowed["access_key_id"] not in refused.stderr, refused.stderr
        assert keys() == []
        print("refused: a wrong secret")

        installation.let_in(allowed)
        first = installation.answer("backup", "--offsite")
        assert first["stored_bytes"] > PART_BYTES, f"{first['stored_bytes']} bytes are one part only"
        prefix = first["place"].removeprefix(f"s3://{BUCKET}/")
        assert keys() == [f"{prefix}/manifest.json", f"{prefix}/snapshot.age"], keys()
        stored = s3.get_object(Bucket=BUCKET, Key=f"{prefix}/snapshot.age")["Body"].read()
        assert len(stored) == first["stored_bytes"] and stored.startswith(b"age-encryption.org/v1\n-> X25519 ")
        print(f"written: {len(stored)} bytes in parts")

        second = installation.answer("backup", "--offsite")
        assert second["removed"] == 1 and len(keys()) == 2, keys()
        listed = installation.answer("backup", "list")["data"]
        assert [entry["id"] for entry in listed] == [second["id"]], listed
        assert not s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads"), "nothing is left half sent"
        print("listed and removed")

        drill = installation.answer("drill", "--from", f"offsite:{second['id']}", "--identity", identity)
        assert drill["records"] == second["records"] and drill["recorded"], drill
        newest = installation.answer("drill", "--from", "offsite", "--identity", identity)
        assert newest["records"] >= second["records"] and newest["recorded"], newest
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=120) == 0
    restored = f"{installation.folder}/restored"
    key = f"{installation.data}/installation.key"
    installation.answer("restore", "--from", f"offsite:{second['id']}", "--identity", identity, "--installation-key", key, data=restored)
    assert installation.answer("check", data=restored)["clean"]
    print("tried and restored")

    # A change of a stored backup is detected.
    place = f"{second['place'].removeprefix(f's3://{BUCKET}/')}/snapshot.age"
    stored = bytearray(s3.get_object(Bucket=BUCKET, Key=place)["Body"].read())
    stored[len(stored) // 2] ^= 1
    s3.put_object(Bucket=BUCKET, Key=place, Body=bytes(stored))
    damaged = installation.run("drill", "--from", "offsite", "--identity", identity)
    assert damaged.returncode == 1 and "damaged" in damaged.stderr, damaged.stderr
    print("refused: a changed object")


if __name__ == "__main__":
    main()
