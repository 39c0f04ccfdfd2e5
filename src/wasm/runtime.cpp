// What Debian's library of compiler helpers for wasm32 needs and nobody else has: it was built with a stack protector.
#include <cstdint>

extern "C" {
uintptr_t __stack_chk_guard = 0x57ac5;                      // NOLINT(bugprone-reserved-identifier)
[[noreturn]] void __stack_chk_fail() { __builtin_trap(); }  // NOLINT(bugprone-reserved-identifier)
}
