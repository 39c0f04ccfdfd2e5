#!/bin/sh
# fetch_webgpu.sh BUILD: downloads into BUILD/webgpu what the tests of the WebGPU device need: Dawn's library
# (fetch_dawn.sh), and lavapipe, a Vulkan driver that computes on the processor. lavapipe is from Debian 12's backports,
# because Debian 12's own version is too old for Dawn. The system's drivers are not changed. If the download fails, prints
# the reason in one line, and tests that need the driver are skipped.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/webgpu"
to=$(cd "$1/webgpu" && pwd)
triplet=x86_64-linux-gnu

not_here() {
  echo "fetch-webgpu: not here: $1"
  exit 0
}
"$here/fetch_dawn.sh" "$1"
[ -f "$to/libwebgpu_wrapper.so" ] || exit 0

if [ ! -f "$to/lvp_icd.json" ]; then
  mirror=$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/debian.sources 2>/dev/null || true)
  [ -n "$mirror" ] || not_here "no mirror in /etc/apt/sources.list.d/debian.sources: want Debian 12"
  mkdir -p "$to/apt/lists/partial" "$to/apt/cache/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm-backports main" >"$to/apt/list"
  backports() {
    apt-get -qq -o Dir::Etc::sourcelist="$to/apt/list" -o Dir::Etc::sourceparts=/dev/null \
      -o Dir::State::Lists="$to/apt/lists" -o Dir::Cache="$to/apt/cache" -o APT::Sandbox::User=root "$@"
  }
  backports update >"$to/apt.log" 2>&1 || not_here "the mirror has no backports ($to/apt.log)"
  (cd "$to/apt" && backports download mesa-vulkan-drivers/bookworm-backports) >"$to/apt.log" 2>&1 ||
    not_here "the mirror has no newer mesa-vulkan-drivers ($to/apt.log)"
  dpkg -x "$to"/apt/mesa-vulkan-drivers_*.deb "$to/mesa"
  mv "$to/mesa/usr/lib/$triplet/libvulkan_lvp.so" "$to"
  sed "s#\"library_path\": \"[^\"]*\"#\"library_path\": \"$to/libvulkan_lvp.so\"#" \
    "$to/mesa/usr/share/vulkan/icd.d/lvp_icd.json" >"$to/lvp_icd.json.part"
  rm -rf "$to/mesa" "$to/apt"
  mv "$to/lvp_icd.json.part" "$to/lvp_icd.json"
fi
