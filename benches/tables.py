#!/usr/bin/env python3
"""What comparing two tables costs: drift, the least that reading them costs, and DuckDB's full outer join, in one run.

As root on Debian, with what tests/run.sh installs and python3-venv:

    benches/tables.py [--rows 1000000,5000000] [--pairs pg-pg,pg-my,my-my,pg-parquet,parquet-parquet]
                      [--variants equal,range,5%] [--runs 3] [--folder DIR]

It builds drift, installs DuckDB and DataFusion from PyPI into a folder of its own, starts a PostgreSQL and a MariaDB,
makes the tables (the same bytes on every machine), and prints the tables of docs/benchmarks.md.

The table `orders`: 10 columns (bigint key with gaps, bigint, uuid, text, numeric(12,2), double, text of several scripts
and NULLs, boolean, two timestamptz(6)), about 145 bytes a row on PostgreSQL's wire. Its variants:

    equal   the same rows
    range   5,000 rows of one range missing, 50 rows changed, 20 rows added
    5%      one row in twenty changed, each in one column: a cent, a status, NULL or a text, a microsecond, a
            thousandth of a double, a boolean, a reference, a trailing blank

Measured, for each cell and run, one after the other: wall seconds; CPU seconds (user and system) of the client and of the
servers; the client's peak of resident memory. Every run's answer is checked, row by row, against the rows that were
planted; a wrong one ends the bench. drift and DuckDB both write the kind and the key of every difference. What it takes to
start the interpreter is counted for DuckDB, whose tool it is, and not for the limit.
"""
import argparse
import contextlib
import csv
import datetime
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
PACKAGES = ["duckdb==1.5.5", "datafusion==55.0.0", "pyarrow"]
PACKAGES += [f"duckdb-extension-{name}==1.5.5" for name in ("postgres-scanner", "mysql-scanner", "icu")]
VARIANTS = ("equal", "range", "5%")
PAIRS = ("pg-pg", "pg-my", "my-my", "pg-parquet", "parquet-parquet")
COLUMNS = "id, customer_id, uuid, status, amount, rate, note, active, created_at, updated_at"


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run(command, **options):
    done = subprocess.run(list(map(str, command)), text=True, capture_output=True, **options)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


# ---------------------------------------------------------------------------------------------------------- the servers
class Servers:
    """A PostgreSQL and a MariaDB on loopback, over data that stays in the folder for the next run."""

    def __init__(self, folder):
        self.folder = folder
        self.binaries = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.postgres_port, self.mysql_port = 28432, 28306
        self.processes = []

    def serve(self, user, *command):
        log = open(self.folder / f"{user}.log", "a")
        drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--pdeathsig=INT"]
        self.processes.append(subprocess.Popen([*drop, *map(str, command)], stdout=log, stderr=log, cwd="/"))

    def __enter__(self):
        data = self.folder / "postgres"
        if not data.exists():
            data.mkdir()
            shutil.chown(data, "postgres", "postgres")
            run(["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", self.binaries / "initdb", "-D", data,
                 "-E", "UTF8", "--locale=C.UTF-8", "-A", "trust", "--no-sync"], cwd="/")
        settings = dict(port=self.postgres_port, listen_addresses="127.0.0.1", unix_socket_directories="/tmp",
                        shared_buffers="1536MB", maintenance_work_mem="512MB", max_wal_size="4GB", wal_level="minimal",
                        max_wal_senders=0, fsync="off", full_page_writes="off", autovacuum="off", timezone="UTC")
        self.serve("postgres", self.binaries / "postgres", "-D", data, *(f"--{k}={v}" for k, v in settings.items()))
        data = self.folder / "mysql"
        if not data.exists():
            data.mkdir()
            shutil.chown(data, "mysql", "mysql")
            run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=mysql", "--skip-test-db",
                 "--auth-root-authentication-method=normal", "--skip-name-resolve"], cwd="/")
        users = self.folder / "users.sql"
        users.write_text("create user if not exists 'bench'@'127.0.0.1';\ngrant all on *.* to 'bench'@'127.0.0.1';\n"
                         "create database if not exists bench;\n")
        self.serve("mysql", shutil.which("mariadbd") or "/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}",
                   f"--port={self.mysql_port}", f"--socket={data}/s.sock", "--bind-address=127.0.0.1", "--skip-name-resolve",
                   f"--init-file={users}", "--character-set-server=utf8mb4", "--default-time-zone=+00:00", "--local-infile=1",
                   "--innodb-buffer-pool-size=2G", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
                   "--innodb-log-file-size=1G")
        for check in (["psql", "-XqAt", self.conninfo, "-c", "select 1"], [*self.mysql_client, "-e", "use bench"]):
            deadline = time.time() + 90
            while subprocess.run(list(map(str, check)), capture_output=True).returncode:
                if time.time() > deadline or any(p.poll() is not None for p in self.processes):
                    sys.exit(f"a server did not start: see {self.folder}/*.log")
                time.sleep(0.2)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.send_signal(signal.SIGINT if process is self.processes[0] else signal.SIGTERM)
        for process in self.processes:
            process.wait()

    @property
    def conninfo(self):
        return f"host=127.0.0.1 port={self.postgres_port} user=postgres dbname=postgres"

    @property
    def mysql_client(self):
        return ["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{self.mysql_port}", "-ubench", "--local-infile=1", "bench"]

    def psql(self, sql):
        return run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", self.conninfo], input=sql)

    def mysql(self, sql):
        return run(self.mysql_client, input=sql)

    def cpu(self):
        """CPU seconds of both servers so far, ended backends included."""
        own = {str(process.pid) for process in self.processes}
        total = 0
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit():
                    fields = pathlib.Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                    if entry in own or fields[1] in own:
                        total += sum(map(int, fields[11:15]))
        return total / TICKS

    def rows_read(self, engine):
        """Rows that the engine has fetched from tables so far, by its own counters."""
        if engine == "pg":
            time.sleep(1.5)  # a backend reports at its end, at most once a second
            return int(self.psql("select sum(seq_tup_read + idx_tup_fetch) from pg_stat_user_tables"))
        names = "'Handler_read_first','Handler_read_key','Handler_read_next','Handler_read_rnd_next','Handler_read_rnd'"
        return int(self.mysql("select sum(variable_value) from information_schema.global_status "
                              f"where variable_name in ({names})").splitlines()[-1])


