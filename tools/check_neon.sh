#!/bin/sh
# check_neon.sh JOBS: builds the kernels for Arm and runs their tests under qemu. Without the cross compiler or qemu it
# prints a line and checks nothing.
set -eu
cd "$(dirname "$0")/.."
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v $tool >/dev/null ||
    { echo "NEON tests not run: no $tool: want Debian's g++-aarch64-linux-gnu and qemu-user"; exit 0; }
done
build=build/aarch64
cmake --preset aarch64 >/dev/null
cmake --build $build -j "$1" --target device_test

# tests PROCESSOR FILTER [options]
tests() {
  processor=$1 filter=$2
  shift 2
  qemu-aarch64 -cpu "$processor" $build/device_test --gtest_brief=1 --gtest_filter="$filter" "$@"
}
# levels PROCESSOR LEVELS: those found on it at run time, by which a test's instances are named.
levels() {
  found=$(tests "$1" 'Cpu/EveryLevel.ExpSumAndLargestTakeAnyLength/*' --gtest_list_tests |
    sed -n 's,^  [A-Za-z]*/\([a-z0-9_]*\).*,\1,p' | xargs)
  [ "$found" = "$2" ] || { echo "$1: found levels $found: want $2"; exit 1; }
}
levels cortex-a72 'scalar'
levels neoverse-n1 'scalar neon'
levels max 'scalar neon neon_i8mm'

log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
# Attention is the same code at both levels, and the slowest here. The second run's processor knows nothing of I8MM.
tests max 'Cpu/Parity.AgreesWithTheReference/cpu_neon*-*cpu_neon_i8mm_attention' >"$log/ops" 2>&1 &
ops=$!
failed=0
tests neoverse-n1 'Cpu/EveryLevel.EightBit*/neon' || failed=1
tests max 'Cpu/EveryLevel.*/neon*:Cpu/Affine.*/neon*:CpuLevels.*' || failed=1
wait $ops || failed=1
cat "$log/ops"
exit $failed
