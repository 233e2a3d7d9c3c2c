#!/usr/bin/env bash
# Prints the folder that cargo builds into: CARGO_TARGET_DIR where it is set, else one outside the checkout that all
# checkouts with the same dependencies and toolchain share. A new one starts as a copy of its newest sibling, so that a
# changed Cargo.lock rebuilds only what changed; of the siblings the two newest stay.
set -euo pipefail

if [ -n "${CARGO_TARGET_DIR:-}" ]; then
  echo "$CARGO_TARGET_DIR"
  exit 0
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
base=${XDG_CACHE_HOME:-$HOME/.cache}/drift-target
name=$(cat "$root/Cargo.lock" "$root/rust-toolchain.toml" | sha256sum | cut -c1-12)
mkdir -p "$base"

# The siblings, newest first; only folders that this script named.
siblings() {
  find "$base" -mindepth 1 -maxdepth 1 -type d -regextype posix-extended -regex '.*/[0-9a-f]{12}' \
    ! -name "$name" -printf '%T@ %p\n' | sort -rn | cut -d' ' -f2-
}

if [ ! -d "$base/$name" ]; then
  newest=$(siblings | head -n 1)
  if [ -n "$newest" ]; then
    seed=$(mktemp -d "$base/seed.XXXXXX")
    cp -a --reflink=auto "$newest" "$seed/copy"
    mv -T "$seed/copy" "$base/$name" 2>/dev/null || true # another run was quicker
    rm -rf "$seed"
  else
    mkdir -p "$base/$name"
  fi
fi
touch "$base/$name"
siblings | tail -n +3 | while IFS= read -r old; do rm -rf "$old"; done
echo "$base/$name"
