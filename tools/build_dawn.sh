#!/bin/sh
# Builds Dawn's C interface for Linux from a checkout of its source, for the matrix units of a GPU (docs/webgpu.md). Needs
# cmake, ninja and clang-19, as make build installs them, and Debian's python3-jinja2, libx11-xcb-dev and libgbm-dev.
# Took some 40 minutes on 2 processors that had other work, too.
#
#   tools/build_dawn.sh CHECKOUT BUILD_FOLDER
#
# The checkout is commit 1e975e28f9 of 22 August 2026, whose interface src/device/webgpu/dawn/dawn.h declares, with the
# submodules abseil-cpp, spirv-headers/src, spirv-tools/src, vulkan-headers/src and vulkan-utility-libraries/src of
# third_party. Prints the library's path, which --webgpu-library takes.
set -eu
if [ $# -ne 2 ]; then
  sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
for part in src/dawn/native third_party/abseil-cpp/absl third_party/spirv-headers/src/include \
  third_party/spirv-tools/src/source third_party/vulkan-headers/src/include third_party/vulkan-utility-libraries/src/include; do
  if [ ! -d "$1/$part" ]; then
    echo "build_dawn.sh: $1 has no $part: want a checkout of Dawn with its submodules" >&2
    exit 1
  fi
done
python=$(python3 -c 'import jinja2, os; print(os.path.dirname(os.path.dirname(jinja2.__file__)))')
off=
for what in DAWN_ENABLE_NULL DAWN_ENABLE_WEBGPU_ON_WEBGPU DAWN_ENABLE_DESKTOP_GL DAWN_ENABLE_OPENGLES DAWN_USE_WAYLAND \
  DAWN_USE_X11 DAWN_USE_GLFW DAWN_BUILD_SAMPLES DAWN_BUILD_TESTS DAWN_BUILD_PROTOBUF DAWN_ENABLE_SPIRV_VALIDATION \
  TINT_BUILD_CMD_TOOLS TINT_BUILD_TESTS TINT_BUILD_SPV_READER TINT_BUILD_IR_BINARY TINT_BUILD_GLSL_VALIDATOR \
  TINT_BUILD_GLSL_WRITER TINT_BUILD_HLSL_WRITER TINT_BUILD_MSL_WRITER TINT_ENABLE_IR_DUMPING \
  TINT_ENABLE_IR_VALIDATION_ASSERTS; do
  off="$off -D$what=OFF"
done
# shellcheck disable=SC2086 # $off is many words
cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
  -DCMAKE_C_FLAGS_RELEASE='-O2 -DNDEBUG' -DCMAKE_CXX_FLAGS_RELEASE='-O2 -DNDEBUG' -DDAWN_BUILD_MONOLITHIC_LIBRARY=SHARED \
  -DDAWN_ENABLE_VULKAN=ON -DDAWN_JINJA2_DIR="$python" -DDAWN_MARKUPSAFE_DIR="$python" $off >&2
cmake --build "$2" --target webgpu_dawn -j "$(nproc)" >&2
echo "$2/src/dawn/native/libwebgpu_dawn.so"
