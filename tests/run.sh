#!/usr/bin/env bash
# Runs the tests against a PostgreSQL and a MariaDB of its own.
#
#   tests/run.sh [--long] [cargo test filter…]
#
# As root on Debian it installs what is missing; any other user needs the servers installed. The servers listen on
# loopback only, keep their data in a temporary folder, and end with this script, however it ends.
#   --long   all engine pairs at full size, and whatever else takes minutes
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export PATH="$HOME/.cargo/bin:$PATH:/usr/sbin:/sbin"

say() { printf 'run.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

if [ "${1:-}" = --long ]; then
  shift
  export DRIFT_TEST_LONG=1
fi

# ------------------------------------------------------------------------------------------------ what has to be there
postgres_bin() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true; }

missing=()
need() { # PACKAGE CHECK…
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
need postgresql test -n "$(postgres_bin)"
need mariadb-server command -v mariadbd
need mariadb-client command -v mariadb-admin
need postgresql-client command -v psql
need sqlite3 command -v sqlite3
need pgbouncer command -v pgbouncer
need python3 command -v python3
need python3-pip python3 -m pip --version
need prometheus command -v promtool
need prometheus-alertmanager command -v prometheus-alertmanager
need python3-aiosmtpd /usr/bin/python3 -c 'import aiosmtpd'
need openssl command -v openssl
need ca-certificates test -s /etc/ssl/certs/ca-certificates.crt
need build-essential command -v cc

if [ "${#missing[@]}" -gt 0 ]; then
  [ "$(id -u)" -eq 0 ] || die "missing: ${missing[*]}; install these Debian packages, or run this script as root"
  say "installing ${missing[*]}"
  # The packages must neither make a cluster nor start a service of their own.
  mkdir -p /etc/postgresql-common/createcluster.d
  echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.d/drift-tests.conf
  policy=/usr/sbin/policy-rc.d
  if [ -e "$policy" ]; then policy=; else printf '#!/bin/sh\nexit 101\n' > "$policy"; chmod 755 "$policy"; fi
  apt_log=$(mktemp)
  installed=1
  {
    apt-get update &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
  } >"$apt_log" 2>&1 </dev/null || installed=
  [ -z "$policy" ] || rm -f "$policy"
  [ -n "$installed" ] || { tail -n 20 "$apt_log" >&2; die "apt-get could not install ${missing[*]}"; }
  rm -f "$apt_log"
fi
command -v cargo >/dev/null ||
  die "cargo is missing: install rustup, then run this again (rust-toolchain.toml names the version to use)"

pg_bin=$(postgres_bin)
CARGO_TARGET_DIR=$(tests/target-dir.sh)
export CARGO_TARGET_DIR

# ------------------------------------------------------------------------------------------------------- the servers
temp=$(mktemp -d "${TMPDIR:-/tmp}/drift-test.XXXXXX")
chmod 755 "$temp"
pids=()

stop() {
  local pid
  for pid in "${pids[@]}"; do kill -QUIT "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$temp"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The servers refuse to run as root, so root starts each as its own user.
as() { # USER COMMAND…
  local user=$1
  shift
  if [ "$(id -u)" -eq 0 ]; then
    (cd / && exec setpriv --reuid="$user" --regid="$user" --init-groups "$@")
  else
    "$@"
  fi
}

# Starts a server that dies with this script even where its traps cannot run.
serve() { # USER NAME COMMAND…
  local user=$1 name=$2 identity=()
  shift 2
  [ "$(id -u)" -ne 0 ] || identity=(--reuid="$user" --regid="$user" --init-groups)
  (cd / && exec setpriv "${identity[@]}" --pdeathsig QUIT "$@") >"$temp/$name.log" 2>&1 </dev/null &
  pids+=($!)
}

wait_until() { # NAME PID COMMAND…
  local name=$1 pid=$2 end=$((SECONDS + 90))
  shift 2
  until "$@" >/dev/null 2>&1; do
    kill -0 "$pid" 2>/dev/null || { tail -n 20 "$temp/$name.log" >&2; die "$name ended while it was starting"; }
    [ "$SECONDS" -lt "$end" ] || { tail -n 20 "$temp/$name.log" >&2; die "$name did not start within 90 s"; }
    sleep 0.1
  done
}

# Below the kernel's ephemeral range, so that no outgoing connection takes it meanwhile.
free_port() {
  local port
  while port=$((RANDOM % 12000 + 20000)) && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}

folder() { # USER NAME
  mkdir "$temp/$2"
  [ "$(id -u)" -ne 0 ] || chown "$1:$1" "$temp/$2"
}

unset "${!PG@}" "${!MYSQL@}" "${!MARIADB@}"
password=drift-$RANDOM$RANDOM
export DRIFT_TEST_PG_SOCKET_DIR=$temp/pg-socket DRIFT_TEST_MY_SOCKET=$temp/my-socket/mysqld.sock

folder postgres pg-data
folder postgres pg-socket
pg_port=$(free_port)
printf '%s' "$password" >"$temp/password"
chmod 644 "$temp/password"
as postgres "$pg_bin/initdb" -D "$temp/pg-data" -U postgres -A scram-sha-256 --pwfile="$temp/password" \
  -E UTF8 --locale=C.UTF-8 --no-sync >"$temp/initdb.log" 2>&1 || { tail "$temp/initdb.log" >&2; die "initdb failed"; }
serve postgres postgres "$pg_bin/postgres" -D "$temp/pg-data" -p "$pg_port" -k "$DRIFT_TEST_PG_SOCKET_DIR" \
  -c listen_addresses=127.0.0.1 -c max_connections=200 -c log_line_prefix='%u|' \
  -c shared_buffers=128MB \
  -c fsync=off -c synchronous_commit=off -c full_page_writes=off
pg_pid=${pids[-1]}

folder mysql my-data
folder mysql my-socket
my_port=$(free_port)
as mysql mariadb-install-db --no-defaults --datadir="$temp/my-data" --auth-root-authentication-method=normal \
  --skip-test-db --skip-name-resolve >"$temp/install-db.log" 2>&1 ||
  { tail "$temp/install-db.log" >&2; die "mariadb-install-db failed"; }
cat >"$temp/users.sql" <<SQL
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
ALTER USER 'root'@'127.0.0.1' IDENTIFIED BY '$password';
GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
ALTER USER 'root'@'localhost' IDENTIFIED BY '$password';
SQL
serve mysql mariadb "$(command -v mariadbd)" --no-defaults --datadir="$temp/my-data" --port="$my_port" \
  --socket="$DRIFT_TEST_MY_SOCKET" --bind-address=127.0.0.1 --skip-name-resolve --init-file="$temp/users.sql" \
  --character-set-server=utf8mb4 --max-connections=200 --local-infile=1 \
  --server-id=1 --log-bin=binlog --binlog-format=ROW --gtid-domain-id=1 --sync-binlog=0 \
  --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-buffer-pool-size=256M --innodb-log-file-size=128M
my_pid=${pids[-1]}

wait_until postgres "$pg_pid" "$pg_bin/pg_isready" -q -h 127.0.0.1 -p "$pg_port"
wait_until mariadb "$my_pid" \
  env MYSQL_PWD="$password" mariadb-admin --no-defaults -h 127.0.0.1 -P "$my_port" -u root ping

export DRIFT_TEST_PG_LOG=$temp/postgres.log
export DRIFT_TEST_POSTGRES=postgres://postgres:$password@127.0.0.1:$pg_port/postgres
export DRIFT_TEST_MYSQL=mysql://root:$password@127.0.0.1:$my_port/mysql
DRIFT_TEST_FLIGHTS=$(tests/real/flights.sh)
export DRIFT_TEST_FLIGHTS

# ---------------------------------------------------------------------------------------------------------- the tests
cargo test --locked "$@"
