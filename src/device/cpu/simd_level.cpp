#include "device/cpu/simd_level.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sluice {
namespace cpu {
namespace {

#if defined(__x86_64__)
constexpr std::array<SimdInfo, kSimdLevels> kLevels = {{
    {SimdLevel::scalar, "scalar", "scalar", &kScalarKernels},
    {SimdLevel::avx2, "avx2", "AVX2", &kAvx2Kernels},
    {SimdLevel::avx512, "avx512", "AVX-512", &kAvx512Kernels},
    {SimdLevel::avx512_vnni, "avx512vnni", "AVX-512 VNNI", &kAvx512VnniKernels},
}};

// __builtin_cpu_supports asks the system too, whether it keeps the wide registers.
bool supported(SimdLevel level) {
  switch (level) {
    case SimdLevel::scalar: return true;
    case SimdLevel::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    case SimdLevel::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case SimdLevel::avx512_vnni: return __builtin_cpu_supports("avx512vnni");
  }
  return false;
}
#else
// The names are known everywhere; elsewhere than on x86 only the first can be used.
constexpr std::array<SimdInfo, kSimdLevels> kLevels = {{
    {SimdLevel::scalar, "scalar", "scalar", &kScalarKernels},
    {SimdLevel::avx2, "avx2", "AVX2", nullptr},
    {SimdLevel::avx512, "avx512", "AVX-512", nullptr},
    {SimdLevel::avx512_vnni, "avx512vnni", "AVX-512 VNNI", nullptr},
}};

bool supported(SimdLevel level) { return level == SimdLevel::scalar; }
#endif

}  // namespace

const SimdInfo& simd_info(SimdLevel level) { return kLevels[static_cast<size_t>(level)]; }

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

SimdLevel widest_simd_level() {
  SimdLevel widest = SimdLevel::scalar;
  for (const cpu::SimdInfo& info : cpu::kLevels) {
    if (!cpu::supported(info.level)) break;
    widest = info.level;
  }
  return widest;
}

}  // namespace sluice
