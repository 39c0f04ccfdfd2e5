#include "kernel_text.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/text.h"

namespace sluice::webgpu {
namespace {

using Words = std::vector<std::string_view>;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(std::string_view word) { return is_letter(word.front()); }

// Names, numbers and single signs; << and >> stay two signs, as in array<vec4<f32>>.
Words words_of(std::string_view text) {
  Words words;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    size_t end = at + 1;
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == ' ' || c == '\n') {
      ++at;
      continue;
    }
    if (is_letter(c)) {
      while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
    } else if (is_digit(c) || (c == '.' && end < text.size() && is_digit(text[end]))) {
      const auto goes_on = [&](size_t i) {
        const bool sign = (text[i] == '+' || text[i] == '-') && (text[i - 1] == 'e' || text[i - 1] == 'E') &&
                          text.substr(at, 2) != "0x";
        return is_letter(text[i]) || is_digit(text[i]) || text[i] == '.' || sign;
      };
      while (end < text.size() && goes_on(end)) ++end;
    }
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// Of WGSL (https://www.w3.org/TR/WGSL/): keywords, types and predeclared functions that our kernels use.
const std::set<std::string_view>& language() {
  static const std::set<std::string_view> names = {
      // keywords
      "break", "case", "const", "continue", "default", "else", "enable", "false", "fn", "for", "if", "let", "loop",
      "return", "struct", "switch", "true", "var", "while", "alias",
      // address spaces, accesses, attributes' values
      "function", "private", "workgroup", "storage", "uniform", "read", "read_write",
      // types
      "bool", "f16", "f32", "i32", "u32", "array", "atomic", "ptr", "vec2", "vec3", "vec4", "vec2f", "vec3f", "vec4f",
      "vec2h", "vec3h", "vec4h", "vec2i", "vec3i", "vec4i", "vec2u", "vec3u", "vec4u", "mat2x4f", "mat4x4f",
      // functions
      "abs", "all", "any", "atomicAdd", "atomicLoad", "atomicMax", "atomicMin", "atomicStore", "bitcast", "ceil",
      "clamp", "cos", "countOneBits", "countTrailingZeros", "dot", "dot4I8Packed", "dot4U8Packed", "exp", "exp2",
      "extractBits", "firstLeadingBit", "firstTrailingBit", "floor", "fma", "insertBits", "inverseSqrt", "log", "max",
      "min", "pack2x16float", "pack4xI8", "pow", "round", "select", "sign", "sin", "sqrt", "storageBarrier",
      "subgroupAdd", "subgroupAny", "subgroupMax", "subgroupShuffle", "subgroupShuffleXor", "tanh", "transpose",
      "trunc", "unpack2x16float", "unpack4xI8", "unpack4xU8", "workgroupBarrier", "workgroupUniformLoad",
      // after enable
      "subgroups", "chromium_experimental_subgroup_matrix",
      // with that extension
      "subgroup_matrix_left", "subgroup_matrix_right", "subgroup_matrix_result", "subgroupMatrixLoad",
      "subgroupMatrixMultiplyAccumulate", "subgroupMatrixStore", "col_major", "row_major"};
  return names;
}

// Words that WGSL keeps for itself (the same text, "Reserved Words").
const std::set<std::string_view>& reserved() {
  static const Words words = words_of(
      "NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become cast "
      "catch class co_await co_return co_yield coherent column_major common compile compile_fragment "
      "concept const_cast consteval constexpr constinit crate debugger decltype delete demote "
      "demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough filter "
      "final finally friend from fxgroup get goto groupshared highp impl implements import inline "
      "instanceof interface layout lowp macro macro_rules match mediump meta mod module move mut mutable "
      "namespace new nil noexcept noinline nointerpolation non_coherent noncoherent noperspective null "
      "nullptr of operator package packoffset partial pass patch pixelfragment precise precision premerge "
      "priv protected pub public readonly ref regardless register reinterpret_cast require resource "
      "restrict self set shared sizeof smooth snorm static static_assert static_cast std subroutine super "
      "target template this thread_local throw trait try type typedef typeid typename typeof union unless "
      "unorm unsafe unsized use using varying virtual volatile wgsl where with writeonly yield ");
  static const std::set<std::string_view> set(words.begin(), words.end());
  return set;
}

bool is_swizzle(std::string_view word) {
  return word.size() <= 4 && word.find_first_not_of("xyzwrgba") == std::string_view::npos;
}

struct Size {
  uint64_t bytes = 0, alignment = 4;
};
uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Module constants, structs and variables of a text.
class Module {
 public:
  explicit Module(std::string_view text) : words_(words_of(text)) {
    int depth = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      const std::string_view word = words_[i];
      if (word == "{" || word == "(") ++depth;
      if (word == "}" || word == ")") --depth;
      if (depth > 0) continue;
      if (word == "const" || word == "alias") constants_[at(i + 1)] = behind(i, "=");
      if (word == "struct") structs_[at(i + 1)] = i + 3;
      if (word == "var" && at(i + 2) == "workgroup") workgroup_.push_back(behind(i, ":"));
    }
  }

