#include "device/cpu/simd_level.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace sluice {
namespace cpu {
namespace {

// Every kind of processor knows all names. Levels of other kinds have no kernels.
#if defined(SLUICE_AVX2_ONLY)
constexpr const Kernels *kAvx2 = &kAvx2Kernels, *kAvxVnni = nullptr, *kAvx512 = nullptr, *kAvx512Vnni = nullptr,
                        *kAmx = nullptr;
constexpr const Bf16Kernels *kAvx512Bf16 = nullptr, *kAmxBf16 = nullptr;
#elif defined(__x86_64__)
constexpr const Kernels *kAvx2 = &kAvx2Kernels, *kAvxVnni = &kAvxVnniKernels, *kAvx512 = &kAvx512Kernels,
                        *kAvx512Vnni = &kAvx512VnniKernels, *kAmx = &kAmxKernels;
constexpr const Bf16Kernels *kAvx512Bf16 = &kAvx512Bf16Kernels, *kAmxBf16 = &kAmxBf16Kernels;
#else
constexpr const Kernels *kAvx2 = nullptr, *kAvxVnni = nullptr, *kAvx512 = nullptr, *kAvx512Vnni = nullptr,
                        *kAmx = nullptr;
constexpr const Bf16Kernels *kAvx512Bf16 = nullptr, *kAmxBf16 = nullptr;
#endif
#if defined(__wasm_simd128__)
constexpr const Kernels* kSimd128 = &kSimd128Kernels;
#else
constexpr const Kernels* kSimd128 = nullptr;
#endif
#if defined(__aarch64__)
constexpr const Kernels *kNeon = &kNeonKernels, *kNeonI8mm = &kNeonI8mmKernels;
#else
constexpr const Kernels *kNeon = nullptr, *kNeonI8mm = nullptr;
#endif

// docs/cpu.md says where and when each was proven.
constexpr bool kProven = true, kEmulated = false;
constexpr std::array<SimdInfo, kSimdLevels> kLevels = {{
    {SimdLevel::scalar, "scalar", "scalar", &kScalarKernels, nullptr, kProven},
    {SimdLevel::avx2, "avx2", "AVX2", kAvx2, nullptr, kProven},
    {SimdLevel::avx_vnni, "avxvnni", "AVX2, VNNI", kAvxVnni, nullptr, kProven},
    {SimdLevel::avx512, "avx512", "AVX-512", kAvx512, nullptr, kProven},
    {SimdLevel::avx512_vnni, "avx512vnni", "AVX-512 VNNI", kAvx512Vnni, nullptr, kProven},
    {SimdLevel::avx512_bf16, "avx512bf16", "AVX-512 VNNI, BF16", kAvx512Vnni, kAvx512Bf16, kProven},
    {SimdLevel::amx, "amx", "AVX-512 VNNI, BF16, AMX", kAmx, kAmxBf16, kProven},
    {SimdLevel::simd128, "simd128", "SIMD128", kSimd128, nullptr, kProven},
    {SimdLevel::neon, "neon", "NEON with dot products", kNeon, nullptr, kEmulated},
    {SimdLevel::neon_i8mm, "neon_i8mm", "NEON with dot products, I8MM", kNeonI8mm, nullptr, kEmulated},
}};

#if defined(__x86_64__)
// Linux lets a process use the tile registers only after one request.
bool tiles_are_ours() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}
bool has_avx_vnni() {
  constexpr unsigned kVnni = 1u << 4;  // of leaf 7's second part
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kVnni) != 0;
}
bool has_amx() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;  // of leaf 7
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kBf16) != 0 && (edx & kTile) != 0 &&
         (edx & kInt8) != 0 && tiles_are_ours();
}

constexpr unsigned kFamilyOfZen5 = 0x1a;
unsigned processor_family() {
  unsigned version = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &version, &ebx, &ecx, &edx) == 0) return 0;
  const unsigned family = version >> 8 & 0xf;
  return family == 0xf ? family + (version >> 20 & 0xff) : family;
}

