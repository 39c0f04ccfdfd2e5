// peer_mtmd LIBRARIES MODEL MMPROJ IDS TOKENS THREADS FLASH MEDIA...: llama.cpp's mtmd on a prompt with pictures and
// sounds. IDS are the prompt's tokens with commas between them, and m in the place of each file's rows. Prints one line
// of JSON: the rows of each file, the greedy tokens, the margin of each to the second-best, and the seconds of every
// run of a tower. REPEAT is the number of those runs, ROWS the rows of each picture with commas between them; with GPU
// set, towers run there.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"
#include "mtmd-helper.h"
#include "mtmd.h"

namespace {

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "peer_mtmd: %s\n", text.c_str());
  std::exit(1);
}

struct Next {
  llama_token token = 0;
  float margin = 0;
};
Next likeliest(llama_context* context, int vocabulary) {
  const float* logits = llama_get_logits_ith(context, -1);
  int best = 0;
  for (int i = 1; i < vocabulary; ++i)
    if (logits[i] > logits[best]) best = i;
  float second = -1e30f;
  for (int i = 0; i < vocabulary; ++i)
    if (i != best) second = std::max(second, logits[i]);
  return {best, logits[best] - second};
}

// Empties `text`. The last token gives logits.
void decode(llama_context* context, std::vector<llama_token>& text, llama_pos& position) {
  if (text.empty()) return;
  llama_batch batch = llama_batch_init(static_cast<int32_t>(text.size()), 0, 1);
  batch.n_tokens = static_cast<int32_t>(text.size());
  for (int i = 0; i < batch.n_tokens; ++i) {
    batch.token[i] = text[static_cast<size_t>(i)];
    batch.pos[i] = position++;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = i + 1 == batch.n_tokens;
  }
  if (llama_decode(context, batch) != 0) fail("the text failed");
  llama_batch_free(batch);
  text.clear();
}

std::string joined(const std::vector<double>& numbers) {
  std::string out;
  for (const double number : numbers) {
    char text[32];
    std::snprintf(text, sizeof text, "%s%.6g", out.empty() ? "" : ", ", number);
    out += text;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 9) fail("want LIBRARIES MODEL MMPROJ PROMPT TOKENS THREADS FLASH MEDIA...");
  const auto quiet = [](ggml_log_level, const char*, void*) {};
  llama_log_set(quiet, nullptr);
  mtmd_helper_log_set(quiet, nullptr);
  ggml_backend_load_all_from_path(argv[1]);
  const int count = std::atoi(argv[5]), threads = std::atoi(argv[6]);
  const auto flash = std::atoi(argv[7]) != 0 ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;

  llama_model* const model = llama_model_load_from_file(argv[2], llama_model_default_params());
  if (model == nullptr) fail("cannot open the model");
  llama_context_params settings = llama_context_default_params();
  settings.n_ctx = 4096;
  settings.n_batch = settings.n_ubatch = 2048;
  settings.n_threads = settings.n_threads_batch = threads;
  settings.flash_attn_type = flash;
  settings.type_k = settings.type_v = GGML_TYPE_F32;
  llama_context* const context = llama_init_from_model(model, settings);
  if (context == nullptr) fail("cannot make a context");
  mtmd_context_params tower = mtmd_context_params_default();
  tower.use_gpu = std::getenv("GPU") != nullptr;
  tower.print_timings = false;
  tower.n_threads = threads;
  tower.warmup = false;
  tower.flash_attn_type = flash;
  // A context for each file, because limits belong to the context.
  const char* const rows_of_files = std::getenv("ROWS");
  std::stringstream wanted(rows_of_files == nullptr ? "" : rows_of_files);
  std::vector<mtmd_context*> contexts;
  for (int i = 8; i < argc; ++i) {
    std::string rows;
    std::getline(wanted, rows, ',');
    tower.image_min_tokens = tower.image_max_tokens = rows.empty() || rows == "0" ? -1 : std::atoi(rows.c_str());
    contexts.push_back(mtmd_init_from_file(argv[3], model, tower));
    if (contexts.back() == nullptr) fail("cannot open the projector");
  }

  std::vector<mtmd_input_chunks*> kept;
  std::vector<const mtmd_input_chunk*> shown;
  for (int i = 8; i < argc; ++i) {
    mtmd_context* const media = contexts[static_cast<size_t>(i) - 8];
    const mtmd_bitmap* bitmap =
        mtmd_helper_bitmap_init_from_file(media, argv[i], false, mtmd_helper_init_opt_default()).bitmap;
    if (bitmap == nullptr) fail(std::string("cannot read ") + argv[i]);
    kept.push_back(mtmd_input_chunks_init());
    const std::string marker = mtmd_default_marker();
    const mtmd_input_text text{marker.c_str(), marker.size(), /*add_special=*/false, /*parse_special=*/true};
    if (mtmd_tokenize(media, kept.back(), &text, &bitmap, 1) != 0) fail(std::string("cannot prepare ") + argv[i]);
    for (size_t k = 0; k < mtmd_input_chunks_size(kept.back()); ++k) {
      const mtmd_input_chunk* const chunk = mtmd_input_chunks_get(kept.back(), k);
      if (mtmd_input_chunk_get_type(chunk) != MTMD_INPUT_CHUNK_TYPE_TEXT) shown.push_back(chunk);
    }
  }

  const char* const times = std::getenv("REPEAT");
  std::vector<double> seconds;
  std::string rows;
  if (shown.size() != contexts.size()) fail("a file is more than one picture or sound");
  for (size_t k = 0; k < shown.size(); ++k) {
    const mtmd_input_chunk* const chunk = shown[k];
    rows += (rows.empty() ? "" : ", ") + std::to_string(mtmd_input_chunk_get_n_tokens(chunk));
    for (int run = 0; run < (times == nullptr ? 1 : std::atoi(times)); ++run) {
      const auto start = std::chrono::steady_clock::now();
      if (mtmd_encode_chunk(contexts[k], chunk) != 0) fail("a tower failed");
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }

  std::vector<double> tokens, margins;
  if (count > 0) {
    llama_pos position = 0;
    size_t next_shown = 0;
    std::stringstream ids(argv[4]);
    std::vector<llama_token> text;
    for (std::string id; std::getline(ids, id, ',');) {
      if (id != "m") {
        text.push_back(std::atoi(id.c_str()));
        continue;
      }
      decode(context, text, position);
      if (next_shown == shown.size()) fail("the prompt has more places than files");
      mtmd_context* const media = contexts[next_shown];
      const mtmd_input_chunk* const chunk = shown[next_shown++];
      if (mtmd_helper_eval_chunk_single(media, context, chunk, position, 0, 2048, false, &position) != 0)
        fail("a picture's rows failed");
    }
    decode(context, text, position);
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (int i = 0; i < count; ++i) {
      const Next next = likeliest(context, vocabulary);
      tokens.push_back(next.token);
      margins.push_back(next.margin);
      text = {next.token};
      decode(context, text, position);
    }
  }
  std::printf("{\"rows\": [%s], \"tower_seconds\": [%s], \"tokens\": [%s], \"margins\": [%s]}\n", rows.c_str(),
              joined(seconds).c_str(), joined(tokens).c_str(), joined(margins).c_str());
  std::fflush(stdout);
  std::_Exit(0);
}
