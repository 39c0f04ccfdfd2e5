#!/bin/sh
# check.sh PROGRAM: a test that aborts or leaves the program fails alone (tests/main.cpp), and those behind it are run.
if said=$("$1" 2>&1); then
  echo "runner: exit status 0: want another"
  exit 1
fi
for line in '[       OK ] Aborting.Before' '[ ABORTED  ] Aborting.Aborts (signal 6)' '[       OK ] Aborting.Between' \
  '[ ABORTED  ] Aborting.Leaves (exit status 0)' '[       OK ] Aborting.After'; do
  printf '%s\n' "$said" | grep -qF "$line" || { printf 'runner: "%s" is missing in\n%s\n' "$line" "$said"; exit 1; }
done
