#!/bin/sh
# tools/build_adapter.sh [FILE] : builds the adapter that stands before each component of its C, with clang and lld.
set -e
room="$(dirname "$0")/../src/smg_core/wasm/adapter"
out="${1:-$room/adapter.wasm}"
clang --target=wasm32-unknown-unknown -Os -nostdlib -ffreestanding -mbulk-memory -Wall -Werror -Wl,--no-entry -Wl,--stack-first \
  -Wl,-z,stack-size=16384 -Wl,--strip-all -Wl,--import-memory -o "$out" "$room/adapter.c"
chmod 644 "$out"
