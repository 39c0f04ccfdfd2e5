// Cases of the parity suite: small programs with the data and the steps to play them with. Each op brings its own
// (Op::cases), so that an op without cases does not compile; blocks have theirs here. They name no device.
//
// Data are drawn by (input or weight, sequence, position, take, column), never by row number, so that the suite may
// play the same rows in other batches and demand the same bits.
#pragma once

#include <string>
#include <vector>

#include "graph/recorder.h"
#include "graph/step.h"

namespace sluice {

// Numbers of an attention's inputs `first` and `last` (graph/ops/attention.h): the begin of every 50 positions and the
// end of the row's span, or of a picture's rows.
enum class RangeEnd : uint8_t { none, first, last };

// Uniform numbers in [low, high]; integers for i32.
struct Fill {
  float low = -1.0f;
  float high = 1.0f;
  uint32_t levels = 0;            // rounded to so many equally spaced values, for ties; 0: not
  bool distinct = false;          // i32: no number twice in a row
  RangeEnd end = RangeEnd::none;  // i32: what the row sees, in place of drawn numbers
  // i32: rows of values of that extent, and -1 now and then: of the same run, or of any where the symbol is another.
  // Ratio 0: not.
  Extent rows_of{.ratio = 0};
};

// Positions [first, end) of every sequence whose rows see to the last of them, as those of a picture do. A step has
// them all or none.
struct CaseSpan {
  uint32_t first = 0, end = 0;
};

struct CaseWeight {
  Format format{};
  Fill fill{};
};

// Rows of one sequence: positions [position, position + rows). Rows of another take have other data, as when a draft
// was rejected and its positions are written again.
struct CaseRun {
  uint32_t sequence = 0;
  uint32_t position = 0;
  uint32_t rows = 0;
  uint32_t take = 0;
};

// Adapters of every linear recorded from then on: the formats of both factors, and what the rows are scaled by. Rows
// draw their slots, none among them.
struct CaseAdapters {
  uint32_t slots = 3;
  uint32_t rank = 8;
  Format a = Format::f32;
  Format b = Format::f32;
  Fill scales = {.low = -0.5f, .high = 0.5f, .levels = 3};  // one of them 0
  std::vector<std::string> weights{};                       // empty: of every linear
  std::vector<std::string> embeddings{};
};

struct CaseStep {
  std::vector<CaseRun> runs{};        // of different sequences, in the order of the batch
  std::vector<int32_t> wanted{};      // rows of the step, ascending
  std::vector<CaseRun> media{};       // rows of the program's symbol beside rows and wanted: a run a picture or sound
  std::vector<SampleRow> sampling{};  // by wanted row; empty: greedy
  std::vector<Adjustment> adjustments{};
  std::vector<std::vector<uint32_t>> masks{};
};

struct OpCase {
  std::string name{};
  Program program{};
  std::vector<Fill> inputs{};         // by program input; "wanted" is the steps'
  std::vector<CaseWeight> weights{};  // by program weight
  std::vector<CaseSpan> spans{};
  uint32_t block = 0;             // rows of a picture or sound that see each other; 0: all of it
  bool whole_runs = false;        // a run's rows are to be in one step, because they see each other
  std::vector<CaseStep> steps{};  // played in this order
};

// Those of one op, or "blocks".
std::vector<OpCase> cases_of(std::string_view subject);
std::vector<std::string_view> case_subjects();
std::vector<OpCase> block_cases();

// Records a case.
class CaseBuilder {
 public:
  explicit CaseBuilder(std::string name) { case_.name = std::move(name); }

  Recorder& recorder() { return recorder_; }
  Value input(uint32_t width, uint32_t heads = 1, Fill fill = {}, Extent extent = {});
  Value integers(uint32_t width, Fill fill, Extent extent = {});
  Value wanted();  // the input "wanted"
  Weight weight(WeightShape shape, Format format = Format::f32, Fill fill = {});
  void output(Value value);
  void adapters(const CaseAdapters& adapters);

  // A step of these runs; every row is wanted when `wanted` is left out.
  void step(std::vector<CaseRun> runs);
  void step(std::vector<CaseRun> runs, std::vector<int32_t> wanted);
  void add_step(CaseStep step) { case_.steps.push_back(std::move(step)); }
  // A step for each count: so many rows of one sequence from position 0.
  void row_steps(const std::vector<uint32_t>& counts);
  // Steps of pictures alone: some, one, none.
  void media_steps();
  void spans(std::vector<CaseSpan> spans) { case_.spans = std::move(spans); }
  void block(uint32_t rows) { case_.block = rows; }
  void whole_runs() { case_.whole_runs = true; }
  OpCase done();

 private:
  void describe_adapters();  // inputs and weights that the recorder has declared for them

  OpCase case_;
  Recorder recorder_;
  CaseAdapters adapters_;
};

// One row, none, a few, and both sides of 64.
inline const std::vector<uint32_t> kRowCounts = {1, 0, 3, 17, 64, 65, 300};
inline const std::vector<uint32_t> kFewRows = {1, 0, 17};  // for ops that treat each element alone
// Most of them no multiple of anything.
inline const std::vector<uint32_t> kWidths = {1, 7, 33, 64, 100};
// Formats of weights whose elements are stored in blocks.
std::vector<Format> block_formats();

}  // namespace sluice
