#!/bin/sh
# fetch_promtool.sh BUILD: Prometheus' checker of metrics, as BUILD/promtool/usr/bin/promtool, from Debian's package. The
# package is not installed, because it would start a server of Prometheus. Says in one line why, where it cannot be had.
set -eu
to=$1/promtool
[ ! -x "$to/usr/bin/promtool" ] || exit 0
mkdir -p "$to"
cd "$to"
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "no promtool: no apt here"; exit 0; }
rm -f prometheus_*.deb
# Stale lists name versions that the mirror no longer has.
apt-get download -qq prometheus >apt.log 2>&1 || { apt-get update && apt-get download -qq prometheus; } >>apt.log 2>&1 || {
  echo "no promtool: apt cannot fetch Debian's package prometheus ($to/apt.log)"
  exit 0
}
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
rm prometheus_*.deb
