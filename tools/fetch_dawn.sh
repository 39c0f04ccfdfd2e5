#!/bin/sh
# fetch_dawn.sh BUILD: downloads Dawn's library from npm into BUILD/webgpu, with its licences, unless it is there already.
# --device webgpu opens the library at run time. If the download fails, prints the reason in one line; nothing else needs
# the library.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/webgpu"
to=$(cd "$1/webgpu" && pwd)
sum=3190c3777f2c07fcf6a0640833cbf5d0cde859dc53aed6d9083946d093198788

not_here() {
  echo "fetch-dawn: no library for --device webgpu: $1"
  exit 0
}
if [ -f "$to/libwebgpu_wrapper.so" ] && [ -f "$to/LICENSE" ] && cmp -s "$here/webgpu/NOTICE" "$to/NOTICE" &&
  cmp -s "$here/webgpu/package-lock.json" "$to/package-lock.json"; then
  exit 0
fi
[ "$(uname -sm)" = "Linux x86_64" ] || not_here "this is $(uname -sm): want Linux x86_64"
command -v npm >/dev/null || not_here "there is no npm: want Node.js 20 or later, then make build"

# A folder of its own, so that two of these do not meet, and half a library is none.
part=$(mktemp -d "$to/part.XXXXXX")
trap 'rm -rf "$part"' EXIT
cp "$here/webgpu/package.json" "$here/webgpu/package-lock.json" "$here/../tests/peer/.npmrc" "$part"
# A build waits a minute for it at most: without a network npm would try for several.
(cd "$part" && timeout 60 npm ci --fetch-retries=1 --fetch-timeout=20000 >"$to/npm.log" 2>&1) ||
  not_here "npm does not fetch it ($to/npm.log): want a network, then make build"
package=$part/node_modules/bun-webgpu-linux-x64
echo "$sum  $package/libwebgpu_wrapper.so" | sha256sum --check --quiet >/dev/null 2>&1 || {
  echo "fetch-dawn: npm's libwebgpu_wrapper.so is not the one that was tried: want sha256 $sum" >&2
  exit 1
}
mv "$package/libwebgpu_wrapper.so" "$package/LICENSE" "$to"
cp "$here/webgpu/NOTICE" "$here/webgpu/package-lock.json" "$to"