  const Words& words() const { return words_; }
  std::string_view at(size_t i) const { return i < words_.size() ? words_[i] : std::string_view(";"); }

  // Of a constant expression that begins there, until what does not belong to it.
  std::optional<uint64_t> value(size_t begin) const {
    size_t i = begin;
    return sum(i);
  }
  std::optional<uint64_t> workgroup_bytes() const {
    uint64_t all = 0;
    for (size_t begin : workgroup_) {
      const std::optional<Size> size = type(begin);
      if (!size) return std::nullopt;
      all += round_up(size->bytes, 16);
    }
    return all;
  }

 private:
  size_t behind(size_t i, std::string_view sign) const {
    while (i < words_.size() && words_[i] != sign && words_[i] != ";") ++i;
    return i + 1;
  }

  std::optional<uint64_t> sum(size_t& i) const {
    std::optional<uint64_t> left = product(i);
    while (left && (at(i) == "+" || at(i) == "-")) {
      const bool plus = at(i++) == "+";
      const std::optional<uint64_t> right = product(i);
      if (!right) return right;
      left = plus ? *left + *right : *left - *right;
    }
    return left;
  }
  std::optional<uint64_t> product(size_t& i) const {
    std::optional<uint64_t> left = factor(i);
    while (left && (at(i) == "*" || at(i) == "/" || at(i) == "%")) {
      const std::string_view sign = at(i++);
      const std::optional<uint64_t> right = factor(i);
      if (!right || (sign != "*" && *right == 0)) return std::nullopt;
      left = sign == "*" ? *left * *right : sign == "/" ? *left / *right : *left % *right;
    }
    return left;
  }
  std::optional<uint64_t> factor(size_t& i) const {
    const std::string_view word = at(i++);
    if (word == "(") {
      const std::optional<uint64_t> inside = sum(i);
      return at(i++) == ")" ? inside : std::nullopt;
    }
    if (is_digit(word.front())) {
      uint64_t number = 0;
      const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
      const std::string_view rest = word.substr(static_cast<size_t>(end - word.data()));
      return fault == std::errc() && (rest.empty() || rest == "u" || rest == "i") ? std::optional(number)
                                                                                  : std::nullopt;
    }
    if (word == "min" || word == "max") {
      if (at(i++) != "(") return std::nullopt;
      const std::optional<uint64_t> first = sum(i);
      if (at(i++) != ",") return std::nullopt;
      const std::optional<uint64_t> second = sum(i);
      if (at(i++) != ")" || !first || !second) return std::nullopt;
      return word == "min" ? std::min(*first, *second) : std::max(*first, *second);
    }
    const auto constant = constants_.find(word);
    return constant == constants_.end() ? std::nullopt : value(constant->second);
  }

