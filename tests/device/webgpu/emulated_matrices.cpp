#include "emulated_matrices.h"

#include <regex>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/text.h"
#include "device/webgpu/dawn/host_dawn.h"
#include "device/webgpu/kernel.h"
#include "device/webgpu/webgpu.h"
#include "device/webgpu/wgsl_template.h"
#include "forwarding_host.h"
#include "library.h"
#include "tests/unwrap.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kOwn = R"(
const SUBGROUP: u32 = 32u;
var<private> own_thread: u32;
fn own_row() -> u32 { return own_thread % 32u / 2u; }
fn own_column() -> u32 { return own_thread % 2u * 8u; }
fn half_of(x: vec4u, i: u32) -> f32 { return unpack2x16float(x[i / 2u])[i % 2u]; }
)";
constexpr const char* kMultiply = R"(
fn multiply_matrices(a: Left, b: Right, c: Sums) -> Sums {
  var left = a;
  var right = b;
  var sums = c;
  for (var k = 0u; k < 16u; k++) {
    for (var j = 0u; j < 8u; j++) { sums[j] = fma(left[k], right[k * 8u + j], sums[j]); }
  }
  return sums;
}
)";
constexpr const char* kLoadLeft = R"(
fn load_Left_row_major_${array}(which: u32, at: u32, stride: u32) -> Left {
  var matrix = Left();
  for (var k = 0u; k < 16u; k++) {
    matrix[k] = half_of(${array}[which][at + own_row() * stride + k / 8u], k % 8u);
  }
  return matrix;
}
)";
constexpr const char* kLoadRight = R"(
fn load_Right_${order}_${array}(which: u32, at: u32, stride: u32) -> Right {
  var matrix = Right();
  for (var k = 0u; k < 16u; k++) {
    for (var j = 0u; j < 8u; j++) {
      let n = own_column() + j;
      matrix[k * 8u + j] = half_of(${array}[which][at + ${outer} * stride + ${inner} / 8u], ${inner} % 8u);
    }
  }
  return matrix;
}
)";
constexpr const char* kStore = R"(
fn store_${array}(which: u32, at: u32, sums: Sums, stride: u32) {
  let to = at + own_row() * stride + own_column() / 4u;
  ${array}[which][to] = bitcast<${element}>(vec4f(sums[0], sums[1], sums[2], sums[3]));
  ${array}[which][to + 1u] = bitcast<${element}>(vec4f(sums[4], sums[5], sums[6], sums[7]));
}
)";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Of a workgroup's array of arrays.
std::string element_of(const std::string& wgsl, const std::string& array) {
  std::smatch found;
  CHECK(std::regex_search(wgsl, found, std::regex(cat("var<workgroup> ", array, ": array<array<(vec4[uf]),"))));
  return found[1];
}

// The text of a kernel that uses matrices of subgroups of 32 threads, without them.
std::string without_matrices(const std::string& wgsl) {
  std::string text = wgsl;
  if (text.find("subgroup_matrix") == std::string::npos) return text;
  for (const char* line : {"enable f16;\n", "enable chromium_experimental_subgroup_matrix;\n",
                           "diagnostic(off, chromium.subgroup_matrix_uniformity);\n"})
    replace_all(text, line, "");
  replace_all(text, "subgroup_matrix_left<f16, 16, 16>", "array<f32, 16>");
  replace_all(text, "subgroup_matrix_right<f16, 16, 16>", "array<f32, 128>");
  replace_all(text, "subgroup_matrix_result<f32, 16, 16>", "array<f32, 8>");
  std::string emulation = cat(kOwn, kMultiply);
  replace_all(text, "subgroupMatrixMultiplyAccumulate(", "multiply_matrices(");

  const std::regex load(R"(subgroupMatrixLoad<(\w+), (\w+)>\(&(\w+)\[(\w+)\], ([^,]+), (\w+)\))");
  std::set<std::tuple<std::string, std::string, std::string>> loads;
  for (std::sregex_iterator one(text.begin(), text.end(), load), end; one != end; ++one)
    loads.insert({(*one)[1], (*one)[2], (*one)[3]});
  for (const auto& [type, order, array] : loads) {
    const bool by_rows = order == "row_major";
    CHECK(type == "Right" || (type == "Left" && by_rows));
    emulation +=
        type == "Left"
            ? fill(kLoadLeft, {{"array", array}})
            : fill(
                  kLoadRight,
                  {{"array", array}, {"order", order}, {"outer", by_rows ? "k" : "n"}, {"inner", by_rows ? "n" : "k"}});
  }
  text = std::regex_replace(text, load, "load_$1_$2_$3($4, $5, $6)");

  const std::regex store(R"(subgroupMatrixStore<row_major>\(&(\w+)\[(\w+)\], ([^,]+), (\w+), (\w+)\))");
  std::set<std::string> stores;
  for (std::sregex_iterator one(text.begin(), text.end(), store), end; one != end; ++one) stores.insert((*one)[1]);
  for (const std::string& array : stores)
    emulation += fill(kStore, {{"array", array}, {"element", element_of(text, array)}});
  text = std::regex_replace(text, store, "store_$1($2, $3, $4, $5)");

  const size_t main = text.find("fn main("), body = text.find("{\n", main);
  CHECK(main != std::string::npos && !std::regex_search(text, std::regex("subgroup[A-Z]")));
  text.insert(body + 2, "  own_thread = thread;\n");
  return text + with_loops_kept(emulation);
}

class EmulatingHost final : public ForwardingHost {
 public:
  EmulatingHost(std::unique_ptr<Host> host, const Adapter& adapter)
      : ForwardingHost(std::move(host)), adapter_(adapter) {}
  const Adapter& adapter() const override { return adapter_; }
  PipelineId pipeline(const PipelineText& text) override {
    PipelineText plain = text;
    plain.wgsl = without_matrices(text.wgsl);
    return ForwardingHost::pipeline(plain);
  }

 private:
  Adapter adapter_;
};

class EmulatingFactory final : public HostFactory {
 public:
  explicit EmulatingFactory(std::unique_ptr<HostFactory> factory)
      : factory_(std::move(factory)), adapter_(factory_->adapter()) {
    adapter_.matrices = true;
    adapter_.subgroups = false;
  }
  const Adapter& adapter() const override { return adapter_; }
  Result<std::unique_ptr<Host>> open() override {
    TRY(std::unique_ptr<Host> host, factory_->open());
    return std::unique_ptr<Host>(std::make_unique<EmulatingHost>(std::move(host), adapter_));
  }

 private:
  std::unique_ptr<HostFactory> factory_;
  Adapter adapter_;
};

}  // namespace

std::unique_ptr<HostFactory> with_emulated_matrices(std::unique_ptr<HostFactory> factory) {
  return std::make_unique<EmulatingFactory>(std::move(factory));
}

}  // namespace sluice::webgpu

namespace sluice {

std::unique_ptr<Device> webgpu_device_with_matrices() {
  if (webgpu_test_device() == nullptr) return nullptr;
  return make_webgpu_device(webgpu::with_emulated_matrices(unwrap(webgpu::find_dawn({webgpu_test_library()}))));
}

}  // namespace sluice
