"""What drift is measured against, as processes of their own so that their cost is theirs.

peer.py join SOURCE TARGET   DuckDB's full outer join of two tables; prints `KIND KEY` for each row that differs
peer.py scan FILE...         DataFusion reads all columns of the files, side by side; the CPU seconds that starting took
                             go to stderr
peer.py parquet CONNINFO TABLE FILE
                             DuckDB writes a PostgreSQL table as Parquet, in key order

A table is postgres:CONNINFO#TABLE, mysql:CONNINFO#TABLE or parquet:FILE.
"""
import glob
import sys
import threading
import time

COLUMNS = "customer_id uuid status amount rate note active created_at updated_at".split()


def load(connection, name):
    for folder in sys.path:
        for file in glob.glob(f"{folder}/duckdb_extension_*/extensions/*/{name}.duckdb_extension"):
            connection.execute(f"LOAD '{file}'")
            return
    sys.exit(f"the extension {name} is not installed")


def connect():
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 2})
    load(connection, "icu")
    connection.execute("SET TimeZone='UTC'")
    return connection


def attach(connection, kind, conninfo, alias):
    load(connection, f"{kind}_scanner")
    connection.execute(f"ATTACH '{conninfo}' AS {alias} (TYPE {kind}, READ_ONLY)")


def parquet(conninfo, table, file):
    connection = connect()
    attach(connection, "postgres", conninfo, "pg")
    rows = f"SELECT * REPLACE (uuid::VARCHAR AS uuid) FROM pg.public.{table} ORDER BY id"
    connection.execute(f"COPY ({rows}) TO '{file}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 131072)")


def join(source, target):
    connection = connect()
    connection.execute("SET preserve_insertion_order=false")

    def side(address, alias):
        kind, rest = address.split(":", 1)
        if kind == "parquet":
            return f"(SELECT * FROM read_parquet('{rest}'))"
        conninfo, table = rest.split("#")
        attach(connection, kind, conninfo, alias)
        if kind == "postgres":
            return f"(SELECT * REPLACE (uuid::VARCHAR AS uuid) FROM {alias}.public.{table})"
        return (
            f"(SELECT * REPLACE (active::INT = 1 AS active, created_at::TIMESTAMPTZ AS created_at, "
            f"updated_at::TIMESTAMPTZ AS updated_at) FROM {alias}.{table})"
        )

    a, b = side(source, "a_db"), side(target, "b_db")
    differs = " OR ".join(f"a.{c} IS DISTINCT FROM b.{c}" for c in COLUMNS)
    rows = connection.execute(
        "SELECT CASE WHEN b.id IS NULL THEN 'only_in_source' WHEN a.id IS NULL THEN 'only_in_target' ELSE 'changed' END, "
        f"coalesce(a.id, b.id) FROM {a} a FULL OUTER JOIN {b} b ON a.id = b.id WHERE a.id IS NULL OR b.id IS NULL OR {differs}"
    )
    while batch := rows.fetchmany(100_000):
        sys.stdout.writelines(f"{kind} {key}\n" for kind, key in batch)


def scan(*files):
    from datafusion import SessionConfig, SessionContext

    # What starting took is not counted for the scan.
    print(time.process_time(), file=sys.stderr)

    def read(file):
        context = SessionContext(SessionConfig().with_target_partitions(1))
        rows = sum(batch.to_pyarrow().num_rows for batch in context.read_parquet(file).execute_stream())
        print(rows)

    threads = [threading.Thread(target=read, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


{"join": join, "scan": scan, "parquet": parquet}[sys.argv[1]](*sys.argv[2:])
