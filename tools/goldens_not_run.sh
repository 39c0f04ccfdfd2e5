#!/bin/sh
# goldens_not_run.sh BUILD: the line in which the last test run says which golden cases it could not run, if it has one.
set -eu
grep -h '^golden cases not run' "$1/Testing/Temporary/LastTest.log" || true