// __builtin_cpu_supports also checks that the system saves the wide registers.
bool supported(SimdLevel level) {
  switch (level) {
    case SimdLevel::scalar: return true;
    case SimdLevel::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    case SimdLevel::avx_vnni: return has_avx_vnni();
    case SimdLevel::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case SimdLevel::avx512_vnni: return __builtin_cpu_supports("avx512vnni");
    case SimdLevel::avx512_bf16: return __builtin_cpu_supports("avx512bf16");
    case SimdLevel::amx: return has_amx();
    default: return false;
  }
}
#elif defined(__aarch64__)
bool supported(SimdLevel level) {
  switch (level) {
    case SimdLevel::scalar: return true;
    case SimdLevel::neon: return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    case SimdLevel::neon_i8mm: return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
    default: return false;
  }
}
#else
// A module with SIMD128 only starts if the host supports it.
bool supported(SimdLevel level) { return level == SimdLevel::scalar || level == SimdLevel::simd128; }
#endif

}  // namespace

const SimdInfo& simd_info(SimdLevel level) { return kLevels[static_cast<size_t>(level)]; }

bool reads_ahead() {
#if defined(__x86_64__)
  static const bool gains = [] {
    unsigned leaf = 0, first = 0, third = 0, second = 0;
    if (__get_cpuid(0, &leaf, &first, &third, &second) == 0) return false;
    if (first == signature_INTEL_ebx && second == signature_INTEL_edx && third == signature_INTEL_ecx) return true;
    return first == signature_AMD_ebx && second == signature_AMD_edx && third == signature_AMD_ecx &&
           processor_family() >= kFamilyOfZen5;
  }();
  return gains;
#else
  return false;
#endif
}

std::string processor_name() {
#if defined(__x86_64__)
  std::array<unsigned, 12> brand{};  // 48 bytes of text in three leaves
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned* words = &brand[size_t{4} * leaf];
    if (__get_cpuid(0x80000002 + leaf, words, words + 1, words + 2, words + 3) == 0) return "x86-64";
  }
  const auto* text = reinterpret_cast<const char*>(brand.data());
  std::string name(text, strnlen(text, sizeof(brand)));
  while (!name.empty() && name.back() == ' ') name.pop_back();
  return name.substr(std::min(name.find_first_not_of(' '), name.size()));
#elif defined(__aarch64__)
  return "AArch64";
#elif defined(__wasm__)
  return "WebAssembly";
#else
  return "processor";
#endif
}

}  // namespace cpu

const char* simd_name(SimdLevel level) { return cpu::simd_info(level).name; }

Result<SimdLevel> parse_simd_level(std::string_view name) {
  std::string known;
  for (const cpu::SimdInfo& info : cpu::kLevels) {
    if (name == info.name) return info.level;
    known += cat(known.empty() ? "" : ", ", info.name);
  }
  return error(ErrorKind::invalid, "instruction set: found ", name, ": want one of ", known);
}

const std::vector<SimdLevel>& simd_levels() {
  static const std::vector<SimdLevel> here = [] {
    std::vector<SimdLevel> levels;
    levels.reserve(kSimdLevels);
    for (const cpu::SimdInfo& info : cpu::kLevels) {
      if (info.kernels == nullptr) continue;
      if (cpu::supported(info.level))
        levels.push_back(info.level);
      else if (info.level != SimdLevel::avx_vnni)  // AVX-512 may be there without it
        break;
    }
    return levels;
  }();
  return here;
}

bool simd_proven(SimdLevel level) { return cpu::simd_info(level).proven; }

SimdLevel default_simd_level() {
  SimdLevel widest = SimdLevel::scalar;
  for (const SimdLevel level : simd_levels())
    if (simd_proven(level)) widest = level;
  return widest;
}

}  // namespace sluice
