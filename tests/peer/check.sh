#!/bin/sh
# check.sh BUILD: compares the programs of BUILD with llama.cpp, the peer, as node-llama-cpp packs it (package.json pins
# it; nothing of it is built or installed with Sluice). Says in one line why, where it cannot.
set -eu
build=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
peer=$(dirname "$build")/peer

not_run() {
  echo "check-peer: not run: $1"
  exit 0
}
[ "$(uname -sm)" = "Linux x86_64" ] || not_run "this is $(uname -sm): want Linux x86_64"
command -v npm >/dev/null && command -v node >/dev/null || not_run "there is no npm here: want Node.js 20 or later"

# Fetches what the lock file names, unless it is there already.
mkdir -p "$peer"
if ! cmp -s "$here/package-lock.json" "$peer/installed.json"; then
  cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$peer"
  # Not "npm ci": it wants the builds for other systems in the lock file, where npm itself leaves them out.
  status=0
  (cd "$peer" && timeout 300 npm install --no-save >npm.log 2>&1) || status=$?
  [ $status -ne 124 ] || not_run "npm has not fetched $peer/package.json within 5 minutes"
  if [ $status -ne 0 ]; then
    code=$(sed -n 's/^npm \(error\|ERR!\) code //p' "$peer/npm.log" | head -n 1)
    case $code in
      ENOTFOUND | EAI_AGAIN | ECONN* | ETIMEDOUT | ENETUNREACH | EHOSTUNREACH | ERR_SOCKET* | E403 | E5*)
        not_run "npm cannot reach its registry ($code)" ;;
    esac
    cat "$peer/npm.log" >&2
    exit 1
  fi
  rm -rf "$peer/source"
  git clone -q -c advice.detachedHead=false "$peer/node_modules/node-llama-cpp/llama/gitRelease.bundle" "$peer/source"
  cp "$here/package-lock.json" "$peer/installed.json"
fi

libraries=$peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64

failed=
part() {
  echo "check-peer: $1"
  shift
  "$@" || failed=yes
}
part "vocabularies" "$build/peer_vocabularies" "$peer/source/models"

# tokens BYTES VOCABULARY...: what is not here (deepseek-llm, phi-3) differs for the reasons in docs/peer.md.
tokens() {
  "$here/make_text.py" "$peer/source" "$1" >"$peer/text.txt"
  shift
  for name in "$@"; do
    file=$peer/source/models/ggml-vocab-$name.gguf
    part "ids of random text, $name" "$build/peer_tokens" "$libraries" "$file" "$peer/text.txt"
  done
}
tokens 1000000 gemma-4 qwen35
tokens 200000 qwen2 deepseek-coder llama-bpe gpt-2 falcon command-r starcoder refact mpt llama-spm
part "blocks" "$build/peer_blocks" "$libraries" "$here/../../assets/demo-gemma4-q8_0.gguf"
part "models that convert writes" node "$here/models.mjs" "$peer" "$build" "$here/../.."
# Debian's jinja2, not one that a virtual environment brings.
part "chat templates" /usr/bin/python3 "$here/templates.py" "$build/peer_render" "$peer/source/models/templates"
[ -z "$failed" ] || { echo "check-peer: Sluice and llama.cpp differ" >&2; exit 1; }
echo "check-peer: all of it agrees"
