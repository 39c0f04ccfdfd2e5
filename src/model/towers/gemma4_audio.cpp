// Gemma 4's audio tower: a conformer over log-mel frames, a row of the text for every 40 ms.
// Source: transformers modeling_gemma4.py (5.17.0), Gemma4AudioModel; names in GGUF files as llama.cpp's mmproj files
// and Ollama have them.
//
// Two convolutions of 3 x 3 with stride 2 halve frames and bands twice. Each convolution is a gather of its taps and a
// linear layer. A conformer layer has half a feed-forward step, attention to the last 12 frames, a convolution over the
// last 5 frames, and another half step. An attention score has a term that depends on the distance of query and key.
//
// Before the first frame and behind the last, convolutions read zeros.

#include "model/towers/gemma4_audio.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/limits.h"
#include "media/mel.h"
#include "model/towers/clipped_linear.h"
#include "model/towers/gemma4_audio_config.h"
#include "model/towers/gemma4_media.h"

namespace sluice::gemma4 {
namespace {

constexpr uint32_t kFramesOfRow = 2;  // frames between the convolutions for one frame behind them
constexpr uint32_t kRowsOfSecond = 25;
constexpr uint32_t kHalfBands = kBands / 2;
constexpr uint32_t kTaps = kConvTaps * kConvTaps;
constexpr float kNormEps = 1e-6f;  // for norms whose epsilon is in no configuration

// --- program

class AudioProgram {
 public:
  AudioProgram(Recorder& recorder, const AudioConfig& config, const BoundWeights& weights)
      : r_(recorder), c_(config), weights_(weights) {}

  void record();

 private:
  Value input(const std::string& name, uint32_t ratio, uint32_t width, Element element = Element::i32);
  Value subsampled();
  Value layer(uint32_t index, Value x);
  Value feed_forward_block(const WeightScope& w, const std::string& name, Value x);
  Value attention_block(const WeightScope& w, Value x);
  Value convolution_block(const WeightScope& w, Value x);

