# Toolchain of the wasm preset: Debian's clang-19 with its wasm32 C and C++ libraries. No exceptions: Debian has no
# unwinder for wasm. No relaxed SIMD: there a product may be fused or not, as the engine likes.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_AR llvm-ar-19)
set(CMAKE_RANLIB llvm-ranlib-19)
set(CMAKE_CXX_FLAGS_INIT "-fno-exceptions -fno-rtti -msimd128")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-mexec-model=reactor")
