#include "model/adapters/adapter.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/files/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/contents.h"
#include "model/adapters/adapter_targets.h"
#include "model/adapters/mlx_config.h"
#include "model/adapters/peft_config.h"
#include "model/family.h"

namespace sluice {

// The libraries whose files are read.
enum class AdapterForm : uint8_t { peft, mlx, gguf };

namespace {

constexpr std::string_view kConfigName = "adapter_config.json";
constexpr std::string_view kFactorsName = "adapter_model.safetensors";
constexpr std::string_view kPickledName = "adapter_model.bin";
constexpr std::string_view kMlxFactorsName = "adapters.safetensors";
constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::string_view kBaseLayer = ".base_layer";
constexpr uint32_t kMaxRank = 4096;

// A factor's name, taken apart.
struct FactorName {
  std::string module;  // of PEFT: without its prefix; of GGUF: the tensor's name
  bool is_b = false;
  bool is_embedding = false;
};

std::optional<FactorName> factor_name(AdapterForm form, std::string_view name) {
  if (form != AdapterForm::peft) {
    const bool is_a = ends_with(name, ".lora_a");
    if (!is_a && !ends_with(name, ".lora_b")) return std::nullopt;
    name.remove_suffix(7);
    const bool is_embedding = form == AdapterForm::gguf
                                  ? name == "token_embd.weight"
                                  : starts_with(split(std::string(name), '.').back(), "embed_tokens");
    return FactorName{.module = std::string(name), .is_b = !is_a, .is_embedding = is_embedding};
  }
  if (starts_with(name, kPeftPrefix)) name.remove_prefix(kPeftPrefix.size());
  for (const auto& [mark, is_b, is_embedding] : {std::tuple(".lora_A", false, false),
                                                 {".lora_B", true, false},
                                                 {".lora_embedding_A", false, true},
                                                 {".lora_embedding_B", true, true}}) {
    const size_t at = name.rfind(mark);
    if (at == std::string_view::npos) continue;
    // Older versions name the adapter behind: ".lora_A.default.weight".
    const std::string_view rest = name.substr(at + std::string_view(mark).size());
    if (!rest.empty() && rest.front() != '.') continue;
    if (ends_with(rest, ".bias")) return std::nullopt;
    return FactorName{.module = std::string(name.substr(0, at)), .is_b = is_b, .is_embedding = is_embedding};
  }
  return std::nullopt;
}

// All rows of a stored tensor as one matrix.
TensorSource as_matrix(const Checkpoint& checkpoint, const StoredTensor& stored) {
  const auto columns = static_cast<uint32_t>(stored.shape.back());
  uint32_t rows = 1;
  for (size_t i = 0; i + 1 < stored.shape.size(); ++i) rows *= static_cast<uint32_t>(stored.shape[i]);
  const uint64_t bytes = row_bytes(stored.format, columns);
  return {.shape = {.experts = 1, .rows = rows, .columns = columns},
          .format = stored.format,
          .bytes = stored.bytes.data(),
          .expert_stride = rows * bytes,
          .row_stride = bytes,
          .owner = checkpoint.owner(stored)};
}

Format exact_format(Format stored) { return stored == Format::f16 || stored == Format::bf16 ? stored : Format::f32; }

Format common_format(Format one, Format other) { return one == other ? one : Format::f32; }

}  // namespace

// Reads an adapter: finds the weights that its factors are for, and checks their shapes.
class AdapterReader {
 public:
  AdapterReader(const Model& model, const std::string& path, Checkpoint checkpoint, AdapterForm form)
      : model_(model),
        path_(path),
        checkpoint_(std::move(checkpoint)),
        form_(form),
        targets_(model, checkpoint_.dialect()) {}

  void use(PeftConfig config) { config_ = std::move(config); }
  void use_alpha(float alpha) { alpha_ = alpha; }
  void use_scale(float scale) { scale_ = scale; }

  Result<std::shared_ptr<const Adapter>> read();

 private:
  using Pair = Adapter::Pair;
  struct FactorPair {
    const StoredTensor* a = nullptr;
    const StoredTensor* b = nullptr;
  };
  struct Key {
    std::string module;
    bool is_embedding = false;
    auto operator<=>(const Key&) const = default;
  };

