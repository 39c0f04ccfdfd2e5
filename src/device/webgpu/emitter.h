// Emitter: turns a program's ops into dispatches for one token class. Each op has an overload of emit() beside its
// kernels (kernels/ops_*.cpp).
//
//   void Emitter::emit(const Softcap& op) {
//     Kernel kernel = elementwise("softcap", "fn element(i: u32) -> f32 { ... load(p.x + i) ... }", op.out);
//     kernel.params.push_back({"x", at(op.x)});
//     add(kernel);
//   }
//
// An `embed` of tokens has no dispatch, because the host decodes its rows. Several dispatches of an op run in the order
// of add().
#pragma once

#include <array>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "device/webgpu/formats/weight_format.h"
#include "device/webgpu/kernel.h"
#include "device/webgpu/kernels/matrix_tiles.h"
#include "device/webgpu/kernels/products.h"
#include "device/webgpu/layout.h"
#include "graph/fusion.h"
#include "graph/op.h"
#include "graph/op_check.h"

namespace sluice::webgpu {

// A dispatch of a kernel. Dispatches with equal kernel text share it.
struct Dispatch {
  uint32_t text = 0;  // in Dispatches::texts
  std::vector<Slot> slots{};
  std::vector<uint32_t> params{};
  Extent extent{};
  Grid grid{};
  uint32_t op = 0;
  bool of_present = false;  // computes the op's experts that have a slot in its table
};

// An op with streamed experts. Its table has a word for each expert: its slot, or kNone for an expert that must not be
// computed now. The host writes the table before each dispatch `of_present`.
struct StreamedExperts {
  uint32_t op = 0;
  uint32_t table = 0;  // a word of `memory`
};

struct Dispatches {
  std::vector<PipelineText> texts{};
  std::vector<Dispatch> list{};
  std::vector<StreamedExperts> streamed{};
  uint64_t scratch_words = 0;
};

struct TrainedLayout;
struct TrainedRun;
// The dispatches of trained factors; first_gradients leaves none of the gradients before.
enum class TrainedWork : uint8_t { first_gradients, add_gradients, sum_squares, update };
inline constexpr std::array kTrainedWorks = {TrainedWork::first_gradients, TrainedWork::add_gradients,
                                             TrainedWork::sum_squares, TrainedWork::update};
// The numbers of an update on the GPU, in their order.
inline constexpr std::array kTrainedStepNames = {"CLIP", "BETA1", "BETA2", "DECAY", "RATE", "ROOT", "EPS"};

// What a flag of the op says: the number of a result of it, and a row of that result. Of two such words the lower one
// has the earlier result.
struct LookedAt {
  uint32_t result = 0, row = 0;
  static constexpr uint32_t kRowBits = 28;
  uint32_t word() const { return (result << kRowBits) + row; }
  static LookedAt of(uint32_t word) {
    return {.result = word >> kRowBits, .row = word & ((uint32_t{1} << kRowBits) - 1)};
  }
};

// fn NAME(x: f32) -> f32; needs kMath.
std::string activation_text(ActivationKind kind, std::string_view name = "activate");

// The most results of a row, for which threads share the sums.
inline constexpr uint32_t kMostNarrow = 16;
// The most rows of a step in which workgroups of decode steps compute the same part of an adapter again, so that no
// dispatch is needed for it.
inline constexpr uint32_t kFewRows = 4;
// A row's sums of an adapter's first factor `a`, four or eight ranks at a time.
inline uint32_t fours_of(const WeightShape& a) { return static_cast<uint32_t>(divide_up(a.rows, 4)); }
inline uint32_t eights_of(const WeightShape& a) { return static_cast<uint32_t>(divide_up(a.rows, 8)); }
// Of workgroup memory, for the sums and reductions of a kernel of products.
inline constexpr uint64_t kOtherWorkgroupBytes = 3072;

// The runs that kernels compute as one dispatch. A workgroup keeps a row in its threads' registers, so rows have a
// bound. With more than outputs_of_rows outputs, recomputing the rows in every workgroup costs more than a dispatch.
inline constexpr FusionLimits kFusionLimits{.row_columns = 8192,
                                            .head_chains = 4,
                                            .attention = true,
                                            .linears = 4,
                                            .gated = true,
                                            .outputs_of_rows = 32768,
                                            .conv_parts = 4};
// Of training, whose steps multiply many rows at once; with matrix units or without.
constexpr FusionLimits training_limits(bool has_matrices) {
  return {.row_columns = kFusionLimits.row_columns,
          .head_chains = kFusionLimits.head_chains,
          .conv_parts = kFusionLimits.conv_parts,
          .finished = true,
          .joined = has_matrices};
}

class Emitter {
 public:
  // `runs`: runs of ops to fuse into one dispatch each, ascending; they outlive the emitter.
  Emitter(const PlanRequest& request, const Layout& layout, const Adapter& adapter, TokenClass token_class,
          std::span<const FusedRun> runs)
      : request_(request),
        program_(*request.program),
        layout_(layout),
        adapter_(adapter),
        class_(token_class),
        runs_(runs),
        readers_(program_) {}