  std::optional<Size> type(size_t i) const {
    size_t end = i;
    return type_of(end);
  }
  // Leaves i behind the type.
  std::optional<Size> type_of(size_t& i) const {
    static const std::map<std::string_view, Size> plain = {
        {"f16", {2, 2}},     {"bool", {4, 4}},    {"f32", {4, 4}},     {"u32", {4, 4}},
        {"i32", {4, 4}},     {"vec2f", {8, 8}},   {"vec2u", {8, 8}},   {"vec2i", {8, 8}},
        {"vec3f", {12, 16}}, {"vec3u", {12, 16}}, {"vec4f", {16, 16}}, {"vec4u", {16, 16}},
        {"vec4i", {16, 16}}, {"vec4h", {8, 8}},   {"vec2h", {4, 4}},   {"mat4x4f", {64, 16}}};
    const std::string_view word = at(i++);
    if (const auto found = plain.find(word); found != plain.end()) return found->second;
    if (word == "array" || word == "atomic") {
      if (at(i++) != "<") return std::nullopt;
      std::optional<Size> element = type_of(i);
      if (element && word == "array") {
        if (at(i++) != ",") return std::nullopt;
        const std::optional<uint64_t> count = sum(i);
        if (!count) return std::nullopt;
        element->bytes = round_up(element->bytes, element->alignment) * *count;
      }
      return at(i++) == ">" ? element : std::nullopt;
    }
    if (const auto alias = constants_.find(word); alias != constants_.end()) return type(alias->second);
    const auto fields = structs_.find(word);
    return fields == structs_.end() ? std::nullopt : struct_size(fields->second);
  }
  // name: type, ... }
  std::optional<Size> struct_size(size_t i) const {
    Size all;
    while (at(i) != "}") {
      i += 2;
      const std::optional<Size> field = type_of(i);
      if (!field) return field;
      all.bytes = round_up(all.bytes, field->alignment) + field->bytes;
      all.alignment = std::max(all.alignment, field->alignment);
      if (at(i) == ",") ++i;
    }
    all.bytes = round_up(all.bytes, all.alignment);
    return all;
  }

  Words words_;
  std::map<std::string_view, size_t> constants_, structs_;  // where their values, their fields begin
  std::vector<size_t> workgroup_;                           // where their types begin
};

class Checker {
 public:
  Checker(const PipelineText& text, const Adapter& adapter)
      : text_(text), adapter_(adapter), module_(text.wgsl), words_(module_.words()) {}

  std::vector<std::string> faults() {
    check_signs();
    check_names();
    check_bindings();
    check_entry();
    check_features();
    const std::optional<uint64_t> bytes = module_.workgroup_bytes();
    if (!bytes)
      fault("what its workgroup memory takes is not understood");
    else if (*bytes > adapter_.workgroup_bytes)
      fault(cat("takes ", *bytes, " bytes of workgroup memory: the adapter has ", adapter_.workgroup_bytes));
    return std::move(faults_);
  }

 private:
  void fault(std::string what) { faults_.push_back(std::move(what)); }

  void check_signs() {
    static constexpr std::string_view kSigns = "(){}[]<>.,;:=+-*/%&|^~!@";
    std::string open;
    for (const std::string_view word : words_) {
      const char c = word.front();
      if (is_name(word) || is_digit(c) || word.size() > 1) continue;
      if (kSigns.find(c) == std::string_view::npos) fault(cat("'", word, "' is left in the text"));
      if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      if (c != ')' && c != ']' && c != '}') continue;
      if (open.empty() || open.back() != c) return fault(cat("'", word, "' closes nothing"));
      open.pop_back();
    }
    if (!open.empty()) fault(cat("a '", open.back(), "' is missing"));
  }

  // Names are gathered from the whole text, whatever the scope they are declared in.
  void check_names() {
    std::set<std::string_view> known = language(), fields, of_module;
    int depth = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      const std::string_view word = words_[i];
      if (word == "{" || word == "(") ++depth;
      if (word == "}" || word == ")") --depth;
      std::string_view declared;
      if (word == "const" || word == "let" || word == "fn" || word == "struct" || word == "alias")
        declared = module_.at(i + 1);
      if (word == "var" && module_.at(i + 1) != "<") declared = module_.at(i + 1);
      if (word == "var" && module_.at(i + 1) == "<")
        declared = module_.at(std::ranges::find(words_.begin() + static_cast<ptrdiff_t>(i), words_.end(), ">") -
                              words_.begin() + 1);
      if (!declared.empty()) {
        known.insert(declared);
        if (depth == 0 && !of_module.insert(declared).second) fault(cat(declared, " is declared twice"));
      }
      if (is_name(word) && module_.at(i + 1) == ":") {
        known.insert(word);
        fields.insert(word);
      }
    }
    std::set<std::string_view> unknown;
    for (size_t i = 0; i < words_.size(); ++i) {
      const std::string_view word = words_[i], before = i == 0 ? std::string_view(";") : words_[i - 1];
      if (word == "diagnostic" && before == ";") {
        while (module_.at(i) != ";") ++i;  // names there are of rules
        continue;
      }
      if (!is_name(word) || before == "@" || is_builtin_value(i)) continue;
      if (reserved().contains(word)) fault(cat(word, " is a reserved word"));
      const bool is_known = before == "." ? is_swizzle(word) || fields.contains(word) : known.contains(word);
      if (!is_known) unknown.insert(word);
    }
    for (const std::string_view word : unknown) fault(cat("nothing declares ", word));
  }
  // @builtin(name)
  bool is_builtin_value(size_t i) const { return i >= 3 && words_[i - 2] == "builtin" && words_[i - 3] == "@"; }

