"""Tests the AWS support of tenantd with moto, an independent server for EC2, IAM and STS.

All requests use tenantd's API over HTTP: a valid credential, an invalid one, one without permissions; a fleet of several pages; an
order with its client token; state changes. boto3 prepares the data and checks the results. Takes the file that the server wrote
when it was ready.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import boto3

FLEET = 120
ALL_OF_EC2 = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["ec2:*", "sts:*"], "Resource": "*"}],
}
NOTHING_OF_EC2 = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["sts:*"], "Resource": "*"}],
}


def start_moto():
    """Starts moto on a free port and waits until it reports the port."""
    command = [os.path.join(os.path.dirname(sys.executable), "moto_server"), "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:[0-9]+", line):
            # The pipe must be read, or moto blocks.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, found.group()
    raise SystemExit("moto did not start")


class Tenantd:
    def __init__(self, path):
        with open(path) as file:
            ready = json.load(file)
        self.url, self.key = ready["url"], ready["api_key"]

    def send(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json", **headers}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def refresh(self, provider):
        status, asked = self.send("GET", f"/api/cloud/vms?refresh=true&provider_id={provider}")
        assert status == 202, asked
        return self.ended(asked["operation"]["id"])

    def ended(self, operation):
        for _ in range(10):
            status, found = self.send("GET", f"/api/operations/{operation}?wait_seconds=30")
            assert status == 200, found
            if "ended_at" in found:
                return found
        raise AssertionError(f"the operation does not end: {found}")

    def vms(self, provider, query=""):
        status, page = self.send("GET", f"/api/cloud/vms?provider_id={provider}&include_total=true&limit=200{query}")
        assert status == 200, page
        return page


def user(iam, name, policy):
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"access_key_id": key["AccessKeyId"], "secret_access_key": key["SecretAccessKey"]}


def main():
    tenantd = Tenantd(sys.argv[1])
    moto, endpoint = start_moto()
    try:
        judge(tenantd, endpoint)
    finally:
        moto.send_signal(signal.SIGTERM)
        moto.wait()


def judge(tenantd, endpoint):
    anybody = {"endpoint_url": endpoint, "region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    iam, ec2 = boto3.client("iam", **anybody), boto3.client("ec2", **anybody)
    image = ec2.describe_images()["Images"][0]["ImageId"]
    ec2.run_instances(ImageId=image, InstanceType="t3.small", MinCount=FLEET, MaxCount=FLEET)
    allowed, limited = user(iam, "tenantd", ALL_OF_EC2), user(iam, "limited", NOTHING_OF_EC2)
    # From now on moto checks signatures and permissions.
    guard = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", data=b"0", method="POST", headers={"content-type": "text/plain"})
    urllib.request.urlopen(guard, timeout=10).read()
    ec2 = boto3.client(
        "ec2", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=allowed["access_key_id"], aws_secret_access_key=allowed["secret_access_key"]
    )
    config = {"endpoint": endpoint, "regions": ["us-east-1"]}

    def tried(credential):
        status, found = tenantd.send("POST", "/api/cloud/providers", {"action": "verify", "kind": "aws", "config": config, "credential": credential})
        assert status == 200, found
        return found

    valid = tried(allowed)
    assert valid["outcome"] == "valid" and valid["identity"].endswith("user/tenantd"), valid
    assert tried({**allowed, "secret_access_key": "wrong"})["outcome"] == "invalid_credentials"
    assert tried({**allowed, "access_key_id": "AKIANOBODY"})["outcome"] == "invalid_credentials"
    assert tried(limited)["outcome"] == "insufficient_permissions"
    print("verified: valid, wrong secret, wrong key, no right")

    body = {"name": "moto", "kind": "aws", "config": config, "credential": allowed}
    status, provider = tenantd.send("POST", "/api/cloud/providers?verify=require", body)
    assert status == 201, provider
    provider = provider["id"]
    assert tenantd.refresh(provider)["status"] == "succeeded"
    page = tenantd.vms(provider)
    assert page["page"]["total"] == FLEET, page["page"]
    assert page["data"][0]["size"]["vcpus"] == 2, page["data"][0]
    print(f"listed: {FLEET} VMs over several pages")

    order = {"provider_id": provider, "name": "ordered", "region": "us-east-1", "size": "t3.small", "image": image, "count": 2, "tags": {"role": "web"}}
    status, dry = tenantd.send("POST", "/api/cloud/vms?dry_run=true", order)
    assert status == 200 and dry["would_succeed"], dry
    orders = [tenantd.send("POST", "/api/cloud/vms", order, **{"idempotency-key": "one"}) for _ in range(2)]
    assert [status for status, _ in orders] == [202, 202] and orders[0][1]["operation"]["id"] == orders[1][1]["operation"]["id"]
    operation = tenantd.ended(orders[0][1]["operation"]["id"])
    assert operation["status"] == "succeeded", operation
    found = ec2.describe_instances(Filters=[{"Name": "tag:role", "Values": ["web"]}])
    created = [instance for reservation in found["Reservations"] for instance in reservation["Instances"]]
    assert sorted(instance["ClientToken"] for instance in created) == [f"{operation['id']}-{place}" for place in range(2)], created
    print("provisioned: two VMs, each with its client token")

    ec2.stop_instances(InstanceIds=[created[0]["InstanceId"]])
    ec2.terminate_instances(InstanceIds=[created[1]["InstanceId"]])
    assert tenantd.refresh(provider)["status"] == "succeeded"
    states = {vm["provider_vm_id"]: vm["state"] for vm in tenantd.vms(provider, f"&operation_id={operation['id']}")["data"]}
    assert states == {created[0]["InstanceId"]: "stopped", created[1]["InstanceId"]: "terminated"}, states
    removed, feed = [], {"next_after": 0, "more": True}
    while feed["more"]:
        status, feed = tenantd.send("GET", f"/api/events?types=vm.removed&limit=200&after={feed['next_after']}")
        assert status == 200, feed
        removed += [event["data"]["vm"]["provider_vm_id"] for event in feed["data"]]
    assert created[1]["InstanceId"] in removed, removed
    print("state changes: stopped and terminated are reported")


if __name__ == "__main__":
    main()
