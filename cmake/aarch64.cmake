# Toolchain of the aarch64 preset: Debian's clang-19 with the C and C++ libraries of its cross compiler (g++ 12 itself
# writes constants of bf16 wrongly). Programs are static and run under qemu's emulation of one process.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_AR llvm-ar-19)
set(CMAKE_RANLIB llvm-ranlib-19)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -fuse-ld=lld")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu max)