  // @group(0) @binding(n) var<storage, access> name ...; behind them two uniform buffers.
  void check_bindings() {
    if (text_.storage.size() > kStorageBuffers)
      fault(cat(text_.storage.size(), " storage buffers: want at most ", kStorageBuffers));
    size_t next = 0;
    for (size_t i = 0; i + 12 < words_.size(); ++i) {
      if (words_[i] != "binding" || words_[i + 1] != "(") continue;
      if (words_[i + 2] != cat(next)) fault(cat("binding ", words_[i + 2], " is the one numbered ", next));
      const std::string_view space = words_[i + 6], access = words_[i + 8];
      const bool storage = next < text_.storage.size();
      if (space != (storage ? "storage" : "uniform")) fault(cat("binding ", next, " is of ", space));
      if (storage && access != (text_.storage[next] == Access::read ? "read" : "read_write"))
        fault(cat("binding ", next, " is ", access));
      ++next;
    }
    if (next != text_.storage.size() + 2) fault(cat(next, " bindings: want ", text_.storage.size() + 2));
  }

  void check_entry() {
    size_t entries = 0;
    for (size_t i = 1; i < words_.size(); ++i) {
      if (words_[i - 1] == "fn" && words_[i] == "main") ++entries;
      if (words_[i] != "workgroup_size") continue;
      const std::optional<uint64_t> threads = module_.value(i + 2);
      if (!threads || *threads == 0 || *threads > adapter_.workgroup_threads)
        fault(cat("workgroups of ", threads.value_or(0), " threads: the adapter has at most ",
                  adapter_.workgroup_threads));
      if (module_.at(i + 3) != ")" && module_.at(i + 4) != ")") fault("its workgroups are not understood");
    }
    if (entries != 1) fault(cat(entries, " functions main: want one"));
  }

  void check_features() {
    const auto uses = [&](auto&& is_it) { return std::ranges::any_of(words_, is_it); };
    const auto enables = [&](std::string_view feature) {
      for (size_t i = 1; i < words_.size(); ++i)
        if (words_[i - 1] == "enable" && words_[i] == feature) return true;
      return false;
    };
    const bool f16 = uses([](std::string_view word) { return word == "f16" || word == "vec4h" || word == "vec2h"; });
    const bool subgroups = uses([](std::string_view word) { return word.starts_with("subgroup") && word.size() > 9; });
    const bool matrices = uses([](std::string_view word) {
      return word.starts_with("subgroup_matrix_") || word.starts_with("subgroupMatrix");
    });
    if (matrices && !(enables("chromium_experimental_subgroup_matrix") && adapter_.matrices))
      fault("takes matrices of subgroups that are not there");
    if (f16 && !(enables("f16") && adapter_.f16)) fault("takes f16 that is not there");
    if (subgroups && !(enables("subgroups") && adapter_.subgroups)) fault("takes subgroups that are not there");
  }

  const PipelineText& text_;
  const Adapter& adapter_;
  const Module module_;
  const Words& words_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> faults_of(const PipelineText& text, const Adapter& adapter) {
  return Checker(text, adapter).faults();
}

std::optional<uint64_t> workgroup_bytes_of(const std::string& wgsl) { return Module(wgsl).workgroup_bytes(); }

}  // namespace sluice::webgpu
