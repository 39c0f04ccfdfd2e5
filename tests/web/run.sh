#!/bin/sh
# run.sh: builds the page and runs its tests, in one Chromium; says in one line why, where it cannot.
# SCREENSHOTS=FOLDER has them take docs' pictures, too.
set -eu
cd "$(dirname "$0")/../.."
not_run() {
  echo "web tests not run: $1"
  exit 0
}
[ -x "${CHROMIUM:-/usr/bin/chromium}" ] || not_run "no Chromium: want /usr/bin/chromium, or its path in CHROMIUM"
tools/with_node.sh tools/build_web.sh --fetch || not_run "npm cannot fetch what they take"
tools/with_node.sh tools/build_web.sh
exec tools/with_node.sh node --test --test-reporter=spec tests/web/all.mjs
