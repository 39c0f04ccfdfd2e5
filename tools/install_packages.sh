#!/bin/sh
# install_packages.sh GROUP...: the Debian 12 packages that a group of Makefile targets needs. Calls apt only when dpkg
# says that one is missing, so that a machine which has them all needs neither root nor network.
set -eu

build="cmake ninja-build g++ clang-19 pkg-config ccache python3
       nlohmann-json3-dev libutf8proc-dev libxxhash-dev liburing-dev libedit-dev libcurl4-openssl-dev ca-certificates
       libpng-dev libjpeg-dev libwebp-dev libgif-dev libsndfile1-dev libmpg123-dev libvorbis-dev libopusfile-dev libsoxr-dev
       libboost1.81-dev
       libgtest-dev libgmock-dev libbenchmark-dev"
test="libvulkan1 mesa-vulkan-drivers chromium"
wasm="lld-19 llvm-19 wasi-libc libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32"
node="nodejs npm"
check="$wasm libclang-rt-19-dev clang-format-19 clang-tidy-19 python3-jinja2
       mandoc zsh fish"
neon="g++-aarch64-linux-gnu qemu-user lld-19 llvm-19"

missing=
for group in "$@"; do
  eval "packages=\$$group"
  for package in $packages; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
  done
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install_packages: missing$missing: want root or sudo to install them" >&2; exit 1; }
  sudo=sudo
fi
echo "installing$missing"
# Lists that know every missing package are fresh enough.
for package in $missing; do
  if ! apt-cache show "$package" >/dev/null 2>&1; then
    $sudo apt-get update
    break
  fi
done
install="$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"
# Stale lists name versions that the mirror no longer has.
# shellcheck disable=SC2086
$install $missing || { $sudo apt-get update && $install $missing; }
