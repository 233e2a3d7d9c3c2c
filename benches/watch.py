#!/usr/bin/env python3
"""What watching many pairs costs: `drift audit` of 200 equal small pairs, and `drift serve` with 1,000 of them.

As root on Debian, with what tests/run.sh installs:

    benches/watch.py [--pairs 200] [--watched 1000] [--every 15m] [--rounds 2] [--folder DIR]

It builds drift, starts a PostgreSQL and a MariaDB, makes the tables (100 rows each), audits them, and serves them for some
rounds of the schedule. The pairs are PostgreSQL to MariaDB; each is checked for schema and rows. The limit is what asking both
servers takes: one connection for each side, one query for each table and side, by the engines' own clients.

Printed: seconds of the audit beside the limit; for the service, how long after its time a check began at most (by its own
histogram, the first round left out, in which all checks begin at once), CPU seconds of drift and of the servers, and memory.
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from tables import ROOT, TICKS, Servers, run, say

ROWS = 100
PORT = 28480


def build():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    target = os.environ.get("CARGO_TARGET_DIR") or str(cache / "drift-target" / "bench-release")
    environment = dict(os.environ, CARGO_TARGET_DIR=target)
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "drift", "--bin", "drift"], cwd=ROOT, env=environment, check=True)
    return pathlib.Path(target) / "release/drift"


def tables(servers, count):
    say(f"making {count} tables on each side")
    ours, theirs = [], []
    for number in range(count):
        name = f"watched_{number:04}"
        ours.append(f"drop table if exists {name}; create table {name} (id int primary key, amount numeric(12,2), note text, at timestamp); "
                    f"insert into {name} select i, i * 1.5, 'note ' || i, timestamp '2026-01-01' + i * interval '1 minute' from generate_series(1, {ROWS}) i;")
        theirs.append(f"drop table if exists {name}; create table {name} (id int primary key, amount decimal(12,2), note text, at datetime(6)); "
                      f"insert into {name} select seq, seq * 1.5, concat('note ', seq), timestamp '2026-01-01 00:00:00' + interval seq minute from seq_1_to_{ROWS};")
    servers.psql("\n".join(["set client_min_messages = error;", *ours, "analyze;"]))
    servers.mysql("\n".join(theirs))


def configuration(folder, servers, count, every):
    pairs = "".join(
        f"  - name: p{number:04}\n    source: {{ connection: a, table: public.watched_{number:04} }}\n"
        f"    target: {{ connection: b, table: watched_{number:04} }}\n"
        f"    schedule: {{ schema: every {every}, rows: every {every} }}\n"
        for number in range(count))
    text = (f"version: 1\nstate: {{ url: \"sqlite:{folder}/state.db\" }}\nconnections:\n"
            f"  a: {{ url: \"postgres://postgres@127.0.0.1:{servers.postgres_port}/postgres\", budget: {{ checks: 4 }} }}\n"
            f"  b: {{ url: \"mysql://bench@127.0.0.1:{servers.mysql_port}/bench\", budget: {{ checks: 4 }} }}\n"
            f"server: {{ listen: \"127.0.0.1:{PORT}\", workers: 4 }}\npairs:\n{pairs}")
    path = folder / f"drift-{count}.yaml"
    path.write_text(text)
    return path


def limit(servers, count):
    """Seconds that the engines' own clients take to read the same tables."""
    names = [f"watched_{number:04}" for number in range(count)]
    begun = time.time()
    servers.psql("\n".join(f"copy (select * from {name} order by id) to stdout;" for name in names))
    servers.mysql("\n".join(f"select * from {name} order by id;" for name in names))
    return time.time() - begun


def metric(name):
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)}


def seconds(text):
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def process(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    memory = next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return sum(map(int, fields[11:13])) / TICKS, int(memory.split()[1]) // 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--watched", type=int, default=1000)
    parser.add_argument("--every", default="15m")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path)
    args = parser.parse_args()
    drift = build()
    folder = args.folder or pathlib.Path(tempfile.mkdtemp(prefix="drift-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    with Servers(folder) as servers:
        tables(servers, max(args.pairs, args.watched))
        config = configuration(folder, servers, args.pairs, args.every)
        for name in folder.glob("state.db*"):
            name.unlink()
        print(f"{args.pairs} pairs, schema and rows, {ROWS} rows each")
        for attempt in range(3):
            least = limit(servers, args.pairs)
            begun, before = time.time(), servers.cpu()
            said = run([drift, "audit", "-q", "-c", config])
            took = time.time() - begun
            print(f"  audit {took:.2f} s, limit {least:.2f} s, ratio {took / least:.1f}; servers {servers.cpu() - before:.2f} CPU s; {said.strip()}")
        for name in folder.glob("state.db*"):
            name.unlink()
        if not args.watched:
            return
        config = configuration(folder, servers, args.watched, args.every)
        every = seconds(args.every)
        say(f"serving {args.watched} pairs for {args.rounds} rounds of {args.every}")
        service = subprocess.Popen([drift, "serve", "-q", "-c", config])
        try:
            time.sleep(every)
            first, cpu, servers_cpu = metric("drift_schedule_lag_seconds"), process(service.pid)[0], servers.cpu()
            time.sleep(every * (args.rounds - 1))
            last, (own, memory) = metric("drift_schedule_lag_seconds"), process(service.pid)
            servers_cpu, own = servers.cpu() - servers_cpu, own - cpu
            runs = metric("drift_check_runs_total")
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait()
        of = {name: last[name] - first.get(name, 0) for name in last}
        count = of["drift_schedule_lag_seconds_count"]
        bounds = [(name.split('le="')[1].rstrip('"}'), value) for name, value in of.items() if "_bucket" in name]
        most = next(bound for bound, value in bounds if value >= count)
        bad = {name: value for name, value in runs.items() if value and 'status="pass"' not in name}
        if bad:
            sys.exit(f"not all runs passed: {bad}")
        print(f"{args.watched} pairs every {args.every}, {args.rounds - 1} rounds after the first: {count:.0f} checks began at most {most} s after "
              f"their time, {of['drift_schedule_lag_seconds_sum'] / count * 1000:.0f} ms on average; drift {own:.1f} CPU s, servers "
              f"{servers_cpu:.1f} CPU s, of {2 * every * (args.rounds - 1):.0f} on 2 cores; {memory} MB")


if __name__ == "__main__":
    main()
