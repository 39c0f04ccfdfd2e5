#include "model/mix.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/text.h"

namespace sluice {
namespace {

using enum Format;
using enum MixWhen;

constexpr uint32_t kGrouped = 4;       // MixWhen::grouped holds from so many query heads a key-value head on
constexpr uint32_t kEightExperts = 8;  // Mixtral: its attention is small beside its experts

constexpr Mix kMixes[] = {
    {.name = "bf16", .own = bf16, .uniform = true},
    {.name = "f16", .own = f16, .uniform = true},
    {.name = "f32", .own = f32, .uniform = true},
    {.name = "q8_0", .own = q8_0, .uniform = true},
    {.name = "q4_0", .own = q4_0},
    {.name = "q4_1", .own = q4_1},
    {.name = "q5_0", .own = q5_0},
    {.name = "q5_1", .own = q5_1},
    {.name = "q2_k",
     .own = q2_k,
     .values = {grouped, q4_k, q3_k},
     .down = {always, q3_k},
     .attention_output = {always, q3_k},
     .eight_experts = true},
    {.name = "q2_k_s", .own = q2_k, .values = {grouped, q4_k}, .down = {first_8th, q4_k}},
    {.name = "q3_k_s", .own = q3_k, .eight_experts = true},
    {.name = "q3_k_m",
     .own = q3_k,
     .values = {first_2, q5_k, q4_k},
     .down = {first_16th, q5_k, q4_k},
     .attention_output = {always, q4_k},
     .eight_experts = true},
    {.name = "q3_k_l",
     .own = q3_k,
     .values = {always, q5_k},
     .down = {always, q5_k},
     .attention_output = {always, q5_k}},
    {.name = "q4_k_s", .own = q4_k, .values = {first_4, q5_k}, .down = {first_8th, q5_k}, .eight_experts = true},
    {.name = "q4_k_m", .own = q4_k, .values = {spread, q6_k}, .down = {spread, q6_k}, .eight_experts = true},
    {.name = "q5_k_s", .own = q5_k},
    {.name = "q5_k_m", .own = q5_k, .values = {spread, q6_k}, .down = {spread, q6_k}},
    {.name = "q6_k", .own = q6_k},
    {.name = "iq4_nl", .own = iq4_nl, .values = {grouped, q5_k}, .down = {first_8th, q5_k}, .eight_experts = true},
    {.name = "iq4_xs", .own = iq4_xs, .values = {grouped, q5_k}, .down = {first_8th, q5_k}, .eight_experts = true},
    {.name = "mxfp4_moe", .own = q8_0, .stacked = mxfp4},
};

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

bool is_vector(const std::vector<int64_t>& shape) {
  return shape.size() < 2 || std::all_of(shape.begin(), shape.end() - 1, [](int64_t n) { return n == 1; });
}

bool stays_f32(const MixTensor& tensor) {
  if (is_vector(tensor.shape) || !ends_with(tensor.name, ".weight") || ends_with(tensor.name, "_norm.weight"))
    return true;
  return contains(tensor.name, "ffn_gate_inp") || contains(tensor.name, "ssm_conv1d");
}

// Small matrices that the quantiser leaves in their format.
bool stays_as_stored(const MixTensor& tensor) {
  constexpr std::string_view kNames[] = {"per_layer_model_proj", "altup", "laurel"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return contains(tensor.name, name); });
}

// Whether `pattern` matches all of `text`: * stands for any characters, ? for one.
bool fits_glob(std::string_view pattern, std::string_view text) {
  size_t at = 0, star = std::string_view::npos, taken = 0;  // the text that the last star matches ends at `taken`
  for (size_t i = 0; i < text.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      taken = i;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[i])) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

enum class Kind : uint8_t { head, embedding, values, keys, attention_output, down, other };

Kind kind_of(const std::string& name, bool tied) {
  if (name == "output.weight") return Kind::head;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return tied ? Kind::head : Kind::embedding;
  for (const char* part : {"attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"})
    if (contains(name, part)) return Kind::values;
  if (contains(name, "attn_k.weight")) return Kind::keys;
  if (contains(name, "attn_output.weight")) return Kind::attention_output;
  return contains(name, "ffn_down") ? Kind::down : Kind::other;
}

// The layer in a tensor's name: 3 for "blk.3.attn_v.weight".
std::optional<uint32_t> layer_of(const std::string& name) {
  constexpr std::string_view kBlock = "blk.";
  if (!starts_with(name, kBlock)) return std::nullopt;
  const std::string_view rest = std::string_view(name).substr(kBlock.size());
  const auto layer = parse_integer(rest.substr(0, rest.find('.')));
  if (!layer || *layer < 0 || *layer > INT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(*layer);
}

// The first and the last eighth of the layers, and every third layer between.
bool is_spread(uint32_t i, uint32_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

// Chooses the format of each tensor, in the quantiser's order: by layer, then by name.
class Chooser {
 public:
  Chooser(const Mix& mix, const std::vector<MixTensor>& tensors, const MixFacts& facts) : mix_(mix), facts_(facts) {
    for (const MixTensor& tensor : tensors) tied_ &= tensor.name != "output.weight";
    for (const MixTensor& tensor : tensors) all_values_ += kind_of(tensor.name, tied_) == Kind::values;
  }

  Format next(const MixTensor& tensor) {
    const bool eight = facts_.experts == kEightExperts;
    switch (kind_of(tensor.name, tied_)) {
      case Kind::head: return head(tensor.shape.back());
      case Kind::embedding: return mix_.own;
      case Kind::values: {
        const Format chosen = pick(mix_.values, values_++, all_values_);
        return eight ? q8_0 : chosen;
      }
      case Kind::keys: return eight ? q8_0 : mix_.own;
      case Kind::attention_output:
        if (eight) return mix_.eight_experts ? q5_k : mix_.own;
        return pick(mix_.attention_output, 0, 0);
      case Kind::down: {
        const uint32_t index = down_++;
        return pick(mix_.down, facts_.experts > 1 ? layer_of(tensor.name).value_or(index) : index, facts_.layers);
      }
      case Kind::other: return mix_.own;
    }
    return mix_.own;
  }

 private:
  Format head(int64_t columns) const {
    if (columns % format_info(mix_.own).block_elements != 0) return q8_0;
    return mix_.own == q8_0 ? q8_0 : q6_k;
  }

  Format pick(const MixRule& rule, uint32_t i, uint32_t n) const {
    if (holds(rule.when, i, n)) return rule.then;
    return rule.otherwise == f32 ? mix_.own : rule.otherwise;
  }

  bool holds(MixWhen when, uint32_t i, uint32_t n) const {
    switch (when) {
      case never: return false;
      case always: return true;
      case first_2: return i < 2;
      case first_4: return i < 4;
      case first_16th: return i < n / 16;
      case first_8th: return i < n / 8;
      case spread: return is_spread(i, n);
      case grouped: return facts_.kv_heads != 0 && facts_.heads / facts_.kv_heads >= kGrouped;
    }
    return false;
  }

  const Mix& mix_;
  const MixFacts& facts_;
  bool tied_ = true;
  uint32_t all_values_ = 0, values_ = 0, down_ = 0;
};

// The format of a tensor that is not quantised: the source's if GGUF has it, else bf16.
Format as_stored(Format stored) { return format_info(stored).ggml_type >= 0 ? stored : bf16; }

Format smaller_blocks(Format format) {
  switch (format) {
    case iq4_xs: return iq4_nl;
    case q2_k:
    case q3_k: return q4_0;
    case q4_k: return q5_0;
    case q5_k: return q5_1;
    case q6_k: return q8_0;
    default: return format;
  }
}

}  // namespace

std::span<const Mix> all_mixes() { return kMixes; }

const Mix* find_mix(std::string_view name) {
  const auto found = std::ranges::find_if(kMixes, [&](const Mix& mix) { return mix.name == name; });
  return found == std::end(kMixes) ? nullptr : found;
}

std::string mix_names(const char* separator) {
  std::string names;
  for (const Mix& mix : kMixes) names += cat(names.empty() ? "" : separator, mix.name);
  return names;
}

Format format_of_rows(Format format, int64_t columns) {
  if (columns % format_info(format).block_elements == 0) return format;
  const Format smaller = smaller_blocks(format);
  return columns % format_info(smaller).block_elements == 0 ? smaller : f16;
}

Status apply_rules(const std::vector<FormatRule>& rules, const std::vector<MixTensor>& tensors,
                   std::vector<Format>& formats) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_vector(tensors[i].shape)) continue;
    const auto rule = std::ranges::find_if(rules, [&](const auto& r) { return fits_glob(r.pattern, tensors[i].name); });
    if (rule != rules.end()) formats[i] = format_of_rows(rule->format, tensors[i].shape.back());
  }
  for (const FormatRule& rule : rules) {
    const auto fits = [&](const auto& t) { return !is_vector(t.shape) && fits_glob(rule.pattern, t.name); };
    if (std::ranges::any_of(tensors, fits)) continue;
    return error(ErrorKind::invalid, printable(rule.pattern),
                 ": no matrix of the file has such a name: want one in GGUF's words, such as blk.0.attn_q.weight");
  }
  return {};
}

std::vector<Format> mix_formats(const Mix& mix, const std::vector<MixTensor>& tensors, const MixFacts& facts) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) {
    const auto layer = layer_of(tensors[i].name);
    return std::tuple(layer ? int64_t{*layer} : -1, std::string_view(tensors[i].name));
  });
  Chooser chooser(mix, tensors, facts);
  std::vector<Format> formats(tensors.size());
  for (const size_t i : order) {
    const MixTensor& tensor = tensors[i];
    if (stays_f32(tensor)) {
      formats[i] = f32;
    } else if (!mix.uniform && stays_as_stored(tensor)) {
      formats[i] = as_stored(tensor.stored);
    } else {
      const bool stacked = mix.stacked != f32 && tensor.shape.size() > 2 && tensor.shape[0] > 1;
      const Format chosen = mix.uniform ? mix.own : stacked ? mix.stacked : chooser.next(tensor);
      formats[i] = format_of_rows(chosen, tensor.shape.back());
    }
  }
  return formats;
}

}  // namespace sluice