  // Emits the whole program; call it once. `looking`: ops are not fused, and a kernel behind each op finds the first
  // row of its results that is not finite.
  Dispatches emit_all(bool looking);
  // kernels/trained_factors.cpp; of another emitter than emit_all().
  Dispatches emit_trained(TrainedWork work, const TrainedLayout& trained);

 private:
  SLUICE_OP_OVERLOADS(emit);

  // Emits a run, or its beginning, as one dispatch, and returns the op behind it. If this class has no such dispatch,
  // emits nothing.
  uint32_t emit_run(const FusedRun& run);
  bool emit_products_of(const FusedRun& run);  // false: they cannot be one dispatch
  bool emit_linears(const FusedRun& run);
  bool emit_finished(const FusedRun& run);
  bool emit_joined(const JoinedRun& run);  // ops_matrix_tiles.cpp
  bool emit_gated(const FusedRun& run);
  void emit_rows(uint32_t first_op, uint32_t end_op);
  void use_rows(Kernel& kernel, uint32_t first_op, uint32_t end_op, ValueId kept, uint32_t read_to);
  bool are_rows_of_fours(uint32_t first_op, uint32_t end_op) const;
  // Whether products of that shape can begin with the run that makes their rows.
  bool may_make_rows(const FusedRun& run, const ProductShape& shape, bool fours) const;
  void emit_heads(const FusedRun& run);
  bool may_take_fours(const HeadChain& chain) const;
  void emit_heads_in_fours(const HeadRun& heads);
  void emit_conv(const ConvRun& run);
  void use_gates(Kernel& kernel, const DeltaGates& op) const;  // write_gate(i), of element i of all rows
  class RowText;
  enum class ChainEnd : uint8_t { kept, stored, query };  // the result goes to the cache alone, to memory, to `query`
  void declare_chain(Kernel& kernel, const HeadChain& chain, uint32_t number) const;  // its constants and parameters
  std::string chain_text(Kernel& kernel, const HeadChain& chain, uint32_t number, ChainEnd end);
  void use_heads(Kernel& kernel, uint32_t width) const;  // adds the declarations that chain_text() needs
  struct Product {
    const Linear* op = nullptr;
    uint32_t tile = 0;  // of the op's matrix
  };
  // Rows of decode steps and wanted rows are multiplied one by one or a few at once.
  bool has_few_rows(const Extent& extent) const {
    return class_ == TokenClass::decode || (extent.symbol == Symbol::wanted && !request_.whole_sequences);
  }
  // `adapted`: the kernel adds the products' adapters as well.
  enum class Emitted : uint8_t { nothing, products, adapted };
  Emitted emit_products(std::span<const Product> products, const FusedRun& run, bool may_add_adapters = true);
  bool emit_gated(const FusedRun& run, const GatedRun& gated);
  bool emit_adapted_gated(const FusedRun& all, const GatedRun& run, std::span<const Linear* const> linears);
  static bool are_adapted(std::span<const Product> products);
  // kernels/adapted_products.cpp: adapters that the products' own kernel adds. A set is the products whose sums a
  // thread has at the same time: gate and up, or one product. The kernel has its binding of memory already.
  using AddedSets = std::vector<std::span<const Linear* const>>;
  struct AddedAdapters {
    AddedSets sets{};
    ProductShape shape{};
    bool of_row = false;            // the rows are in row_x
    uint32_t few_rows = 0;          // of a step in which every workgroup computes the sums of the first factors
    std::vector<uint32_t> parts{};  // by set: of the columns, in the dispatch before the product
    std::vector<uint32_t> inner{};  // by product: the word of these sums, for steps of more rows
  };
  // `defers`: it computes a x alone.
  bool adds_adapters(const AddedSets& sets, const Kernel& kernel, const ProductShape& shape, bool of_row,
                     bool defers = false) const;
  AddedAdapters added_adapters(const AddedSets& sets, const Kernel& kernel, const ProductShape& shape, bool of_row);
  // Emits the sums of the first factors in steps of more rows. `kernel` declares the products and make_row().
  void emit_inner_before(Kernel kernel, const AddedAdapters& added);
  // Declares what adapted_text() calls.
  void use_added(Kernel& kernel, const AddedAdapters& added) const;
  // Statements for row `r`: before it is made, between those of the products, and the outputs of each product that a
  // thread stores. `first_output`: of the products' tile.
  struct AdaptedText {
    std::string before{};
    AddedText between{};
    std::vector<std::string> sums{};
  };
  AdaptedText adapted_text(const AddedAdapters& added, size_t s, size_t first_product,
                           std::string_view first_output) const;
  std::string use_inner(Kernel& kernel, const AddedAdapters& added, bool is_before) const;
  // Declares inner_group(group_of_row, r, thread) of the workgroups that compute these sums for row `r`; returns how
  // many they are.
  uint32_t use_inner_groups(Kernel& kernel, const AddedAdapters& added) const;
  std::string outer_text(const Linear& op, size_t i) const;
  bool holds_b(const Linear& op) const;                          // a thread loads its row of b before it is needed
  uint32_t all_fours(std::span<const Linear* const> set) const;  // of ranks
  std::string factor_decoder(WeightId id, const std::string& name) const;  // declares NAME_sixteen(row, part)
  // Declares row_adapter(slots, scales, row), of the words of an operand's, has_adapter() of it, and for tiles
  // step_slot(n) and has_slot(slots, row, slot).
  void use_row_adapters(Kernel& kernel, uint32_t choices = 1) const;
  static void use_added_buffer(Kernel& kernel, uint32_t buffer);  // binds it as `added`, once
  // kernels/deferred_adapters.cpp: adapters of products whose results only the run behind them reads, to make its rows.
  // Workgroups of the product's own dispatch compute a x. In steps of few rows the run adds b (a x) to the results as
  // it reads them; in others a dispatch does.
  struct DeferredAdapter {
    const Linear* op = nullptr;
    uint32_t inner = 0;  // the word at which a x of row 0 begins
  };
  bool may_defer_adapter(const Linear& op) const;
  uint64_t deferred_words() const;  // the most that a product needs for a x
  AddedAdapters defer_adapter(const AddedSets& sets, const ProductShape& shape);
  void emit_deferred();                   // behind the product
  bool is_deferred(ValueId value) const;  // may lie without its adapter
  // Declares sum_deferred(row, thread, block) of such a value, and deferred(row, i, plain) of elements 4 i to 4 i + 3
  // of a row, to be called behind it. False: the value lies whole.
  bool use_deferred(Kernel& kernel, ValueId value, bool has_row_x) const;
  void use_deferred_sums(Kernel& kernel, const std::string& text) const;
  bool is_narrow(WeightId weight) const;
  bool is_narrowest(WeightId weight) const;
  // Declares finished(x, i) of element i of all results, or of as many as `x` has from i on: f32 or vec4f.
  void use_finish(Kernel& kernel, const Finishing& finish, const char* type) const;
  // Whether the kernels of such a product can finish its results.
  bool may_finish(const Linear& op) const;
  bool may_finish(const LinearTransposed& op) const;
  void emit_product(const Linear& op, const Finishing& finish);
  void emit_product(const LinearTransposed& op, const Finishing& finish);
  // narrow_products.cpp, of a weight with at most kMostNarrow rows, or columns if it is transposed, in one tile.
  struct NarrowProduct {
    WeightId weight = kNone;
    ValueId x = kNone;
    bool transposed = false;
  };
  void emit_narrow(const NarrowProduct& of, const Finishing& finish);
  void emit_transposed_tiles(const LinearTransposed& op, const Finishing& finish);
  uint32_t part_words(ValueId out) const;
  void emit_sum_of_parts(const char* name, const Finishing& finish, uint32_t parts, uint32_t sums);
  // Declares up_value(row, i), the other factor of a gated run that has only one product; needs OUTPUTS.
  void use_up_value(Kernel& kernel, const GatedRun& run) const;
  // ops_adapters.cpp: emits the adapters' products behind those of these linears, which all have the same x. `gated`:
  // the run to which the linears belong; its activation follows.
  void emit_adapters(std::span<const Linear* const> linears, const GatedRun* gated = nullptr);
  struct AdaptedProduct {
    AdapterOperand adapter{};  // or none
    uint32_t inner = 0;        // the word at which its inner sums begin
  };
  // The rows of products with adapters: those of `extent`, or the choices of experts that each of those has.
  struct AdaptedRows {
    Extent extent{};
    uint32_t x = 0, columns = 0;  // the word at which the first factor's rows begin
    uint32_t choices = 1;         // of a row
    bool own_x = false;           // each choice has a row of x
    ValueId index = kNone;        // the experts chosen; none: no experts
    uint32_t experts = 1;
  };
  // Takes scratch. `parts`: of each inner sum.
  AdaptedProduct adapted(const AdapterOperand& adapter, uint64_t rows, uint32_t parts = 1);
  void use_adapters(Kernel& kernel, std::span<const AdaptedProduct> products, const AdaptedRows& rows) const;
  // Binds the i-th product's second factor as b${i}; declares b${i}_sixteen(row, part) and B_ROWS_${i}.
  void use_second_factor(Kernel& kernel, size_t i, const AdaptedProduct& product) const;
  // Declares adapter_sum_${i}(row, output), output `output` of the i-th product's second factor.
  void use_adapter_sum(Kernel& kernel, size_t i, const AdaptedProduct& product) const;
  Dispatch& emit_adapter_inner(std::span<const AdaptedProduct> products, const AdaptedRows& rows);
  void emit_adapter_outer(std::span<const Linear* const> linears, std::span<const AdaptedProduct> products,
                          const AdaptedRows& rows, const GatedRun* gated);
  void emit_tiles(const Linear& op, uint32_t tile, const Finishing& finish);
  // ops_matrix_tiles.cpp. Whether fast arithmetic multiplies the weight by matrix units.
  bool has_matrix_tiles(WeightId weight) const;
  // Rows as halves (kernels/matrix_tiles.h). With `more`, each row of x is followed by the same row of that.
  struct Halves {
    Extent extent{};
    uint32_t x = 0, columns = 0;  // the word of row 0
    uint32_t more = 0, more_columns = 0;
    HalvesAt to{};
    uint32_t first_row = 0, end_row = ~uint32_t{0};
  };
  void emit_halves(const Halves& of);
  // Of all rows, before the op takes other scratch; with what joined_adapters() adds to them.
  HalvesAt emit_halves(ValueId x);
  HalvesAt scratch_for_halves(uint64_t rows, uint32_t words);  // of each row
  // `count` rows of a weight's tile as halves. With `more`, each of them is followed by the same row of that weight.
  // emit_transposed_halves() writes the tile's columns as rows instead: each has the numbers of those `count` rows, and
  // then those of all rows of `more`.
  struct WeightHalves {
    WeightId weight = kNone;
    uint32_t tile = 0;
    uint64_t first = 0, count = 0;
    uint32_t to = 0;
    WeightId more = kNone;
  };
  void emit_weight_halves(const WeightHalves& of);
  void emit_transposed_halves(const WeightHalves& of);
  // Rows of a weight that are halves at the same time, at most.
  uint64_t most_weight_rows(WeightId weight) const;
  bool is_by_matrices(const Linear& op) const;
  void emit_matrix_tiles(const Linear& op, const Finishing& finish);
  // kernels/adapted_tiles.cpp: adapters as further columns of products by matrix units. `first_block`: of a row's
  // blocks, the first of scale a x.
  struct JoinedAdapter {
    uint32_t op = 0;  // the linear
    uint32_t first_block = 0;
  };
  bool may_join_adapter(const Linear& op) const;
  // Of the linears from this op on that multiply these rows.
  std::vector<JoinedAdapter> joined_adapters(ValueId x) const;
  uint32_t added_words(std::span<const JoinedAdapter> joined) const;  // of a row of halves
  void emit_adapted_halves(const Halves& of, std::span<const JoinedAdapter> joined);
  void use_joined_adapter(Kernel& kernel, const AdapterOperand& adapter, uint32_t first_block) const;
  bool has_transposed_matrix_tiles(WeightId weight) const;
  void emit_matrix_transposed(const LinearTransposed& op, const Finishing& finish);
  // The products of rows, which are halves, with rows of a weight or its columns as rows, which are halves, too.
  struct MatrixProduct {
    const char* name = "matrix_tiles";
    Extent extent{};
    uint32_t first_row = 0, end_row = ~uint32_t{0};
    HalvesAt halves{};
    uint32_t weights = 0, weight_rows = 0;  // the word of row 0, and how many lie there
    uint32_t first_x = 0, depth = 0;        // the numbers that are multiplied; first_x is a multiple of kMatrixColumns
    uint32_t part = 0, part_words = 0;      // sums of so many of them each, a multiple as well, so many words apart
    uint32_t out = 0, out_columns = 0;      // the word of row 0
    uint32_t first_output = 0, outputs = 0;
    AdapterOperand adapter{};      // whose columns are joined, or none
    uint32_t first_added = 0;      // the first block of these
    Finishing finish{};            // without its `out`
    std::string finished{};        // in place of use_finish(): the text of finished(x: vec4f, i: u32)
    std::vector<Number> params{};  // for that text
  };
  void emit_matrix_product(const MatrixProduct& of);
  // How many of a sum's `depth` numbers a part of it has, where the product has too few tiles for a GPU; 0: there are
  // no parts.
  uint32_t part_of_sum(const Extent& extent, uint64_t outputs, uint32_t depth) const;
  // A product whose sums may have parts. Sets what `of` says of results and parts.
  void emit_summed_product(MatrixProduct of, const Finishing& finish);
  // Whether fast arithmetic multiplies the weight's integers.
  bool has_integers(WeightId weight) const;
  uint32_t scratch_for_integers(ValueId x);  // for emit_integers()
  Dispatch& emit_integers(ValueId x, uint32_t to);
  void emit_integer_tiles(const Linear& op, uint32_t tile, uint32_t integers);
  // The products of rows, which are integers, with a weight's integers or with columns that are integers in scratch.
  struct IntegerProduct {
    ValueId inputs = kNone;
    uint32_t integers = 0;  // the word at which the inputs' integers begin
    ValueId out = kNone;
    uint32_t first_output = 0, outputs = 0;  // of `out`, those of this dispatch
    std::optional<Binding> weight{};
    uint32_t columns = 0;  // the word at which columns begin, if there is no weight
    std::string snippets{};
  };
  void emit_integer_product(const IntegerProduct& of);
  // Whether fast arithmetic multiplies the weight's columns as integers.
  bool has_integer_columns(WeightId weight) const;
  void emit_integer_transposed(const LinearTransposed& op);
  struct ExpertsKernels;
  void emit_resident(const ExpertsKernels& kernels);
  void emit_streamed(const ExpertsKernels& kernels);