  Recorder& r_;
  const AudioConfig& c_;
  const BoundWeights& weights_;
  Value first_, last_, before_;
};

Value AudioProgram::input(const std::string& name, uint32_t ratio, uint32_t width, Element element) {
  const Extent extent{.symbol = Symbol::media_rows, .ratio = ratio};
  return r_.input(name, {.extent = extent, .width = width, .element = element});
}

void AudioProgram::record() {
  const WeightScope w(r_, weights_, "audio.");
  Value x = subsampled();
  r_.name(x, "audio.subsampled");
  first_ = input("first", 1, 1);
  last_ = input("last", 1, 1);
  before_ = input("before", 1, c_.kernel);  // the rows that a layer's convolution reads
  for (uint32_t i = 0; i < c_.layers; ++i) {
    r_.begin_layer(static_cast<int32_t>(i));
    x = layer(i, x);
    r_.name(x, cat("audio.layer.", i));
  }
  r_.begin_layer(-1);
  x = add(linear(x, w["output_proj"]), w["output_proj.bias"]);
  r_.name(x, "audio.encoded");
  x = w.has("soft_norm") ? rms_norm(x, w["soft_norm"], c_.eps) : rms_norm(x, c_.eps);
  x = linear(x, w["projection"]);
  r_.name(x, "audio.soft_tokens");
  r_.output(x, "rows");
}

// A row of the first convolution is one band of one frame, with the nine numbers under its taps. The second convolution
// gathers three of its nine taps at a time, so that the gathered rows stay small.
Value AudioProgram::subsampled() {
  const WeightScope w(r_, weights_, "audio.subsample.");
  const Value taps = input("taps", kFramesOfRow * kHalfBands, kTaps, Element::f32);
  const auto normed = [&](Value x, const char* norm) {
    return activation(layer_norm(x, w[norm], Weight{}, c_.eps), ActivationKind::relu);
  };
  const Value fine = normed(linear(taps, w["0.conv"]), "0.norm");
  Value coarse;
  for (uint32_t row = 0; row < kConvTaps; ++row) {
    const Value under = input(cat("under.", row), kBandsOfRow, kConvTaps);
    const Value part = linear(flatten(gather(fine, under)), w[cat("1.conv.", row).c_str()]);
    coarse = row == 0 ? part : add(coarse, part);
  }
  return linear(flatten(fold(normed(coarse, "1.norm"), kBandsOfRow)), w["projection"]);
}

Value AudioProgram::layer(uint32_t index, Value x) {
  const WeightScope w(r_, weights_, cat("audio.layer.", index, "."));
  x = feed_forward_block(w, "feed_forward1", x);
  x = add(x, rms_norm(attention_block(w, rms_norm(x, w["pre_attention_norm"], kNormEps)), w["post_attention_norm"],
                      kNormEps));
  x = add(x, convolution_block(w, rms_norm(x, w["conv_pre_norm"], c_.eps)));
  x = feed_forward_block(w, "feed_forward2", x);
  return rms_norm(x, w["norm"], kNormEps);
}

Value AudioProgram::feed_forward_block(const WeightScope& w, const std::string& name, Value x) {
  const Value h = rms_norm(x, w[(name + ".norm").c_str()], kNormEps);
  const Value up = activation(clipped_linear(w, name + ".up", h), ActivationKind::silu);
  const Value y = rms_norm(clipped_linear(w, name + ".down", up), w[(name + ".post_norm").c_str()], kNormEps);
  return add(x, scale(y, c_.residual));
}

Value AudioProgram::attention_block(const WeightScope& w, Value x) {
  const double key_scale = std::log1p(std::numbers::e) / std::numbers::ln2;
  Value q = clipped_linear(w, "q_proj", x);
  Value k = clipped_linear(w, "k_proj", x);
  const Value v = heads(clipped_linear(w, "v_proj", x), c_.heads);
  q = heads(scale(q, w["q_scale"]), c_.heads);
  k = heads(scale(k, static_cast<float>(key_scale)), c_.heads);
  const Value a = attention(
      q, {k, v}, {.scale = 1.0f, .softcap = c_.softcap, .relative = w["relative"], .first = first_, .last = last_});
  return clipped_linear(w, "o_proj", flatten(a));
}

Value AudioProgram::convolution_block(const WeightScope& w, Value x) {
  const Value both = heads(clipped_linear(w, "conv_in", x), 2);
  const Value open = slice(both, 1, 1);
  const Value gated = gated_activation(open, slice(both, 0, 1), ActivationKind::sigmoid);
  const Value under = scale(flatten(gather(gated, before_)), w["conv"]);
  const Value y = rms_norm(pool(heads(under, c_.kernel), 1.0f), w["conv_norm"], c_.eps);
  return clipped_linear(w, "conv_out", activation(y, ActivationKind::silu));
}

// --- sounds

// The index of a row that does not exist.
constexpr int64_t kNoRow = -1;

uint32_t word_of(int64_t row) { return std::bit_cast<uint32_t>(static_cast<int32_t>(row)); }

// The input of the first convolution: the numbers under its taps, by frame, band and tap.
TowerInput first_taps(const MelFrames& mel, uint32_t frames) {
  TowerInput taps{"taps", {}};
  taps.words.reserve(size_t{frames} * kHalfBands * kTaps);
  for (int64_t frame = 0; frame < frames; ++frame)
    for (int64_t band = 0; band < kHalfBands; ++band)
      for (int64_t tap = 0; tap < kTaps; ++tap) {
        const int64_t from = 2 * frame - 1 + tap / kConvTaps, at = 2 * band - 1 + tap % kConvTaps;
        const bool there = from >= 0 && from < mel.valid && at >= 0 && at < kBands;
        const float value = there ? mel.values[static_cast<size_t>(from * kBands + at)] : 0.0f;
        taps.words.push_back(std::bit_cast<uint32_t>(value));
      }
  return taps;
}

// For one row of the second convolution's kernel: the rows of the first convolution's result that it reads.
TowerInput second_taps(uint32_t kernel_row, uint32_t rows, uint32_t valid_frames) {
  TowerInput under{cat("under.", kernel_row), {}};
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t band = 0; band < kBandsOfRow; ++band)
      for (int64_t tap = 0; tap < kConvTaps; ++tap) {
        const int64_t frame = 2 * row - 1 + kernel_row, at = 2 * band - 1 + tap;
        const bool there = frame >= 0 && frame < valid_frames && at >= 0 && at < kHalfBands;
        under.words.push_back(word_of(there ? frame * kHalfBands + at : kNoRow));
      }
  return under;
}

Result<TowerInputs> prepare_audio(const AudioConfig& c, const Sound& sound) {
  TRY_STATUS(check_sound(sound));
  const MelFrames mel = log_mel(sound);
  if (mel.valid == 0)
    return error(ErrorKind::invalid, "sound: ", sound.samples.size(), " samples are too few: want one whole frame");
  // A convolution with stride 2 leaves every other valid frame.
  const uint32_t half = (mel.valid + 1) / 2, rows = (half + 1) / 2;
  TowerInputs inputs{.rows = rows};
  inputs.inputs.push_back(first_taps(mel, rows * kFramesOfRow));
  for (uint32_t row = 0; row < kConvTaps; ++row) inputs.inputs.push_back(second_taps(row, rows, half));
  TowerInput first{"first", {}}, last{"last", {}}, before{"before", {}};
  for (int64_t row = 0; row < rows; ++row) {
    first.words.push_back(word_of(std::max<int64_t>(0, row - c.window + 1)));
    last.words.push_back(word_of(row));
    for (int64_t tap = 1 - int64_t{c.kernel}; tap <= 0; ++tap)
      before.words.push_back(word_of(row + tap >= 0 ? row + tap : kNoRow));
  }
  for (TowerInput* input : {&first, &last, &before}) inputs.inputs.push_back(std::move(*input));
  return inputs;
}

}  // namespace

std::optional<FamilyProgram> audio_tower(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden) {
  const std::string keys = tower_keys(checkpoint, "audio", "block_count");
  const bool gguf = checkpoint.dialect() == Dialect::gguf;
  if (gguf ? checkpoint.key(keys + ".block_count") == nullptr : tower_section(checkpoint, "audio_config") == nullptr)
    return std::nullopt;
  FamilyProgram tower{.kind = ProgramKind::audio, .weights = {}, .record = {}};
  Result<AudioConfig> read = read_audio(checkpoint, names, keys);
  if (!read) {
    tower.problem = std::move(read).error();
    return tower;
  }
  AudioConfig config = *std::move(read);
  config.text_hidden = hidden;
  tower.weights = audio_weights(config);
  tower.projector = audio_projector(config);
  tower.make_weights = [config](BoundWeights& own) { make_audio_weights(config, own); };
  tower.record = [config](Recorder& recorder, const BoundWeights&, const BoundWeights& own, const TextOptions&) {
    AudioProgram(recorder, config, own).record();
  };
  tower.prepare_sound = [config](const Sound& sound) { return prepare_audio(config, sound); };
  tower.most_rows = [](const PictureOptions&) { return kSoundSeconds * kRowsOfSecond; };
  tower.tokens = tower_tokens(checkpoint, "audio");
  tower.summary = cat(config.layers, config.layers == 1 ? " layer of " : " layers of ", config.hidden, ", ",
                      kRowsOfSecond, " rows a second");
  return tower;
}

}  // namespace sluice::gemma4
