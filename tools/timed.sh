#!/bin/sh
# timed.sh STAGE COMMAND...: runs the command and notes the seconds that it took in build/stages; tools/stages.sh prints them.
set -eu
stage=$1
shift
mkdir -p build
began=$(date +%s)
"$@"
echo "$(($(date +%s) - began)) $stage" >>build/stages