  void emit_check(ValueId id, uint32_t result);
  Dispatch& add(const Kernel& kernel);

  const ValueType& type(ValueId id) const { return program_.values[id].type; }
  uint32_t columns(ValueId id) const { return static_cast<uint32_t>(type(id).columns()); }
  uint32_t at(ValueId id) const { return layout_.at(id); }
  uint64_t most_rows(const Extent& extent) const;  // in any step
  // Takes words of scratch until the end of the op; returns their offset in `memory`.
  uint32_t scratch(uint64_t words);

  static Binding memory() { return {.name = "memory", .slot = {SlotKind::memory}, .access = Access::read_write}; }
  static Binding factors() { return {.name = "factors", .slot = {SlotKind::factors}, .element = "f32"}; }
  static Binding weight(const std::string& name, WeightId id, uint32_t tile) {
    return {.name = name, .slot = {SlotKind::weight, id, tile}, .element = kFours};
  }
  static Binding state(const std::string& name, uint32_t id, Access access, const char* element = "u32") {
    return {.name = name, .slot = {SlotKind::state, id}, .access = access, .element = element};
  }
  // The expert slots of one buffer.
  static Binding slots(const std::string& name, uint32_t buffer) {
    return {.name = name, .slot = {SlotKind::experts, buffer}, .element = kFours};
  }
  // The WGSL that decodes the binding `name`.
  std::string decoder(WeightId id, const std::string& name, Rows rows = Rows::at_begin) const;
  // The decoder with the weight's units, for products.
  std::string product_decoder(WeightId id, const std::string& name, Rows rows = Rows::at_begin) const;
  UnitShape units_of(WeightId id) const { return unit_shape(layout_.matrix(id).format); }

