"""Lets scim2-tester, an independent SCIM client, check the provisioning of a running server.

usage: provisioning.py SERVER.json
"""

import collections
import json
import pathlib
import sys
import urllib.request

from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server

# The tester skips what a server says that it does not support: a search over all types of resources at once.
FAILED = {Status.ERROR, Status.CRITICAL}
# Fewer checks mean that the tester did not find the resources.
LEAST = 40


def provisioning_key(server):
    """Creates the credential that an identity provider sends."""
    body = json.dumps({"name": "SCIM peer", "scopes": ["provisioning:write"]}).encode()
    headers = {"Authorization": f"Bearer {server['api_key']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{server['url']}/api/admin/api-keys", body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["key"]


def main(path):
    server = json.loads(pathlib.Path(path).read_text())
    headers = {"Authorization": f"Bearer {provisioning_key(server)}"}
    with Client(base_url=f"{server['url']}/scim/v2", headers=headers, timeout=60) as client:
        results = check_server(SyncSCIMClient(client))
    counts = collections.Counter(result.status.name for result in results)
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))
    for result in results:
        if result.status not in (Status.SUCCESS, Status.COMPLIANT):
            print(f"{result.status.name}: {result.resource_type or ''} {result.title}: {result.reason}")
    failed = [result for result in results if result.status in FAILED]
    assert not failed, f"{len(failed)} of {len(results)} checks failed"
    assert len(results) >= LEAST, f"only {len(results)} checks ran"


if __name__ == "__main__":
    main(*sys.argv[1:])
