// Parity cases of rope, append, attention and expand.
#include <algorithm>
#include <cmath>

#include "graph/cases.h"

namespace sluice {
namespace {

RopeDecl turning(uint32_t pairs, float base, Pairing pairing) {
  RopeDecl rope{.pairing = pairing};
  for (uint32_t i = 0; i < pairs; ++i)
    rope.inverse_frequencies.push_back(std::pow(base, -static_cast<float>(i) / static_cast<float>(pairs)));
  return rope;
}

OpCase rope_case(const std::string& name, uint32_t heads, uint32_t width, const RopeDecl& table, uint32_t first = 0) {
  CaseBuilder c(
      cat(name, ", ", heads, " heads of ", width, ", ", table.inverse_frequencies.size(), " pairs from ", first));
  const Value x = c.input(width, heads);
  const Value few = gather(x, c.wanted());
  c.output(rope(x, c.recorder().rope_table(table), first));
  c.output(rope(few, c.recorder().rope_table(table), first));
  c.row_steps(kRowCounts);
  c.step({{.sequence = 1, .position = 1000, .rows = 3}, {.sequence = 0, .position = 131071, .rows = 1}}, {1, 3});
  c.step({{.sequence = 1, .position = 65, .rows = 70}}, {});
  return c.done();
}

// Pairs that turn by one column of the coordinates after another.
RopeDecl turning_by(Value coordinates, uint32_t axes, uint32_t pairs) {
  RopeDecl rope = turning(pairs, 1e4f, Pairing::halves);
  rope.coordinates = coordinates.id;
  for (uint32_t i = 0; i < pairs; ++i) rope.axes.push_back(i % axes);
  return rope;
}

// Time, height and width of a row of text; some of its rows are wanted.
OpCase text_coordinates_case() {
  CaseBuilder c("three coordinates of text");
  const Value x = c.input(34, 3);
  const RopeDecl by = turning_by(c.integers(3, {.low = 0, .high = 5000}), 3, 11);
  c.output(rope(x, c.recorder().rope_table(by)));
  c.output(rope(x, c.recorder().rope_table(turning(11, 1e4f, Pairing::halves))));
  c.output(rope(gather(x, c.wanted()), c.recorder().rope_table(by), 5));
  c.row_steps({1, 0, 17});
  c.step({{.sequence = 1, .position = 1000, .rows = 3}, {.sequence = 0, .position = 9, .rows = 1}}, {1, 3});
  return c.done();
}

// Row and column of a patch, in rows of no position.
OpCase picture_coordinates_case(uint32_t ratio, uint32_t axes) {
  CaseBuilder c(cat(axes, " coordinates of ", ratio, " patches a row"));
  const Extent extent{Symbol::media_rows, ratio};
  const Value x = c.input(33, 2, {}, extent);
  RopeDecl by = turning_by(c.integers(axes, {.low = 0, .high = 120}, extent), axes, 8);
  c.output(rope(x, c.recorder().rope_table(by)));
  std::ranges::reverse(by.axes);
  by.pairing = Pairing::adjacent;
  by.magnitude = 0.75f;
  c.output(rope(x, c.recorder().rope_table(by), 16));
  c.media_steps();
  return c.done();
}

struct Shape {
  uint32_t heads = 1, kv_heads = 1, key_width = 16, value_width = 16;
};

struct Layer {
  Value q;
  State kv;
};

// q, k and v are inputs, so that append and attention are alone.
Layer layer(CaseBuilder& c, const std::string& name, const Shape& shape, uint32_t window, Fill fill = {}) {
  const State empty = c.recorder().paged_state(name, shape.kv_heads, shape.key_width, shape.value_width, window);
  const Value q = c.input(shape.key_width, shape.heads, fill);
  const Value k = c.input(shape.key_width, shape.kv_heads, fill);
  const Value v = c.input(shape.value_width, shape.kv_heads, fill);
  return {.q = q, .kv = append(empty, k, v)};
}

// One sequence: a prompt over two page borders in chunks of 64, then single tokens.
void chunked_steps(CaseBuilder& c) {
  c.step({{.position = 0, .rows = 64}});
  c.step({{.position = 64, .rows = 64}});
  c.step({{.position = 128, .rows = 27}});
  c.step({{.position = 155, .rows = 1}});
  c.step({{.position = 156, .rows = 1}});
}

// Three sequences of unequal length that come and go.
void ragged_steps(CaseBuilder& c) {
  c.step({{.sequence = 0, .rows = 70}, {.sequence = 1, .rows = 3}, {.sequence = 2, .rows = 130}});
  c.step({{.sequence = 2, .position = 130, .rows = 1},
          {.sequence = 0, .position = 70, .rows = 1},
          {.sequence = 1, .position = 3, .rows = 1}});
  c.step({{.sequence = 1, .position = 4, .rows = 61}});
  c.step({{.sequence = 0, .position = 71, .rows = 2}, {.sequence = 1, .position = 65, .rows = 4}}, {1, 5});
  c.step({{.sequence = 2, .position = 131, .rows = 17}}, {});
  c.step({}, {});
}

// Few rows of two sequences, for what costs the reference device much a row.
void few_steps(CaseBuilder& c) {
  c.step({{.sequence = 0, .rows = 9}, {.sequence = 1, .rows = 3}});
  c.step({{.sequence = 1, .position = 3, .rows = 1}, {.sequence = 0, .position = 9, .rows = 1}});
  c.step({{.sequence = 1, .position = 4, .rows = 5}}, {1, 4});
}

// Many tiles: a long prompt whose end is no border, then its tail, a token and a border itself.
void deep_steps(CaseBuilder& c) {
  c.step({{.position = 0, .rows = 568}}, {300, 567});
  c.step({{.position = 568, .rows = 7}}, {6});
  c.step({{.position = 575, .rows = 1}}, {0});
  c.step({{.position = 576, .rows = 1}}, {});
}
const char* steps_name(void (*steps)(CaseBuilder&)) {
  return steps == chunked_steps ? ", chunked"
         : steps == deep_steps  ? ", deep"
         : steps == few_steps   ? ", few"
                                : ", ragged";
}

struct AttentionCase {
  const char* name;
  Shape shape;
  AttentionOptions options;
  void (*steps)(CaseBuilder&);
  Fill fill{};
};

OpCase attention_case(const AttentionCase& one) {
  CaseBuilder c(cat(one.name, ", ", one.shape.heads, " heads on ", one.shape.kv_heads, " of ", one.shape.key_width,
                    " and ", one.shape.value_width, ", window ", one.options.window, steps_name(one.steps)));
  const Layer l = layer(c, "kv", one.shape, one.options.window, one.fill);
  c.output(attention(l.q, l.kv, one.options));
  one.steps(c);
  return c.done();
}

// A full and a windowed layer, whose caches two more layers read; the last one for wanted rows only.
OpCase shared_caches() {
  CaseBuilder c("shared caches, wanted rows");
  const Layer full = layer(c, "full", {.heads = 2, .key_width = 8, .value_width = 12}, 0);
  const Layer windowed = layer(c, "windowed", {.heads = 4, .kv_heads = 2, .key_width = 8, .value_width = 12}, 40);
  c.output(attention(full.q, full.kv, {}));
  c.output(attention(windowed.q, windowed.kv, {.window = 40}));
  c.output(attention(windowed.q, windowed.kv, {.window = 9}));
  c.output(attention(gather(windowed.q, c.wanted()), full.kv, {.scale = 0.3f}));
  ragged_steps(c);
  return c.done();
}

// Positions written again: what a rejected draft left is gone.
OpCase rejected_draft() {
  CaseBuilder c("positions written again");
  const Layer l = layer(c, "kv", {.heads = 2, .kv_heads = 1}, 0);
  c.output(attention(l.q, l.kv, {}));
  c.step({{.rows = 62}});
  c.step({{.position = 62, .rows = 5}});
  c.step({{.position = 63, .rows = 5, .take = 1}});
  c.step({{.position = 66, .rows = 1, .take = 2}});
  return c.done();
}

// The matrices that make every head's key and value of a latent.
struct LatentShape {
  uint32_t heads = 4, latent = 32, shared = 8, nope = 16, value_width = 16;
  bool transposed = false;
  Format format = Format::f32;
};

Expansion expansion(CaseBuilder& c, const LatentShape& s) {
  const WeightShape key{
      .experts = s.heads, .rows = s.transposed ? s.latent : s.nope, .columns = s.transposed ? s.nope : s.latent};
  return {.key = c.weight(key, s.format).id,
          .value = c.weight({.experts = s.heads, .rows = s.value_width, .columns = s.latent}, s.format).id,
          .key_transposed = s.transposed};
}

std::string name_of(const std::string& name, const LatentShape& s) {
  return cat(name, ", ", format_name(s.format), ", ", s.heads, " heads of ", s.nope, " and ", s.value_width, " from ",
             s.latent, " and ", s.shared, s.transposed ? ", transposed" : "");
}

// Folded or not as the device likes; and what the same keys and values give when they are cached themselves.
OpCase latent_case(const LatentShape& s, const AttentionOptions& options, void (*steps)(CaseBuilder&),
                   const CaseAdapters& adapters = {.slots = 0}) {
  CaseBuilder c(name_of(cat("latents", adapters.slots == 0 ? "" : ", adapters", steps_name(steps)), s));
  c.adapters(adapters);
  const Fill steep{.low = -2, .high = 2};
  const Value q = c.input(s.nope + s.shared, s.heads, steep);
  const Value latent = c.input(s.latent), shared = c.input(s.shared, 1, steep);
  AttentionOptions latent_options = options;
  latent_options.expand = expansion(c, s);
  const State cache =
      append(c.recorder().paged_state("latents", 1, s.shared, s.latent, options.window), shared, latent);
  c.output(attention(q, cache, latent_options));
  const KeyValue plain = expand(latent, shared, latent_options.expand);
  const State keys =
      append(c.recorder().paged_state("plain", s.heads, s.nope + s.shared, s.value_width, options.window), plain.key,
             plain.value);
  c.output(attention(q, keys, options));
  c.output(attention(gather(q, c.wanted()), cache, latent_options));
  steps(c);
  return c.done();
}

OpCase expand_case(const LatentShape& s) {
  CaseBuilder c(name_of("expand", s));
  const KeyValue made = expand(c.input(s.latent), c.input(s.shared), expansion(c, s));
  c.output(made.key);
  c.output(made.value);
  c.row_steps(kRowCounts);
  return c.done();
}

const std::vector<LatentShape> kLatentShapes = {
    {},
    {.transposed = true},
    {.heads = 3, .latent = 33, .shared = 2, .nope = 7, .value_width = 9},
    {.heads = 3, .latent = 33, .shared = 2, .nope = 7, .value_width = 9, .transposed = true},
    {.heads = 20, .latent = 64, .format = Format::bf16},
    {.heads = 2, .latent = 64, .nope = 32, .value_width = 32, .format = Format::q8_0},
    {.heads = 2, .latent = 64, .nope = 32, .value_width = 32, .transposed = true, .format = Format::q8_0},
};

constexpr Fill kLastSeen{.end = RangeEnd::last}, kFirstSeen{.end = RangeEnd::first};
// Within a tile, over a border of tiles, to one.
const std::vector<CaseSpan> kSpans = {{.first = 10, .end = 30}, {.first = 60, .end = 75}, {.first = 120, .end = 128}};

// Sequences whose steps part no span.
void spanned_steps(CaseBuilder& c) {
  c.step({{.sequence = 0, .rows = 80}, {.sequence = 1, .rows = 33}, {.sequence = 2, .rows = 131}},
         {0, 12, 70, 79, 100, 240});
  c.step({{.sequence = 0, .position = 80, .rows = 1}, {.sequence = 2, .position = 131, .rows = 2}});
  c.step({{.sequence = 1, .position = 33, .rows = 95}}, {30, 94});
  c.step({}, {});
}

// Over a cache: rows see to the end of their span, or from an input's position on.
OpCase ranged_case(const std::string& name, const Shape& shape, AttentionOptions options, bool has_first) {
  CaseBuilder c(cat(name, ", ", shape.heads, " heads on ", shape.kv_heads, " of ", shape.key_width));
  const Layer l = layer(c, "kv", shape, options.window);
  AttentionOptions wanted_options = options;
  options.last = c.integers(1, kLastSeen);
  wanted_options.last = c.integers(1, kLastSeen, {Symbol::wanted});
  if (has_first) options.first = c.integers(1, kFirstSeen);
  c.output(attention(l.q, l.kv, options));
  c.output(attention(gather(l.q, c.wanted()), l.kv, wanted_options));
  c.spans(kSpans);
  spanned_steps(c);
  return c.done();
}

OpCase ranged_latents() {
  const LatentShape s{.heads = 3, .latent = 33, .shared = 2, .nope = 7, .value_width = 9};
  CaseBuilder c(name_of("latents, ranges", s));
  const Value q = c.input(s.nope + s.shared, s.heads);
  const Value latent = c.input(s.latent), shared = c.input(s.shared);
  const Expansion matrices = expansion(c, s);
  const State cache = append(c.recorder().paged_state("latents", 1, s.shared, s.latent, 0), shared, latent);
  c.output(attention(q, cache, {.scale = 0.25f, .expand = matrices, .last = c.integers(1, kLastSeen)}));
  c.spans(kSpans);
  spanned_steps(c);
  return c.done();
}

// Keys of the step's own rows.
OpCase own_rows_case(const Shape& shape, AttentionOptions options, bool has_spans) {
  CaseBuilder c(cat("own rows, ", shape.heads, " heads on ", shape.kv_heads, " of ", shape.key_width, " and ",
                    shape.value_width, ", window ", options.window, has_spans ? ", spans" : ""));
  const Value q = c.input(shape.key_width, shape.heads);
  const KeyValue own{.key = c.input(shape.key_width, shape.kv_heads),
                     .value = c.input(shape.value_width, shape.kv_heads)};
  c.output(attention(gather(q, c.wanted()), own, options));
  if (has_spans) options.last = c.integers(1, kLastSeen);
  c.output(attention(q, own, options));
  if (has_spans) c.spans(kSpans);
  c.whole_runs();
  c.step({{.sequence = 0, .rows = 80}, {.sequence = 1, .rows = 1}, {.sequence = 2, .rows = 131}}, {0, 70, 79, 80, 211});
  c.step({{.sequence = 1, .position = 5, .rows = 70}, {.sequence = 0, .position = 64, .rows = 64}}, {3, 133});
  c.step({}, {});
  return c.done();
}

// Rows of pictures, as a tower has them: no positions, no cache. `levels`: of queries and keys (Fill).
OpCase tower_case(const Shape& shape, uint32_t block, const AttentionOptions& given, uint32_t distances = 0,
                  uint32_t levels = 0) {
  CaseBuilder c(cat("pictures, ", shape.heads, " heads on ", shape.kv_heads, " of ", shape.key_width, " and ",
                    shape.value_width, ", block ", block, distances == 0 ? "" : cat(", ", distances, " distances")));
  const Value q = c.input(shape.key_width, shape.heads, {.levels = levels}, {Symbol::patches});
  const KeyValue own{.key = c.input(shape.key_width, shape.kv_heads, {.levels = levels}, {Symbol::patches}),
                     .value = c.input(shape.value_width, shape.kv_heads, {}, {Symbol::patches})};
  AttentionOptions options = given;
  options.first = c.integers(1, kFirstSeen, {Symbol::patches});
  options.last = c.integers(1, kLastSeen, {Symbol::patches});
  if (distances != 0) options.relative = c.weight({1, distances, shape.kv_heads * shape.key_width});
  c.output(attention(q, own, options));
  c.block(block);
  c.add_step({.media = {{.sequence = 0, .rows = 65}, {.sequence = 1, .rows = 1}, {.sequence = 2, .rows = 200}}});
  c.add_step({.media = {{.sequence = 3, .rows = 64}}});
  c.add_step({});
  return c.done();
}

void add_ranged_cases(std::vector<OpCase>& cases) {
  const Shape plain, odd{.heads = 6, .kv_heads = 2, .key_width = 33, .value_width = 7};
  cases.push_back(ranged_case("spans", plain, {.scale = 0.25f}, false));
  cases.push_back(ranged_case("spans, window", odd, {.scale = 0.5f, .window = 20}, false));
  cases.push_back(ranged_case("spans, soft-capped", odd, {.softcap = 5.0f}, false));
  cases.push_back(ranged_case("ranges", odd, {.scale = 0.5f}, true));
  cases.push_back(ranged_latents());
  cases.push_back(own_rows_case(plain, {.scale = 0.25f}, false));
  cases.push_back(own_rows_case(odd, {.scale = 0.5f, .window = 40, .softcap = 5.0f}, true));
  cases.push_back(tower_case({.heads = 2, .kv_heads = 2, .key_width = 64, .value_width = 64}, 0, {.scale = 0.125f}));
  cases.push_back(tower_case({.heads = 3, .kv_heads = 3, .key_width = 72, .value_width = 72}, 0, {.scale = 0.118f}));
  // Scores that grow far beyond the largest of the first keys. Five levels are whole in 16 bits.
  cases.push_back(
      tower_case({.heads = 2, .kv_heads = 1, .key_width = 72, .value_width = 40}, 0, {.scale = 2.0f}, 0, 5));
  cases.push_back(tower_case({.heads = 4, .kv_heads = 2, .key_width = 80, .value_width = 33}, 49, {.softcap = 5.0f}));
  cases.push_back(tower_case({.heads = 4, .kv_heads = 2, .key_width = 33, .value_width = 7}, 12, {.softcap = 5.0f}, 5));
  cases.push_back(tower_case({.heads = 2, .kv_heads = 2, .key_width = 16, .value_width = 16}, 0, {.scale = 0.25f}, 90));
}

}  // namespace

std::vector<OpCase> Rope::cases() {
  RopeDecl proportional = turning(16, 1e6f, Pairing::halves);
  for (size_t i = 4; i < proportional.inverse_frequencies.size(); ++i) proportional.inverse_frequencies[i] = 0;
  RopeDecl magnified = turning(5, 1e4f, Pairing::adjacent);
  magnified.magnitude = 1.25f;
  return {
      rope_case("halves", 1, 64, turning(32, 1e4f, Pairing::halves)),
      rope_case("halves", 3, 34, turning(17, 1e4f, Pairing::halves)),
      rope_case("partial halves", 2, 33, turning(7, 1e4f, Pairing::halves)),
      rope_case("some pairs still", 2, 32, proportional),
      rope_case("adjacent", 3, 20, turning(10, 1e4f, Pairing::adjacent)),
      rope_case("partial adjacent, magnified", 1, 33, magnified),
      rope_case("adjacent to halves", 2, 16, turning(8, 1e4f, Pairing::adjacent_to_halves)),
      rope_case("last of a head", 3, 48, turning(8, 1e4f, Pairing::adjacent_to_halves), 32),
      rope_case("middle of a head", 2, 33, turning(5, 1e4f, Pairing::halves), 3),
      rope_case("middle of a head", 2, 33, turning(7, 1e4f, Pairing::adjacent), 3),
      rope_case("one pair", 5, 2, turning(1, 1e4f, Pairing::halves)),
      text_coordinates_case(),
      picture_coordinates_case(1, 2),
      picture_coordinates_case(4, 2),
      picture_coordinates_case(9, 1),
  };
}

std::vector<OpCase> Append::cases() { return {rejected_draft(), shared_caches()}; }

std::vector<OpCase> Attention::cases() {
  const Shape plain;
  const Shape odd{.heads = 6, .kv_heads = 2, .key_width = 33, .value_width = 7};
  const Shape many{.heads = 8, .kv_heads = 1, .key_width = 64, .value_width = 64};
  const Fill steep{.low = -4, .high = 4};
  std::vector<OpCase> cases;
  for (const AttentionCase& one : {
           AttentionCase{"plain", plain, {.scale = 0.25f}, chunked_steps},
           {"plain", plain, {.scale = 0.25f}, ragged_steps},
           {"grouped", odd, {.scale = 0.5f}, ragged_steps},
           {"one kv head", many, {.scale = 0.125f}, chunked_steps},
           {"one element", {.heads = 3, .kv_heads = 3, .key_width = 1, .value_width = 1}, {}, ragged_steps},
           {"window of 1", plain, {.window = 1}, ragged_steps},
           {"small window", odd, {.scale = 0.5f, .window = 5}, chunked_steps},
           {"small window", odd, {.scale = 0.5f, .window = 5}, ragged_steps},
           {"window of a page", plain, {.window = 64}, ragged_steps},
           {"window over pages", odd, {.scale = 0.5f, .window = 100}, chunked_steps},
           {"window over pages", odd, {.scale = 0.5f, .window = 100}, ragged_steps},
           {"window beyond history", plain, {.window = 1000}, chunked_steps},
           {"many tiles", odd, {.scale = 0.5f}, deep_steps},
           {"window over many tiles", plain, {.window = 330}, deep_steps},
           {"soft-capped", plain, {.softcap = 5.0f}, chunked_steps, steep},
           {"steep", plain, {}, ragged_steps, steep},
       })
    cases.push_back(attention_case(one));
  cases.push_back(shared_caches());
  for (const LatentShape& one : kLatentShapes) cases.push_back(latent_case(one, {.scale = 0.25f}, ragged_steps));
  cases.push_back(latent_case({}, {.scale = 0.25f, .window = 70}, chunked_steps));
  cases.push_back(latent_case({.transposed = true}, {.softcap = 5.0f}, chunked_steps));
  cases.push_back(latent_case({.heads = 2, .latent = 24}, {.scale = 0.25f}, deep_steps));
  const CaseAdapters halves = {.rank = 8, .a = Format::bf16, .b = Format::f16};
  cases.push_back(latent_case({}, {.scale = 0.25f}, few_steps, {.slots = 2, .rank = 3}));
  cases.push_back(latent_case({.format = Format::bf16}, {.scale = 0.25f}, few_steps, halves));
  cases.push_back(latent_case({.transposed = true}, {.scale = 0.25f}, few_steps, halves));
  add_ranged_cases(cases);
  return cases;
}

std::vector<OpCase> Expand::cases() {
  std::vector<OpCase> cases;
  cases.reserve(std::size(kLatentShapes));
  for (const LatentShape& one : kLatentShapes) cases.push_back(expand_case(one));
  return cases;
}

}  // namespace sluice
