#!/bin/sh
# tidy.sh BUILD JOBS: clang-tidy (.clang-tidy says which checks) over the sources of src/ as BUILD compiles them.
set -eu
cd "$(dirname "$0")/.."
run-clang-tidy-19 -clang-tidy-binary clang-tidy-19 -quiet -p "$1" -j "$2" "$PWD/src/.*\.cpp$"