  // A kernel with one thread for each element of `out`. `element` defines element(i: u32) -> f32 for element i of all
  // rows of COLUMNS; p.out is declared.
  Kernel elementwise(const char* name, std::string element, ValueId out) const;
  // The same, for a result whose elements each depend on the same element of `operands` alone. A thread takes four
  // neighbours where all of them lie at multiples of four words. `part` defines part(i: u32) -> Part for the elements
  // from i on; Part is f32 or vec4f, load_part(at) -> Part loads as many, and p has the operands by name. With
  // `function`, its name followed by _part takes a Part in place of an f32.
  struct Operand {
    const char* name;
    ValueId value;
  };
  Kernel elementwise_by_parts(const char* name, const char* part, ValueId out, std::initializer_list<Operand> operands,
                              const char* function = nullptr) const;
  Kernel norm(const char* name, ValueId x, ValueId out, float eps) const;
  // Declares weighted(x, i), which multiplies by element i of the weight, if there is one.
  void use_weighted(Kernel& kernel, WeightId weight) const;
  // Declares share(at), element `at` of the shares; 1 if there are none.
  void use_shares(Kernel& kernel, ValueId shares) const;
  // Declares rows by their number, or NO_ROW.
  void use_index(Kernel& kernel, ValueId rows, ValueId index) const;
  // Declares step_row(row), the step's row of a row of the kernel's extent, and position() and sequence() of it. Rows
  // without positions stand for themselves.
  void use_step_rows(Kernel& kernel) const;
  // Declares first_row(i), the step's first row in its i-th sequence; if that has no rows, in the next one. Needs
  // use_step_rows() of rows with positions.
  static void use_sequence_rows(Kernel& kernel);
  // Binds the cache of a state as `cache`, and declares its widths, step rows and pages (ops_attention.cpp).
  void use_cache(Kernel& kernel, uint32_t state_id, Access access, const char* element = "u32") const;
  // Binds a slot state as `states`, and declares rows_before(row, most) and is_last(row) (ops_recurrent.cpp).
  // page_entry(sequence, i) for i = SLOT_READ, SLOT_WRITTEN or SLOT_ENTRIES + j is a slot or NO_SLOT.
  void use_slots(Kernel& kernel, uint32_t state_id) const;
  // Each head's matrix times that head's part of every row: out[row][head] = W[head] x[row][head]; or transposed W.
  struct HeadProduct {
    WeightId weight = kNone;
    bool transposed = false;
    Extent extent{};
    uint32_t x = 0, x_row = 0, x_head = 0;  // in words: begin, stride of rows, stride of heads
    uint32_t out = 0, out_row = 0, out_head = 0;
    uint32_t inputs = 0, outputs = 0;
    AdapterOperand adapter{};  // of W
  };
  void emit_head_product(const HeadProduct& product);
  uint32_t emit_head_inner(const HeadProduct& product);  // the first factor's sums; the word at which they begin
  void use_head_adapter(Kernel& kernel, const HeadProduct& product) const;
  // `queries`: the run that computes the queries, if they are not in memory.
  void emit_attention_in_parts(const Attention& op, const std::optional<HeadRun>& queries = {});
  void emit_attention_own(const Attention& op);  // of the step's own rows
  // Declares first_seen(row) and last_seen(row) of a row of the kernel's extent; with use_step_rows().
  void use_seen(Kernel& kernel, const Attention& op) const;
  void use_last_seen(Kernel& kernel, const Attention& op) const;  // of the two, last_seen(row) alone
  // Both are in ops_attention_tiles.cpp and return false if there is too little workgroup memory.
  bool emit_attention_tiles(const Attention& op);
  bool emit_own_attention_tiles(const Attention& op);  // of rows without positions
  // In ops_attention_matrices.cpp; false: no matrix units, or not for such rows.
  bool emit_own_attention_matrices(const Attention& op);
  // Heads of rows as halves, with their powers, and values of the same rows and heads without.
  struct HeadHalves {
    ValueId x = kNone;
    uint32_t heads = 1, width = 0;  // the last `width` columns of each head
    uint32_t to = 0;                // a word
    ValueId v = kNone;
    uint32_t value_width = 0, values = 0;
  };
  void emit_head_halves(const HeadHalves& of);
  struct AttentionShape {
    uint32_t heads = 1;  // of keys and values
    uint32_t key_words = 0, value_words = 0, per_word = 1;
    uint32_t queries = 0;  // of a tile
  };
  Kernel attention_tiles(const Attention& op, const AttentionShape& shape) const;
  // The choices of experts in a step, listed expert by expert (kernels/backward_products.cpp). Words of scratch.
  struct ChoiceLists {
    ValueId index = kNone;  // none: every row chooses all experts, and nothing is listed
    uint32_t experts = 1, chosen = 0;
    uint32_t lists = 0, firsts = 0, order = 0;
    uint32_t of_row() const { return index == kNone ? experts : chosen; }
  };
  ChoiceLists emit_choice_lists(ValueId index, uint32_t experts, uint32_t rows);
  static void use_choices(Kernel& kernel, const ChoiceLists& lists);
  struct ExpertProduct {
    WeightId weight = kNone;
    ValueId x = kNone, index = kNone, out = kNone;
    bool by_choice = false, transposed = false;
  };
  void emit_expert_product(const ExpertProduct& of);
  struct ScoreBlock;  // some queries and heads of an attention_backward (kernels/backward_attention.cpp)
  struct ScoreProduct;
  Kernel of_scores(const char* name, const ScoreBlock& block, const Extent& extent) const;
  void emit_seen(const ScoreBlock& block);
  void emit_score_product(const ScoreBlock& block, const ScoreProduct& of);
  void emit_shares(const ScoreBlock& block);
  struct LossBlock;  // some rows of a cross_entropy (kernels/backward_loss.cpp)
  struct LogitProduct;
  Kernel of_block(const char* name, const LossBlock& block, uint64_t times) const;
  void emit_logits(const LossBlock& block);
  void emit_logits(const LossBlock& block, const LogitProduct& of);
  template <class F>
  void for_each_of_vocabulary(const LossBlock& block, bool transposed, F&& emit);
  void emit_matrix_logits(const LossBlock& block);
  uint32_t emit_matrix_loss_products(const LossBlock& block);
  void emit_row_losses(const LossBlock& block);
  void emit_loss_product(const LossBlock& block, WeightId id, ValueId out, float factor);
  void emit_gradient_of_b(const LossBlock& block);
  static Kernel of_factors(const char* name, const TrainedLayout& trained, const TrainedRun& run, Access access);
  void emit_gradients(const TrainedLayout& trained, const TrainedRun& run, bool is_first);
  void emit_squares(const TrainedLayout& trained, const TrainedRun& run);
  void emit_update(const TrainedLayout& trained, const TrainedRun& run);
  // Declares page_of(sequence, position / 64), and page_entry(sequence, i) for slot groups.
  void use_pages(Kernel& kernel, uint32_t group) const;

  const PlanRequest& request_;
  const Program& program_;
  const Layout& layout_;
  const Adapter& adapter_;
  TokenClass class_;
  std::span<const FusedRun> runs_;
  Readers readers_;
  uint32_t op_ = 0;
  uint64_t scratch_taken_ = 0;  // of this op
  // The last product whose adapter another op adds. Its sums lie in one half of the first words of scratch, those of
  // the product before it in the other, because a run may read some and write others.
  DeferredAdapter deferred_{};
  uint64_t deferred_words_ = 0;  // of a half
  bool in_second_half_ = false;
  // Rows that an op wrote as halves.
  struct HalvedRows {
    ValueId x = kNone;
    uint32_t op = 0;  // the last one that used them
    HalvesAt at{};
    uint32_t row_words = 0;
    std::vector<JoinedAdapter> joined{};
  };
  HalvedRows halved_{};
  Dispatches dispatches_;
  std::map<std::string, uint32_t> by_text_;
};

}  // namespace sluice::webgpu
