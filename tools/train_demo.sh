#!/bin/sh
# train_demo.sh PROGRAM OUT: teaches the built-in demo model the words of examples/words.jsonl and asks for a few of them,
# before and after. Half a minute on two cores. OUT is made anew.
set -eu
cd "$(dirname "$0")/.."
program=$1
out=$2

run() {
  printf '$'
  for word in "$@"; do
    case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
  done
  printf '\n'
  "$@"
}
ask() {
  for question in "What is a blorptrix?" "Define jollop." "What does lumbry mean?"; do
    run "$program" run demo "$@" "$question"
  done
}

rm -rf "$out"
ask
run "$program" train demo examples/words.jsonl --out "$out" --epochs 12 --batch-tokens 256 --rate 2e-3
ask --adapter "$out"
