"""Measures tenantd and its peers in turns and writes the table. Each figure is the median over the rounds, and so is each ratio: tenantd's
figure by the peer's of the same round. A wrong answer under load ends that peer's row, not the run.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import servers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
REPORT = os.path.join(ROOT, "benches", "REPORT.md")
BEGIN, END = "<!-- comparison: begin -->", "<!-- comparison: end -->"
SYNCED = 50


class Driver:
    """The load generator. It ends at the first wrong answer, and then another one takes its place."""

    def __init__(self, receiver):
        self.receiver, self.process = receiver, None

    def order(self, server, request, status, clients, work):
        if self.process is None or self.process.poll() is not None:
            arguments = [os.environ["TENANTD_BENCH"], "--drive", self.receiver]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            environment = {**os.environ, "RUST_BACKTRACE": "0"}
            self.process = subprocess.Popen(arguments, env=environment, text=True, bufsize=1, **pipes)
        order = {"address": f"127.0.0.1:{server.port}", "process_id": server.pid, "request": request, "status": status}
        self.process.stdin.write(json.dumps({**order, "clients": clients, "work": work}) + "\n")
        line = self.process.stdout.readline()
        if not line:
            # The first line tells where in the load generator, the second what.
            told = self.process.stderr.read().strip().splitlines()[1:] or ["it ended"]
            self.process.wait()
            raise servers.Unavailable("under load: " + told[0][:100])
        return json.loads(line)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Row:
    """One line of the table: what is asked, and which figure of the answers counts."""

    def __init__(self, title, unit, figure, measure, more_is_better=True):
        self.title, self.unit, self.figure, self.measure, self.more_is_better = title, unit, figure, measure, more_is_better
        self.rounds, self.failures = {}, {}


def rows(plan):
    rate = {"rate": {"warm_up_ms": plan["warm_up_ms"], "measure_ms": plan["measure_ms"]}}

    def of(kind, clients):
        def measure(driver, server):
            status = server.created_status if kind == "create" else 200
            return driver.order(server, getattr(server, kind), status, clients, rate)

        return measure

    def delivered(driver, server):
        work = {"deliveries": {"warm_up_ms": plan["warm_up_ms"], "measure_ms": plan["measure_ms"]}}
        return driver.order(server, server.create, server.created_status, 32, work)

    def calm(driver, server):
        work = {"calm_deliveries": {"per_second": 50, "measure_ms": plan["measure_ms"]}}
        return driver.order(server, server.create, server.created_status, 1, work)

    plain = [Row(f"create, {clients} client{'s' * (clients > 1)}", "/s", "per_second", of("create", clients)) for clients in (1, 32, 128)]
    plain.append(Row("get by id, 32 clients", "/s", "per_second", of("get", 32)))
    plain.append(Row("list of 50, 32 clients", "/s", "per_second", of("list", 32)))
    hooks = [
        Row("create to delivery, 32 clients", "/s", "per_second", delivered),
        Row("create to delivery at 50/s, p50", "ms", "p50_ms", calm, more_is_better=False),
        Row("create to delivery at 50/s, p99", "ms", "p99_ms", calm, more_is_better=False),
    ]
    return plain, hooks


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def in_turns(driver, running, row, rounds):
    say(row.title)
    for number in range(rounds):
        # Who is first has the machine as the round before left it; so that changes.
        for server in running[number % len(running) :] + running[: number % len(running)]:
            if server.name in row.failures:
                continue
            try:
                row.rounds.setdefault(server.name, []).append(row.measure(driver, server)[row.figure])
            except servers.Unavailable as failure:
                row.failures[server.name] = str(failure)
                say(f"{row.title}, {server.name}: {failure}")


def descendants(process_ids):
    found, queue = set(), list(process_ids)
    while queue:
        process = queue.pop()
        found.add(process)
        try:
            for task in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{task}/children") as children:
                    queue += [int(child) for child in children.read().split()]
        except FileNotFoundError:
            continue
    return found


def syncs(driver, server):
    """How often the disk was told to sync while one client created so many records, one after the other."""
    if shutil.which("strace") is None:
        return "not looked at, strace is missing"
    with tempfile.NamedTemporaryFile("r") as seen:
        # A server may open its connections to its database only when it is asked.
        driver.order(server, server.create, server.created_status, 1, {"times": 5})
        attach = [part for process in descendants(p.pid for p in server.processes) for part in ("-p", str(process))]
        watched = ["-e", "trace=fsync,fdatasync,sync_file_range", "-o", seen.name]
        tracer = subprocess.Popen(["strace", "-f", "-qq", *watched, *attach], stderr=subprocess.PIPE, start_new_session=True)
        time.sleep(1)
        if tracer.poll() is not None:
            return "not looked at, strace may not attach"
        driver.order(server, server.create, server.created_status, 1, {"times": SYNCED})
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=30)
        # A call that another thread interrupts has two lines, the second with "resumed".
        return sum("sync" in line and "resumed" not in line for line in seen)


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def table(all_rows, names):
    peers = [name for name in names if name != "tenantd"]
    lines = ["| | tenantd | " + " | ".join(peers) + " |", "|---|---:|" + "---:|" * len(peers)]
    for row in all_rows:
        ours = row.rounds.get("tenantd", [])
        cells = [f"{number(statistics.median(ours))} {row.unit}" if ours else f"failed: {row.failures.get('tenantd', '')}"]
        for peer in peers:
            theirs = row.rounds.get(peer, [])
            if row.failures.get(peer) or not theirs or not ours:
                cells.append(row.failures.get(peer, "—"))
                continue
            pairs = [(a / b if row.more_is_better else b / a) for a, b in zip(ours, theirs)]
            spread = f"{min(pairs):.1f} .. {max(pairs):.1f}"
            cells.append(f"{number(statistics.median(theirs))} {row.unit}, **{statistics.median(pairs):.1f} ×** ({spread})")
        lines.append(f"| {row.title} | " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def told(*command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30).stdout.strip()
    except OSError:
        return ""


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    load = os.getloadavg()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} × {model}, {memory:.0f} GiB, {platform.system()} {platform.release()}, load before the run {load[0]:.1f}"


def report(before, missing, all_rows, names, synced):
    changed = "" if not told("git", "status", "--porcelain", "--", "src", "Cargo.lock") else ", with changes that are not committed"
    lines = [
        f"- Date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        f"- Commit: {told('git', 'rev-parse', '--short', 'HEAD')}{changed}; `{told(os.environ['TENANTD_BINARY'], '--version')}`",
        f"- Command: `{' '.join(['benches/compare/run', *sys.argv[2:]])}`",
        f"- Machine: {before}",
        "",
        "× is how far tenantd is ahead: the median over the rounds of its figure by the peer's of the same round, and the spread.",
        "",
        *table(all_rows, names),
        "",
        f"| | on the disk before the answer | syncs during {SYNCED} creates | webhooks |",
        "|---|---|---:|---|",
    ]
    for kind in [servers.Tenantd, *servers.PEERS]:
        if kind.name in names:
            lines.append(f"| {kind.name} | {kind.durability} | {synced.get(kind.name, '—')} | {kind.webhooks or 'none'} |")
    lines += ["", *(f"- {name}: not measured: {reason}" for name, reason in missing.items())]
    return "\n".join(lines).rstrip() + "\n"


def write_report(text):
    with open(REPORT) as file:
        before, rest = file.read().split(BEGIN)
    after = rest.split(END)[1]
    with open(REPORT, "w") as file:
        file.write(f"{before}{BEGIN}\n{text}{END}{after}")


def measure(driver, running, missing, plan):
    started, synced = [], {}
    for server in list(running):
        say(f"start and fill {server.name}")
        try:
            server.start()
            driver.order(server, server.create, server.created_status, server.fill_clients, {"times": plan["records"]})
            synced[server.name] = syncs(driver, server)
            started.append(server)
        except (servers.Unavailable, subprocess.TimeoutExpired, OSError) as failure:
            if server.name == "tenantd":
                raise
            missing[server.name] = " ".join(str(failure).split())[:300]
            say(f"{server.name} is left out: {failure}")
    plain, hooks = rows(plan)
    for row in plain:
        in_turns(driver, started, row, plan["rounds"])
    for server in started:
        if server.webhooks:
            server.subscribe()
        else:
            for row in hooks:
                row.failures[server.name] = "no webhooks"
    for row in hooks:
        in_turns(driver, [server for server in started if server.webhooks], row, plan["rounds"])
    return plain + hooks, [server.name for server in started], synced


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("installed")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_intermixed_args()
    quick = {"rounds": 2, "warm_up_ms": 200, "measure_ms": 1500, "records": 200}
    plan = quick if arguments.quick else {"rounds": 5, "warm_up_ms": 500, "measure_ms": 3000, "records": 2000}
    before = machine()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    receiver = f"127.0.0.1:{servers.free_port()}"
    driver = Driver(receiver)
    kinds = [kind for kind in servers.PEERS if not arguments.names or kind.name in arguments.names]
    missing = {kind.name: "not asked for" for kind in servers.PEERS if kind not in kinds}
    installed = os.path.abspath(arguments.installed)
    with tempfile.TemporaryDirectory(prefix="run-", dir=installed, ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o755)
        running = [kind(installed, directory, receiver) for kind in [servers.Tenantd, *kinds]]
        try:
            measured = measure(driver, running, missing, plan)
            text = report(before, missing, *measured)
        finally:
            driver.stop()
            for server in running:
                server.stop()
    print(text)
    if arguments.report:
        write_report(text)


if __name__ == "__main__":
    main()
