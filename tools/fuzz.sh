#!/bin/sh
# fuzz.sh BUILD SECONDS: runs every fuzz program of BUILD for an equal share of SECONDS, starting from the corpus beside
# its source. New inputs are written to BUILD. A crash also writes its input there, and the script fails.
set -eu
cd "$(dirname "$0")/.."
build=$1
seconds=$2
programs=$(find "$build" -maxdepth 1 -name '*_fuzz' -type f | sort)
[ -n "$programs" ] || { echo "fuzz: $build holds no fuzz program: want at least one" >&2; exit 1; }
each=$((seconds / $(echo "$programs" | wc -l)))
[ "$each" -ge 1 ] || each=1
for program in $programs; do
  name=$(basename "$program")
  grown="$build/corpus/$name"
  mkdir -p "$grown"
  kept="fuzz/corpus/${name%_fuzz}"
  [ -d "$kept" ] || kept=
  echo "fuzz: $name for $each s"
  # Of one run: seconds, megabytes of the process, megabytes of one allocation.
  limits="-timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=2048"
  case $name in
    # Rendering counts what it does; what is not counted shows here. Half of the memory is the sanitizer's.
    chat_template_fuzz) limits="-timeout=5 -rss_limit_mb=768 -malloc_limit_mb=64" ;;
  esac
  # shellcheck disable=SC2086
  "$program" -max_total_time="$each" $limits -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="$build/" "$grown" $kept
done
