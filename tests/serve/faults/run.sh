#!/bin/sh
# run.sh PROGRAM [REQUESTS [SEED]]: `sluice serve` of PROGRAM under clients that misbehave (faults.mjs). Says in one line
# why, where it cannot run.
set -eu
cd "$(dirname "$0")/../../.."
tools/with_node.sh true >/dev/null 2>&1 || { echo "fault run of the server not run: no Node here: want 20.19 or newer on PATH"; exit 0; }
exec tools/with_node.sh node tests/serve/faults/faults.mjs "$@"
