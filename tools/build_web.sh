#!/bin/sh
# build_web.sh [--fetch]: checks the types of web/ and builds the page and the package into web/dist. It needs
# build/wasm/sluice.wasm. --fetch: only downloads the npm packages that the build needs.
set -eu
cd "$(dirname "$0")/../web"
if ! cmp -s package-lock.json node_modules/installed.json; then
  timeout 600 npm install --no-save >npm.log 2>&1 || { echo "build_web: npm does not fetch web/package.json (web/npm.log)" >&2; exit 1; }
  cp package-lock.json node_modules/installed.json
  rm -f npm.log
fi
[ "${1:-}" = --fetch ] || npm run --silent build
