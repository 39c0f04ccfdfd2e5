#!/bin/sh
# Builds llama-bench of ik_llama.cpp, the fastest peer on processors, from a checkout of its source, for this machine's
# processor. Needs cmake, ninja and clang-19, as make build installs them. Takes about 15 minutes on 2 processors.
#
#   tests/peer/build_ik.sh CHECKOUT BUILD_FOLDER
#
# Prints the program's path. What was compared with is commit 8337e4cd3 of 15 August 2026.
set -eu
if [ $# -ne 2 ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
if [ ! -f "$1/ggml/src/iqk/iqk_mul_mat.cpp" ]; then
  echo "build_ik.sh: $1 is no checkout of ik_llama.cpp" >&2
  exit 1
fi
cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_SERVER=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 >&2
cmake --build "$2" --target llama-bench -j "$(nproc)" >&2
echo "$2/bin/llama-bench"
