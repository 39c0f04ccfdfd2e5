#!/bin/sh
# run.sh PROGRAM: the server with real clients: OpenAI's, Anthropic's and Ollama's packages for Node, Vercel's AI SDK and
# LangChain. Their packages go to build/clients. Says in one line why, where it cannot run.
set -eu
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../../..
to=$root/build/clients
not_run() {
  echo "clients' tests not run: $1"
  exit 0
}
mkdir -p "$to"
if ! cmp -s "$here/package.json" "$to/installed.json"; then
  cp "$here/package.json" "$to/package.json"
  (cd "$to" && timeout 300 "$root/tools/with_node.sh" npm install --silent --no-audit --no-fund --no-package-lock >npm.log 2>&1) ||
    not_run "npm cannot fetch what they take (build/clients/npm.log)"
  cp "$here/package.json" "$to/installed.json"
fi
# Node looks for packages beside the scripts.
cp "$here"/*.mjs "$here"/openapi_schemas.json "$to/"
cd "$to"
export SLUICE_PROGRAM="$program"
SLUICE_PICTURE=$(realpath "$root/tests/data/gemma4/picture1.png")
SLUICE_OTHER_MODEL=$(realpath "$root/tests/data/gemma4_dense")
SLUICE_THINKING_MODEL=$(realpath "$root/tests/data/qwen3_5_moe")
SLUICE_DEMO=$(realpath "$root/assets/demo-gemma4-q8_0.gguf")
export SLUICE_PICTURE SLUICE_OTHER_MODEL SLUICE_THINKING_MODEL SLUICE_DEMO
"$root/tools/fetch_promtool.sh" "$root/build"
if [ -x "$root/build/promtool/usr/bin/promtool" ]; then
  SLUICE_PROMTOOL=$(realpath "$root/build/promtool/usr/bin/promtool")
  export SLUICE_PROMTOOL
fi
exec "$root/tools/with_node.sh" node --test --test-reporter=dot clients_test.mjs frameworks_test.mjs \
  metrics_test.mjs models_test.mjs openapi_test.mjs states_test.mjs store_test.mjs
