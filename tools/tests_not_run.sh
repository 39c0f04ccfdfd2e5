#!/bin/sh
# tests_not_run.sh BUILD: prints why tests were skipped in the last run of ctest in BUILD: one line for each reason, with
# the number of tests, the most frequent first. A test that runs several times (shards, arithmetics) counts each time.
set -eu
log="$1/Testing/Temporary/LastTest.log"
[ -r "$log" ] || { echo "tests_not_run: $log: not there: want the log of a run of ctest" >&2; exit 1; }
awk '
  # googletest: "FILE:LINE: Skipped", the reason in any number of lines, an empty one, "[  SKIPPED ] TEST".
  /^[^ ]+:[0-9]+: Skipped$/ { reason = ""; reading = 1; next }
  reading && (/^$/ || /^\[/) {
    if (reason == "") reason = "no reason given"
    ++count[reason]; ++all; ++here; reading = 0; next
  }
  reading { reason = reason (reason == "" ? "" : " ") $0; next }
  # ctest: a whole program, of which no test of its own said so.
  /^[0-9]+\/[0-9]+ Test: / { sub(/^[^:]*: /, ""); name = $0; here = 0; next }
  /^Skip regular expression found in output/ && !here {
    sub(/.*Regex=\[/, ""); sub(/\]$/, "")
    ++count[name ": " $0]; ++all
  }
  END {
    if (all == 0) { print "tests not run: none"; exit }
    print "tests not run: " all
    for (reason in count) printf "%6d  %s\n", count[reason], reason | "sort -k1,1nr -k2"
  }' "$log"
grep -h '^golden cases not run' "$log" || true