  Status pair_factors();
  Status add(const Key& key, const FactorPair& factors);
  Status add_embedding(const std::string& module, const FactorPair& factors);
  Status add_to(const std::string& module, const std::vector<AdapterTarget>& targets, const FactorPair& factors,
                bool is_parameter = false);
  Status check_is_whole(const std::string& module, const std::vector<AdapterTarget>& targets) const;
  Result<bool> add_parameter(const std::string& module, const FactorPair& factors);
  Pair pair_of(const FactorPair& factors) const;
  std::optional<Pair> fit(const AdapterTarget& target, const FactorPair& factors) const;
  Status take(const WeightRow& row, bool is_embedding, Pair pair, float scale);
  float scale_of(const std::string& module, uint32_t rank) const;
  std::string digest() const;
  Error misfit(const std::string& module, const FactorPair& factors, const std::string& want) const;
  Error no_target(const std::string& module) const;
  // The model's name of a module's weight.
  std::string weight_of(const std::string& module) const {
    return form_ == AdapterForm::gguf ? module : module + ".weight";
  }

  const Model& model_;
  const std::string path_;
  const Checkpoint checkpoint_;
  const AdapterForm form_;
  const AdapterTargets targets_;
  std::optional<PeftConfig> config_;  // of PEFT
  float alpha_ = 0;                   // of GGUF; 0: the factors' product as it is
  float scale_ = 1;                   // of MLX
  std::map<Key, FactorPair> factors_;
  Adapter adapter_;
};

Error AdapterReader::no_target(const std::string& module) const {
  if (targets_.in_tower(weight_of(module)))
    return error(ErrorKind::unsupported, path_, ": changes ", printable(module),
                 " of a tower: want an adapter of the text model");
  return error(ErrorKind::invalid, path_, ": changes ", printable(module), ", which the model does not have: want an ",
               "adapter of this ", model_.facts().family, " model");
}

Error AdapterReader::misfit(const std::string& module, const FactorPair& factors, const std::string& want) const {
  return error(ErrorKind::invalid, path_, ": the factors of ", printable(module), " are ",
               format_shape(factors.a->shape), " and ", format_shape(factors.b->shape), ": want ", want);
}

Status AdapterReader::pair_factors() {
  for (const StoredTensor& tensor : checkpoint_.tensors()) {
    const std::optional<FactorName> name = factor_name(form_, tensor.name);
    if (!name) {
      const bool is_dora = tensor.name.find("lora_magnitude_vector") != std::string::npos;
      return error(ErrorKind::unsupported, path_, ": tensor ", printable(tensor.name), is_dora ? " is of DoRA" : "",
                   " is no factor of plain LoRA: want A and B alone");
    }
    const bool decodes = format_info(tensor.format).decodable;
    // GGUF has a matrix of one row without the dimension of its rows.
    const size_t dimensions = form_ == AdapterForm::gguf ? 1 : 2;
    if (!decodes || tensor.shape.size() < dimensions)
      return error(ErrorKind::unsupported, path_, ": ", printable(tensor.name), " is ", format_name(tensor.format), " ",
                   format_shape(tensor.shape), ": want a matrix of numbers");
    FactorPair& pair = factors_[{.module = name->module, .is_embedding = name->is_embedding}];
    const StoredTensor*& place = name->is_b ? pair.b : pair.a;
    if (place != nullptr)
      return error(ErrorKind::corrupt, path_, ": ", printable(place->name), " and ", printable(tensor.name),
                   " are the same factor: want one of them");
    place = &tensor;
  }
  for (const auto& [key, pair] : factors_) {
    if (pair.a != nullptr && pair.b != nullptr) continue;
    return error(ErrorKind::corrupt, path_, ": ", printable(key.module), " has one factor: want A and B");
  }
  if (factors_.empty()) return error(ErrorKind::invalid, path_, ": has no factors: want those of some weight");
  return {};
}

float AdapterReader::scale_of(const std::string& module, uint32_t rank) const {
  if (config_) return config_->scale(module, rank);
  if (form_ == AdapterForm::mlx) return scale_;
  return alpha_ == 0 ? 1.0f : alpha_ / static_cast<float>(rank);
}

Adapter::Pair AdapterReader::pair_of(const FactorPair& factors) const {
  const auto stored = [&](const StoredTensor* factor) {
    return static_cast<size_t>(factor - checkpoint_.tensors().data());
  };
  // Those of experts are not transposed (LoRASwitchLinear of mlx-lm).
  const auto is_transposed = [&](const StoredTensor* factor) {
    return form_ == AdapterForm::mlx && factor->shape.size() == 2;
  };
  return {.a = as_matrix(checkpoint_, *factors.a),
          .b = as_matrix(checkpoint_, *factors.b),
          .stored_a = stored(factors.a),
          .stored_b = stored(factors.b),
          .transposed_a = is_transposed(factors.a),
          .transposed_b = is_transposed(factors.b)};
}

// The pair for a target; none if the shapes do not fit it.
std::optional<Adapter::Pair> AdapterReader::fit(const AdapterTarget& target, const FactorPair& factors) const {
  const SourceName& source = *target.source;
  WeightShape shape = target.row->shape;
  if (source.transposed) std::swap(shape.rows, shape.columns);
  Pair pair = pair_of(factors);
  pair.first_row = source.first_row;
  pair.stored_rows = source.is_whole() ? shape.rows : source.total_rows;
  pair.experts = target.one_expert ? 1 : shape.experts;
  pair.expert = target.expert;
  pair.shares_a = source.one_matrix;
  pair.by_rank = form_ == AdapterForm::peft && !source.one_matrix && pair.experts > 1;
  pair.swapped = source.transposed;
  if ((source.transposed && !source.one_matrix) || target.expert >= shape.experts) return std::nullopt;
  WeightShape a = pair.a.shape, b = pair.b.shape;
  if (pair.transposed_a) std::swap(a.rows, a.columns);
  if (pair.transposed_b) std::swap(b.rows, b.columns);
  const uint32_t of_a = pair.shares_a ? 1 : pair.experts;
  if (pair.transposed_a != pair.transposed_b || (pair.transposed_a && of_a > 1)) return std::nullopt;
  if (a.rows == 0 || a.rows % of_a != 0) return std::nullopt;
  pair.rank = a.rows / of_a;
  const uint32_t b_rows = pair.by_rank ? pair.stored_rows : pair.stored_rows * pair.experts;
  const uint64_t b_columns = pair.by_rank ? uint64_t{pair.rank} * pair.experts : pair.rank;
  const bool fits = a.columns == shape.columns && b.rows == b_rows && b.columns == b_columns && pair.rank <= kMaxRank;
  return fits ? std::optional(pair) : std::nullopt;
}

Status AdapterReader::take(const WeightRow& row, bool is_embedding, Pair pair, float scale) {
  const auto same = [&](const AdaptedWeight& one) {
    return one.weight == row.name && one.is_embedding == is_embedding;
  };
  auto found = std::ranges::find_if(adapter_.weights_, same);
  Format a = exact_format(pair.a.format), b = exact_format(pair.b.format);
  if (pair.swapped) std::swap(a, b);
  if (found == adapter_.weights_.end()) {
    adapter_.weights_.push_back({.weight = row.name,
                                 .is_embedding = is_embedding,
                                 .shape = row.shape,
                                 .rank = pair.rank,
                                 .scale = scale,
                                 .a = a,
                                 .b = b});
    const bool ordered = checkpoint_.dialect() == Dialect::gguf;
    adapter_.stored_.push_back({.pairs = {},
                                .heads = row.gguf_ordered == ordered ? HeadOrder() : row.gguf_heads,
                                .to_gguf = row.gguf_ordered});
    adapter_.stored_.back().pairs.push_back(std::move(pair));
    return {};
  }
  std::vector<Pair>& pairs = adapter_.stored_[static_cast<size_t>(found - adapter_.weights_.begin())].pairs;
  const auto meets = [&](const Pair& other) {
    return pair.expert < other.expert + other.experts && other.expert < pair.expert + pair.experts;
  };
  if (std::ranges::any_of(pairs, meets))
    return error(ErrorKind::corrupt, path_, ": has two pairs of factors for ", row.name, ": want one");
  found->rank = std::max(found->rank, pair.rank);
  found->a = common_format(found->a, a);
  found->b = common_format(found->b, b);
  if (scale != found->scale) {
    pair.factor = scale / found->scale;
    (pair.swapped ? found->a : found->b) = Format::f32;
  }
  pairs.push_back(std::move(pair));
  return {};
}

// Whether the model has all rows of the matrix that is changed: a GGUF file may keep some of them transposed.
Status AdapterReader::check_is_whole(const std::string& module, const std::vector<AdapterTarget>& targets) const {
  uint32_t rows = 0;
  for (const AdapterTarget& target : targets)
    rows += target.source->transposed ? target.row->shape.columns : target.row->shape.rows;
  const SourceName& source = *targets.front().source;
  if (source.is_whole() || rows == source.total_rows) return {};
  return error(ErrorKind::unsupported, path_, ": changes ", printable(module),
               ", which this file of the model keeps in another form: want the model's Hugging Face directory");
}

Status AdapterReader::add_to(const std::string& module, const std::vector<AdapterTarget>& targets,
                             const FactorPair& factors, bool is_parameter) {
  TRY_STATUS(check_is_whole(module, targets));
  for (const AdapterTarget& target : targets) {
    std::optional<Pair> pair = fit(target, factors);
    if (!pair) {
      const WeightShape& shape = target.row->shape;
      const uint32_t rows = target.source->is_whole() ? shape.rows : target.source->total_rows;
      const std::string experts = shape.experts == 1 || target.one_expert ? "" : cat(" for each of ", shape.experts);
      const bool is_transposed = form_ == AdapterForm::mlx && experts.empty();
      return misfit(module, factors,
                    cat(is_transposed ? cat("[", shape.columns, ", rank] and [rank, ", rows, "]")
                                      : cat("[rank, ", shape.columns, "] and [", rows, ", rank]"),
                        experts, ", of rank 1 to ", kMaxRank));
    }
    const float scale = is_parameter ? config_->scale_of_parameter(module, pair->rank) : scale_of(module, pair->rank);
    TRY_STATUS(take(*target.row, false, *std::move(pair), scale));
  }
  return {};
}

// Rows of A by token: PEFT stores A as [rank, vocabulary], GGUF as [vocabulary, rank].
Status AdapterReader::add_embedding(const std::string& module, const FactorPair& factors) {
  if (form_ == AdapterForm::mlx)
    return error(ErrorKind::unsupported, path_, ": changes ", printable(module),
                 " in MLX's form: want PEFT's of an adapter of embeddings");
  const bool gguf = form_ == AdapterForm::gguf;
  const std::vector<AdapterTarget> targets = targets_.find(weight_of(module));
  if (targets.size() != 1 || !targets.front().source->is_whole()) return no_target(module);
  const WeightRow& row = *targets.front().row;
  Pair pair = pair_of(factors);
  pair.stored_rows = row.shape.columns;
  pair.transposed_a = gguf;
  pair.rank = gguf ? pair.a.shape.columns : pair.a.shape.rows;
  const uint32_t tokens = gguf ? pair.a.shape.rows : pair.a.shape.columns;
  const bool fits = tokens == row.shape.rows && pair.b.shape.rows == row.shape.columns &&
                    pair.b.shape.columns == pair.rank && pair.rank > 0 && pair.rank <= kMaxRank;
  if (!fits)
    return misfit(module, factors,
                  cat(gguf ? cat("[", row.shape.rows, ", rank]") : cat("[rank, ", row.shape.rows, "]"), " and [",
                      row.shape.columns, ", rank], of rank 1 to ", kMaxRank));
  const float scale = scale_of(module, pair.rank);
  return take(row, true, std::move(pair), scale);
}

// Fused experts are parameters without a module of their own. PEFT wraps their module once for each of them, so only
// the shapes of the factors tell which one they are for. False: the module has no such parameters.
Result<bool> AdapterReader::add_parameter(const std::string& module, const FactorPair& factors) {
  std::string owner = module;
  while (ends_with(owner, kBaseLayer)) owner.resize(owner.size() - kBaseLayer.size());
  const std::vector<std::string> parameters = targets_.parameters_of(owner);
  for (const std::string& parameter : parameters) {
    const std::vector<AdapterTarget> targets = targets_.find(parameter);
    if (!std::ranges::all_of(targets, [&](const AdapterTarget& one) { return fit(one, factors).has_value(); }))
      continue;
    TRY_STATUS(add_to(cat(owner, ".", split(parameter, '.').back()), targets, factors, /*is_parameter=*/true));
    return true;
  }
  if (parameters.empty()) return false;
  return misfit(module, factors, "those of the experts' fused weights");
}

Status AdapterReader::add(const Key& key, const FactorPair& factors) {
  if (key.is_embedding) return add_embedding(key.module, factors);
  const std::vector<AdapterTarget> targets = targets_.find(weight_of(key.module));
  if (!targets.empty()) return add_to(key.module, targets, factors);
  if (form_ == AdapterForm::peft) {
    TRY(const bool added, add_parameter(key.module, factors));
    if (added) return {};
  }
  return no_target(key.module);
}

std::string AdapterReader::digest() const {
  Sha256 sha;
  for (const AdaptedWeight& weight : adapter_.weights_)
    sha.add(cat(weight.weight, weight.is_embedding ? " embedding " : " product ", format_number(double{weight.scale}),
                "\n"));
  for (const Adapter::Stored& stored : adapter_.stored_)
    for (const Pair& pair : stored.pairs) sha.add(cat(format_number(double{pair.factor}), "\n"));
  sha.add(contents_of(checkpoint_, nullptr));
  return sha.finish_hex();
}

Result<std::shared_ptr<const Adapter>> AdapterReader::read() {
  adapter_.path_ = path_;
  TRY_STATUS(pair_factors());
  for (const auto& [key, factors] : factors_) TRY_STATUS(add(key, factors));
  for (const StoredTensor& tensor : checkpoint_.tensors())
    adapter_.files_.push_back({.name = tensor.name, .shape = tensor.shape, .source = as_matrix(checkpoint_, tensor)});
  adapter_.digest_ = digest();
  TRY_STATUS(checkpoint_.check_unchanged());
  return std::shared_ptr<const Adapter>(new Adapter(std::move(adapter_)));
}

namespace {

Status check_gguf(const Model& model, const Checkpoint& checkpoint) {
  const GgufMetadata& keys = checkpoint.metadata();
  const auto text = [&](const char* name) {
    const Result<std::string> value = keys.get_string(name);
    return value ? *value : std::string();
  };
  if (text("general.type") != "adapter" || text("adapter.type") != "lora") {
    return error(ErrorKind::unsupported, checkpoint.path(), ": is no LoRA adapter (general.type ",
                 printable(text("general.type")), "): want an adapter file of llama.cpp or a folder of PEFT or MLX");
  }
  if (const std::string architecture = text("general.architecture"); architecture != model.family().name)
    return error(ErrorKind::invalid, checkpoint.path(), ": is an adapter of ", printable(architecture),
                 ": want one of ", model.family().name);
  if (keys.find("adapter.alora.invocation_tokens") != nullptr)
    return error(ErrorKind::unsupported, checkpoint.path(), ": asks for activated LoRA: want plain LoRA");
  return {};
}

Result<std::shared_ptr<const Adapter>> open_gguf(const Model& model, const std::string& path) {
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  TRY_STATUS(check_gguf(model, checkpoint));
  TRY(const float alpha, checkpoint.metadata().get_f32("adapter.lora.alpha"));
  AdapterReader reader(model, path, std::move(checkpoint), AdapterForm::gguf);
  reader.use_alpha(alpha);
  return reader.read();
}

Result<std::shared_ptr<const Adapter>> open_mlx(const Model& model, const std::string& path, float scale) {
  const std::string factors_path = join_path(path, kMlxFactorsName);
  if (path_kind(factors_path) != PathKind::file)
    return error(ErrorKind::not_found, path, ": has no factors: want ", kMlxFactorsName);
  TRY(Checkpoint checkpoint, open_safetensors(factors_path));
  AdapterReader reader(model, path, std::move(checkpoint), AdapterForm::mlx);
  reader.use_scale(scale);
  return reader.read();
}

Result<std::shared_ptr<const Adapter>> open_folder(const Model& model, const std::string& path) {
  const std::string config_path = join_path(path, kConfigName), factors_path = join_path(path, kFactorsName);
  if (path_kind(config_path) != PathKind::file)
    return error(ErrorKind::not_found, path, ": has no ", kConfigName, ": want an adapter's folder or GGUF file");
  TRY(const std::string text, read_file(config_path, kMaxDocumentBytes));
  TRY(const Json json, parse_json(text, config_path));
  if (is_mlx_config(json)) {
    TRY(const float scale, mlx_scale(json, config_path));
    return open_mlx(model, path, scale);
  }
  TRY(PeftConfig config, PeftConfig::read(json, config_path));
  if (path_kind(factors_path) != PathKind::file) {
    const bool pickled = path_kind(join_path(path, kPickledName)) == PathKind::file;
    return error(pickled ? ErrorKind::unsupported : ErrorKind::not_found, path, ": ",
                 pickled ? "factors of PyTorch's pickle format" : "has no factors", ": want ", kFactorsName);
  }
  TRY(Checkpoint checkpoint, open_safetensors(factors_path));
  AdapterReader reader(model, path, std::move(checkpoint), AdapterForm::peft);
  reader.use(std::move(config));
  return reader.read();
}

}  // namespace

Result<std::shared_ptr<const Adapter>> Adapter::open(const Model& model, const std::string& path) {
  switch (path_kind(path)) {
    case PathKind::missing: return error(ErrorKind::not_found, path, ": no such adapter: want a folder or a GGUF file");
    case PathKind::directory: return open_folder(model, path);
    case PathKind::file: break;
    case PathKind::other: return error(ErrorKind::invalid, path, ": neither a file nor a directory");
  }
  if (ends_with(path, ".safetensors"))
    return error(ErrorKind::invalid, path, ": factors without their ", kConfigName, ": want the folder they lie in");
  return open_gguf(model, path);
}

uint32_t Adapter::rank() const {
  uint32_t most = 0;
  for (const AdaptedWeight& weight : weights_) most = std::max(most, weight.rank);
  return most;
}

namespace {

std::vector<float> decoded(const TensorSource& matrix) {
  std::vector<float> numbers(size_t{matrix.shape.rows} * matrix.shape.columns);
  for (uint32_t row = 0; row < matrix.shape.rows; ++row)
    decode_weight_row(matrix, 0, row, numbers.data() + size_t{row} * matrix.shape.columns);
  return numbers;
}

}  // namespace

std::vector<uint32_t> Adapter::order_of(const Stored& stored, uint32_t count) {
  if (stored.heads.groups == 1 || stored.heads.per_group == 1) return {};
  std::vector<uint32_t> order(count);
  // heads.source() leads from GGUF's order to Hugging Face's.
  for (uint32_t i = 0; i < count; ++i)
    if (stored.to_gguf)
      order[stored.heads.source(i)] = i;
    else
      order[i] = stored.heads.source(i);
  return order;
}

StoredFactor Adapter::stored(size_t tensor) const {
  return {.name = files_[tensor].name, .shape = files_[tensor].shape, .numbers = decoded(files_[tensor].source)};
}

// A number of a stored factor has an expert, a rank, and a column of A or a row of B.
Adapter::StoredSteps Adapter::steps_of(const Pair& pair, bool of_b, size_t columns) {
  if (of_b && pair.by_rank) return {.expert = 1, .rank = pair.experts, .number = columns};
  if (of_b && pair.transposed_b) return {.expert = pair.stored_rows, .rank = columns, .number = 1};
  if (of_b) return {.expert = pair.stored_rows * columns, .rank = 1, .number = columns};
  if (pair.transposed_a) return {.expert = 0, .rank = 1, .number = columns};
  return {.expert = pair.shares_a ? 0 : pair.rank * columns, .rank = columns, .number = 1};
}

// Of an embedding, a row of A belongs to a token, and B leads to the weight's columns.
AdapterFactors Adapter::embedding_factors(const AdaptedWeight& adapted, const Pair& pair) {
  const std::vector<float> a = decoded(pair.a), b = decoded(pair.b);
  AdapterFactors factors{.a = std::vector<float>(size_t{adapted.shape.rows} * adapted.rank),
                         .b = std::vector<float>(size_t{adapted.shape.columns} * adapted.rank)};
  for (const bool is_b : {false, true}) {
    const bool of_b = is_b != pair.swapped;
    const size_t columns = (of_b ? pair.b : pair.a).shape.columns;
    const StoredSteps steps = steps_of(pair, of_b, columns);
    const float* from = of_b ? b.data() + pair.first_row * columns : a.data();
    std::vector<float>& to = is_b ? factors.b : factors.a;
    for (size_t k = 0; k < pair.rank; ++k)
      for (size_t i = 0; i < to.size() / adapted.rank; ++i)
        to[i * adapted.rank + k] = from[k * steps.rank + i * steps.number] * (is_b ? pair.factor : 1.0f);
  }
  return factors;
}

Adapter::Run Adapter::run_of(const AdaptedWeight& adapted, const Stored& stored, const Pair& pair, bool is_b) const {
  const size_t rank = adapted.rank, rows = adapted.shape.rows, columns = adapted.shape.columns;
  const bool of_b = is_b != pair.swapped;
  const size_t tensor = of_b ? pair.stored_b : pair.stored_a, stored_columns = files_[tensor].source.shape.columns;
  const StoredSteps steps = steps_of(pair, of_b, stored_columns);
  const Run::Dimension experts{
      .count = pair.experts, .step = is_b ? rows * rank : rank * columns, .stored_step = steps.expert};
  const Run::Dimension ranks{.count = pair.rank, .step = is_b ? 1 : columns, .stored_step = steps.rank};
  Run::Dimension numbers{.count = is_b ? rows : columns, .step = is_b ? rank : 1, .stored_step = steps.number};
  Run run{.is_b = is_b,
          .index = pair.expert * experts.step,
          .tensor = tensor,
          .stored_index = of_b ? pair.first_row * steps.number : 0,
          .factor = of_b ? pair.factor : 1.0f};
  // Heads reorder the columns of A or the rows of B.
  if (is_b != stored.heads.columns) run.order = order_of(stored, static_cast<uint32_t>(numbers.count));
  numbers.in_order = !run.order.empty();
  // The stored numbers in their order, with dimensions of one number between the others.
  run.by = {experts, ranks, numbers};
  std::ranges::sort(run.by, std::greater(),
                    [](const Run::Dimension& one) { return one.count > 1 ? one.stored_step : 0; });
  const auto is_idle = [](const Run::Dimension& one) { return one.count == 1 || one.stored_step == 0; };
  if (is_idle(run.by[2])) std::swap(run.by[1], run.by[2]);
  if (is_idle(run.by[2])) std::swap(run.by[0], run.by[2]);
  if (run.by[0].stored_step == 0) std::swap(run.by[0], run.by[1]);
  return run;
}

std::vector<Adapter::Run> Adapter::runs(size_t weight) const {
  std::vector<Run> runs;
  for (const Pair& pair : stored_[weight].pairs)
    for (const bool is_b : {false, true}) runs.push_back(run_of(weights_[weight], stored_[weight], pair, is_b));
  return runs;
}

AdapterFactors Adapter::factors(size_t weight) const {
  const AdaptedWeight& adapted = weights_[weight];
  if (adapted.is_embedding) return embedding_factors(adapted, stored_[weight].pairs.front());
  const size_t experts = adapted.shape.experts;
  AdapterFactors factors{.a = std::vector<float>(experts * adapted.rank * adapted.shape.columns),
                         .b = std::vector<float>(experts * adapted.shape.rows * adapted.rank)};
  std::map<size_t, std::vector<float>> tensors;
  for (const Pair& pair : stored_[weight].pairs)
    for (const size_t tensor : {pair.stored_a, pair.stored_b})
      if (!tensors.contains(tensor)) tensors[tensor] = decoded(files_[tensor].source);
  for (const Run& run : runs(weight)) {
    const std::vector<float>& numbers = tensors.at(run.tensor);
    std::vector<float>& to = run.is_b ? factors.b : factors.a;
    run.each_line(0, run.by[0].count, [&](const Run::Line& line) {
      line.each([&](size_t at, size_t stored_at) { to[at] = run.factor * numbers[stored_at]; });
    });
  }
  return factors;
}

}  // namespace sluice
