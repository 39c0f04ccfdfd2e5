#!/bin/sh
# stages.sh: prints the seconds that each stage took since the last run of this script.
set -eu
[ -f build/stages ] || exit 0
echo "seconds of each stage (stages of make check run beside each other):"
awk '{printf "  %6d  %s\n", $1, substr($0, length($1) + 2)}' build/stages
rm build/stages