# ------------------------------------------------------------------------------------------------------------- the data
def hash_of(seed):
    """A non-negative pseudo-random number of row i, the same on every machine."""
    return f"(hashint8extended(i, {seed}) & 9223372036854775807)"


KEY = f"(i * 2 + {hash_of(1)} % 2 + (i / 1000) * 5000)"  # gaps of 1 to 3, and of 5,000 after each 1,000 rows
STATUS = "'{new,paid,paid,paid,packed,shipped,shipped,delivered,delivered,delivered,delivered,returned,cancelled,refund_pending}'::text[]"
NOTES = ("'{leave at the door,gift wrap please,call before delivery,fragile,second attempt,no comment,priority,übergeben am Empfang,"
         "livré à la réception,送り状あり,спасибо,naïve café,ring twice 🔔,paid by invoice,do not bend,asked for a later slot}'::text[]")
NOTE = (f"case when {hash_of(6)} % 100 < 15 then null else ({NOTES})[1 + {hash_of(7)} % 16] || '; ref ' || "
        f"substr(md5(i::text), 1, ({hash_of(9)} % 16)::int) end")
START = "timestamptz '2023-01-01 00:00:00+00' + make_interval(secs => i * 5)"


def rows_sql(count):
    return f"""
      select i, {KEY}::bigint as id, ({hash_of(2)} % 500000)::bigint as customer_id, md5('u' || i)::uuid as uuid,
        ({STATUS})[1 + {hash_of(4)} % 14] as status, (({hash_of(5)} % 10000000)::numeric / 100)::numeric(12,2) as amount,
        ({hash_of(10)} % 1000000007)::float8 / 1000003.0 as rate, {NOTE} as note, {hash_of(11)} % 3 > 0 as active,
        {START} + ({hash_of(12)} % 1000000) * interval '1 microsecond' as created_at,
        {START} + ({hash_of(13)} % 8640000000000) * interval '1 microsecond' as updated_at
      from generate_series(1::bigint, {count}::bigint) i"""


