#!/bin/sh
# format.sh [--check]: runs clang-format over every source file that git tracks or would add. --check: only reports.
set -eu
cd "$(dirname "$0")/.."
mode=-i
[ "${1:-}" = --check ] && mode="--dry-run --Werror"
# shellcheck disable=SC2086
git ls-files -z --cached --others --exclude-standard '*.h' '*.cpp' | xargs -0 -r ls -d 2>/dev/null | tr '\n' '\0' |
  xargs -0 -r -n 40 clang-format-19 $mode