def planted(variant, count):
    """SQL conditions over i, (changed, missing), and the added rows' keys."""
    if variant == "equal":
        return "false", "false", []
    if variant == "5%":
        return f"{hash_of(21)} % 20 = 0", "false", []
    low = count * 37 // 100 + 137
    blocks = count // 1000
    added = [block * 7000 - 2500 for block in range(1, blocks, max(1, blocks // 15))][:15]
    added += [count * 7 + 100000 + n for n in range(20 - len(added))]
    missing = f"(i >= {low} and i < {low + 5000})"
    return f"((i - {count // 100}) % {count // 50} = 0 and not {missing})", missing, added


def target_sql(variant, count):
    changed, missing, added = planted(variant, count)
    kind = f"{hash_of(30)} % 8"
    sql = f"""
      with rows as (select *, ({changed}) as c, {kind} as k from ({rows_sql(count)}) s where not {missing})
      select id, customer_id + (c and k = 6)::int as customer_id, uuid,
        case when c and k = 1 then case status when 'paid' then 'new' else 'paid' end else status end as status,
        case when c and k = 0 then amount + 0.01 else amount end as amount,
        case when c and k = 4 then rate + 0.001 else rate end as rate,
        case when c and k = 2 then case when note is null then 'was null' end when c and k = 7 then coalesce(note || ' ', '')
          else note end as note,
        active <> (c and k = 5) as active, created_at,
        case when c and k = 3 then updated_at + interval '1 microsecond' else updated_at end as updated_at
      from rows"""
    if added:
        sql = f"""{sql} union all
          select id, 7, md5('x' || id)::uuid, 'new', 1, 0.5, null, true, '2023-05-01 00:00:00+00', '2023-05-01 00:00:00+00'
          from unnest('{{{','.join(map(str, added))}}}'::bigint[]) id"""
    return sql


def make(servers, count, folder, python):
    """Makes the source and its variants on both engines and as Parquet, unless they are there."""
    done = folder / f"made-{count}"
    if done.exists():
        return
    source = f"orders_{count}"
    tables = {source: f"select {COLUMNS} from ({rows_sql(count)}) s"}
    tables |= {name(count, variant): target_sql(variant, count) for variant in VARIANTS}
    for table, select in tables.items():
        say(f"making {table}")
        servers.psql(f"""drop table if exists {table};
          create table {table} (id bigint not null, customer_id bigint not null, uuid uuid not null, status text not null,
            amount numeric(12,2) not null, rate double precision not null, note text, active boolean not null,
            created_at timestamptz(6) not null, updated_at timestamptz(6) not null);
          insert into {table} select * from ({select}) t order by id;
          alter table {table} add primary key (id);
          vacuum (freeze, analyze) {table};""")
        text = folder / "rows.tsv"
        with open(text, "wb") as out:
            utc = "{0} at time zone 'UTC'"
            columns = COLUMNS.replace("active", "active::int")
            columns = columns.replace("created_at", utc.format("created_at")).replace("updated_at", utc.format("updated_at"))
            copy = f"copy (select {columns} from {table} order by id) to stdout"
            subprocess.run(["psql", "-XqAt", servers.conninfo, "-c", copy], stdout=out, check=True)
        servers.mysql(f"""drop table if exists {table};
          create table {table} (id bigint not null primary key, customer_id bigint not null, uuid char(36) not null,
            status varchar(32) not null, amount decimal(12,2) not null, rate double not null, note text,
            active tinyint(1) not null, created_at timestamp(6) not null default '2000-01-01',
            updated_at timestamp(6) not null default '2000-01-01') engine=InnoDB charset=utf8mb4 collate=utf8mb4_bin;
          set unique_checks = 0;
          load data local infile '{text}' into table {table} character set utf8mb4;
          analyze table {table};""")
        text.unlink()
        parquet = folder / f"{table}.parquet"
        run([python, ROOT / "benches" / "peer.py", "parquet", servers.conninfo, table, parquet])
    for variant in VARIANTS:
        changed, missing, added = planted(variant, count)
        sql = f"""copy (select kind, id from (select case when {changed} then 'changed' when {missing} then 'only_in_source' end as kind,
            {KEY} as id from generate_series(1::bigint, {count}::bigint) i) z where kind is not null) to stdout with (delimiter ' ')"""
        expected = servers.psql(sql) + "".join(f"only_in_target {key}\n" for key in added)
        (folder / f"{name(count, variant)}.expected").write_text(expected)
    done.touch()


def name(count, variant):
    return f"orders_{count}_{variant.replace('%', 'pct')}"


# ------------------------------------------------------------------------------------------------------------ measuring
def measure(servers, command, out):
    before, start = servers.cpu(), time.time()
    with open(out, "wb") as stdout, open(f"{out}.err", "wb") as stderr:
        process = subprocess.Popen(list(map(str, command)), stdout=stdout, stderr=stderr)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.time() - start
    time.sleep(0.2)  # a backend's last ticks reach its parent when it has ended
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}\nended with {process.returncode}: {pathlib.Path(f'{out}.err').read_text()[-2000:]}")
    return dict(wall=wall, client=usage.ru_utime + usage.ru_stime, server=servers.cpu() - before,
                memory=usage.ru_maxrss / 1024, code=process.returncode)


class Bench:
    def __init__(self, servers, folder, binaries, python):
        self.servers, self.folder, self.python = servers, folder, python
        self.drift, self.binary_read = binaries / "drift", binaries / "binary_read"
        self.peer = ROOT / "benches" / "peer.py"
        self.out = folder / "out"

    def address(self, engine, table, tool):
        mysql = f"127.0.0.1:{self.servers.mysql_port}/bench"
        return {
            ("pg", "drift"): f"postgres://postgres@127.0.0.1:{self.servers.postgres_port}/postgres#{table}",
            ("my", "drift"): f"mysql://bench@{mysql}#{table}",
            ("parquet", "drift"): self.folder / f"{table}.parquet",
            ("pg", "duckdb"): f"postgres:{self.servers.conninfo}#{table}",
            ("my", "duckdb"): f"mysql:host=127.0.0.1 port={self.servers.mysql_port} user=bench database=bench#{table}",
            ("parquet", "duckdb"): f"parquet:{self.folder}/{table}.parquet",
        }[engine, tool]

    def tables(self, pair, count, variant):
        source, target = pair.split("-")
        return (source, f"orders_{count}"), (target, name(count, variant))

    def limit(self, pair, count, variant):
        """Reads both sides at once, in key order, by the quickest way each has, and does nothing with the rows."""
        commands, files = [], []
        for engine, table in self.tables(pair, count, variant):
            if engine == "pg":
                copy = f"copy (select {COLUMNS} from {table} order by id) to stdout (format binary)"
                commands.append(f"psql -Xq '{self.servers.conninfo}' -c '{copy}' >/dev/null & p{len(commands)}=$!")
            elif engine == "my":
                url = f"mysql://bench@127.0.0.1:{self.servers.mysql_port}/bench"
                select = f"select {COLUMNS} from {table} order by id"
                commands.append(f"'{self.binary_read}' '{url}' '{select}' >/dev/null & p{len(commands)}=$!")
            else:
                files.append(str(self.folder / f"{table}.parquet"))
        if files:
            commands.append(f"'{self.python}' '{self.peer}' scan {' '.join(files)} >/dev/null & p{len(commands)}=$!")
        script = "\n".join([*commands, *(f"wait $p{n} || exit 9" for n in range(len(commands)))])
        result = measure(self.servers, ["bash", "-c", script], self.out)
        if files:
            result["client"] -= float(pathlib.Path(f"{self.out}.err").read_text().split()[-1])
        return result

    def run_drift(self, pair, count, variant):
        sides = [self.address(engine, table, "drift") for engine, table in self.tables(pair, count, variant)]
        differences = self.folder / "differences.csv"
        result = measure(self.servers, [self.drift, "compare", "--consistency", "none", "--key", "id", "--progress", "never",
                                        "--keys-only", "--diff", differences, *sides], self.out)
        with open(differences, newline="") as file:
            found = {f"{row['kind']} {row['key.id']}" for row in csv.DictReader(file)}
        self.check("drift", pair, count, variant, found)
        if result["code"] != (variant != "equal"):
            sys.exit(f"drift, {pair} {variant}: exit code {result['code']}")
        return result

    def run_duckdb(self, pair, count, variant):
        sides = [self.address(engine, table, "duckdb") for engine, table in self.tables(pair, count, variant)]
        result = measure(self.servers, [self.python, self.peer, "join", *sides], self.out)
        self.check("DuckDB", pair, count, variant, set(self.out.read_text().splitlines()))
        return result

    def check(self, tool, pair, count, variant, found):
        expected = set((self.folder / f"{name(count, variant)}.expected").read_text().splitlines())
        if found != expected:
            sys.exit(f"{tool}, {pair} {count} {variant}: {len(expected - found)} missed, {len(found - expected)} false")

    def cell(self, pair, count, variant, runs):
        tools = {"drift": self.run_drift, "limit": self.limit, "DuckDB": self.run_duckdb}
        results = {tool: [] for tool in tools}
        for _ in range(runs):
            for tool, measured in tools.items():
                results[tool].append(measured(pair, count, variant))
        median = lambda tool, what: statistics.median(result[what] for result in results[tool])
        # What else a machine does only ever adds to CPU seconds, so the least is the truest.
        cpu = {tool: min(results[tool], key=lambda r: r["client"] + r["server"]) for tool in tools}
        total = {tool: least["client"] + least["server"] for tool, least in cpu.items()}
        cells = [pair.replace("-", " → ").replace("pg", "PostgreSQL").replace("my", "MariaDB").replace("parquet", "Parquet"),
                 f"{count:,}", variant]
        for tool in tools:
            cells += [f"{median(tool, 'wall'):.2f}", f"{cpu[tool]['client']:.2f} + {cpu[tool]['server']:.2f}"]
        cells += [f"{max(r['memory'] for r in results[tool]):.0f}" for tool in ("drift", "DuckDB")]
        cells += [f"{total['drift'] / total['limit']:.2f}", f"{total['drift'] / total['DuckDB']:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
        say(" ".join(cells))

    def sample(self, pair, count, share):
        """What a sample reads, by the servers' own counters."""
        engines = pair.split("-")
        sides = [self.address(engine, table, "drift") for engine, table in self.tables(pair, count, "equal")]
        counted = {engine: self.servers.rows_read(engine) for engine in set(engines) - {"parquet"}}
        result = measure(self.servers, [self.drift, "compare", "--consistency", "none", "--progress", "never",
                                        "--sample", share, "--seed", "7", *sides], self.out)
        read = {engine: self.servers.rows_read(engine) - before for engine, before in counted.items()}
        worst = max(rows / count / engines.count(engine) for engine, rows in read.items())
        print(f"| {pair} | {count:,} | {share} | {worst:.2%} | {result['wall']:.2f} | {result['client']:.2f} + {result['server']:.2f} |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--rows", type=lambda text: [int(n) for n in words(text)], default=[1_000_000, 5_000_000])
    parser.add_argument("--pairs", type=words, default=PAIRS)
    parser.add_argument("--variants", type=words, default=VARIANTS)
    parser.add_argument("--runs", type=int, default=3)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/var/tmp/drift-bench"))
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # the servers' users pass through

    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or cache / "drift-target" / "bench-release")
    say("building drift")
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "drift", "-p", "drift-benches", "--bin", "drift", "--bin", "binary_read"],
                   cwd=ROOT, env=os.environ | {"CARGO_TARGET_DIR": str(target)}, check=True)
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        say("installing DuckDB and DataFusion")
        run([sys.executable, "-m", "venv", folder / "venv"])
        run([python, "-m", "pip", "install", "-q", *PACKAGES])

    with Servers(folder) as servers:
        for count in arguments.rows:
            make(servers, count, folder, python)
        bench = Bench(servers, folder, target / "release", python)
        versions = [run([bench.drift, "--version"]).strip(), "PostgreSQL " + servers.psql("show server_version").split()[0],
                    "MariaDB " + servers.mysql("select version()").split()[-1], PACKAGES[0].replace("==", " "),
                    PACKAGES[1].replace("==", " ")]
        print(f"{datetime.date.today()}, {os.cpu_count()} cores; {', '.join(versions)}; {arguments.runs} runs each: medians of the seconds, the least CPU (client + servers), the greatest memory.\n")
        print("| pair | rows | target | drift s | CPU s | limit s | CPU s | DuckDB s | CPU s | drift MB | DuckDB MB | CPU / limit | CPU / DuckDB |")
        print("| --- | --: | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |", flush=True)
        for count in arguments.rows:
            for pair in arguments.pairs:
                for variant in arguments.variants:
                    bench.cell(pair, count, variant, arguments.runs)
        print("\n| pair | rows | sample | rows read by the server | s | CPU s |\n| --- | --: | --: | --: | --: | --: |")
        for pair in arguments.pairs:
            if "parquet" not in pair:
                bench.sample(pair, arguments.rows[-1], "1%")


if __name__ == "__main__":
    main()
