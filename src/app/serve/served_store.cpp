#include "app/serve/served_store.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "app/files/pull.h"
#include "app/serve/model_loader.h"
#include "app/serve/wanted_models.h"
#include "base/files/file.h"
#include "base/text.h"
#include "checkpoint/places/ollama_changes.h"
#include "checkpoint/places/ollama_store.h"

namespace sluice {
namespace {

// Tells of a pull in Ollama's words.
class TellingView final : public PullView {
 public:
  explicit TellingView(const PullSink& tell) : tell_(tell) {}

  void begin(std::string_view stage) override { tell_({.status = std::string(stage)}); }

  std::unique_ptr<ShownProgress> begin_blob(const OllamaBlob& blob, bool /*is_there*/) override {
    PullProgress first{.status = cat("pulling ", blob.hex.substr(0, 12)), .digest = "sha256:" + blob.hex};
    first.total = blob.bytes;
    tell_(first);
    return std::make_unique<Blob>(tell_, std::move(first));
  }

 private:
  class Blob final : public ShownProgress {
   public:
    Blob(const PullSink& tell, PullProgress progress) : tell_(tell), progress_(std::move(progress)) {}
    void update(uint64_t done, uint64_t /*total*/) override {
      progress_.completed = done;
      tell_(progress_);
    }

   private:
    const PullSink& tell_;
    PullProgress progress_;
  };

  const PullSink& tell_;
};

// The digests of a name's blobs; none where there is no such name, or where its manifest cannot be read.
std::set<std::string> blobs_of(const std::string& root, const OllamaName& name) {
  Result<std::set<std::string>> digests = ollama_blobs(root, name);
  return digests ? *std::move(digests) : std::set<std::string>();
}

std::string manifest_of(const std::string& root, const OllamaName& name) {
  Result<std::string> text = read_ollama_manifest(root, name);
  return text ? *std::move(text) : "";
}

}  // namespace

std::optional<std::string> ServedStore::root_of(const OllamaName& name) const {
  const auto root = std::ranges::find_if(setup_.roots, [&](const std::string& one) {
    return path_kind(ollama_manifest_path(one, name)) == PathKind::file;
  });
  return root == setup_.roots.end() ? std::nullopt : std::optional(*root);
}

// Whether a model that stays is that of the store.
bool ServedStore::lies_here(const OllamaName& name) const {
  return std::ranges::any_of(setup_.named, [&](const ModelFiles& files) {
    return files.origin == Origin::ollama && files.name == name.text();
  });
}

bool ServedStore::is_named(const OllamaName& name) const {
  const std::optional<ModelPlace> place = shelf_->find(name.text());
  const auto recipe = place ? shelf_->recipe(place->recipe) : nullptr;
  return (recipe != nullptr && !recipe->is_stored) || lies_here(name);
}

Refusal ServedStore::named(const OllamaName& name) const {
  return {.status = 403,
          .message = cat("model ", name.text(),
                         " was named when the server was started: it can be neither deleted nor replaced"),
          .param = "model"};
}

Refusal ServedStore::missing(const OllamaName& name) const {
  const std::string text = name.text();
  if (!shelf_->find(text)) return shelf_->unknown(text);
  return refuse("model", "model ", text, " does not lie in Ollama's store: only models there are copied and deleted");
}

void ServedStore::note_unused(const std::string& root, std::set<std::string> digests) {
  for (const ModelFiles& files : setup_.named) {
    std::erase_if(digests, [&](const std::string& hex) {
      const std::string path = ollama_blob_path(root, {.media_type = {}, .hex = hex});
      return path == files.path || path == files.projector || std::ranges::count(files.adapters, path) > 0;
    });
  }
  unused_[root].merge(digests);
}

Status ServedStore::remove_unused() {
  if (pulls_ > 0) return {};
  for (auto& [root, digests] : std::exchange(unused_, {}))
    TRY_STATUS(remove_unused_ollama_blobs(root, std::move(digests)));
  return {};
}

Checked ServedStore::pull(const OllamaName& name, const PullSink& tell, const std::atomic<bool>& stop) {
  if (is_named(name) && !lies_here(name)) return named(name);
  const std::string& root = setup_.roots.front();
  PullRequest request = ollama_pull(name, root);
  request.options.stop = &stop;
  std::string before;
  std::set<std::string> old;
  {
    const std::lock_guard lock(mutex_);
    ++pulls_;
    before = manifest_of(root, name);
    old = blobs_of(root, name);
  }
  TellingView view(tell);
  const Result<Pulled> pulled = pull_manifest(request, view);
  bool is_known = false;
  {
    const std::lock_guard lock(mutex_);
    --pulls_;
    is_known = before == manifest_of(root, name);
    if (pulled && !is_known) note_unused(root, std::move(old));
    if (const Status removed = remove_unused(); !removed)
      console_->err(cat("sluice: after a pull: ", removed.error().text, '\n'));
  }
  if (!pulled) return refusal_of(pulled.error());
  if (is_known && shelf_->find(name.text())) return Fine{};
  return offer(root, name, "was fetched");
}

Checked ServedStore::copy(const OllamaName& source, const OllamaName& destination) {
  std::optional<std::string> root;
  {
    const std::lock_guard lock(mutex_);
    root = root_of(source);
    if (!root) return missing(source);
    if (source.path() == destination.path()) return Fine{};
    if (is_named(destination)) return named(destination);
    std::set<std::string> old = blobs_of(*root, destination);
    TRY_STATUS(copy_ollama_name(*root, source, destination));
    note_unused(*root, std::move(old));
    TRY_STATUS(remove_unused());
  }
  return offer(*root, destination, "was copied");
}

Checked ServedStore::remove(const OllamaName& name) {
  const std::lock_guard lock(mutex_);
  if (is_named(name)) return named(name);
  const std::optional<std::string> root = root_of(name);
  if (!root) return missing(name);
  std::set<std::string> old = blobs_of(*root, name);
  TRY_STATUS(remove_ollama_name(*root, name));
  if (const std::optional<ModelPlace> place = shelf_->find(name.text())) shelf_->remove(place->recipe);
  note_unused(*root, std::move(old));
  TRY_STATUS(remove_unused());
  return Fine{};
}

// On the engines' thread, because reading a model takes the device and counts the program's memory.
Checked ServedStore::offer(const std::string& root, const OllamaName& name, const char* done) {
  std::promise<Checked> offered;
  if (!queue_->post([&] { offered.set_value(offer_now(root, name, done)); })) return ends_soon();
  return offered.get_future().get();
}

Checked ServedStore::offer_now(const std::string& root, const OllamaName& name, const char* done) {
  const std::optional<ModelPlace> old = shelf_->find(name.text());
  const auto recipe = old ? shelf_->recipe(old->recipe) : nullptr;
  if (recipe != nullptr && !recipe->is_stored) return Fine{};
  const auto add = [&]() -> Status {
    TRY(const ModelFiles files, open_ollama_model(root, name));
    TRY(WantedModel wanted, stored_model(files, setup_.arguments));
    TRY(std::shared_ptr<ModelLoader> loader,
        ModelLoader::create(std::move(wanted), setup_.version, *machine_, *console_));
    TRY(std::vector<ModelCard> cards, loader->cards());
    shelf_->add(recipe_of(loader, std::move(cards)));
    return {};
  };
  const Status added = add();
  if (old) shelf_->remove(old->recipe);
  if (added) return Fine{};
  return Refusal{.status = 400,
                 .message = cat("model ", name.text(), ' ', done, ", but does not run: ", added.error().text),
                 .param = "model"};
}

}  // namespace sluice
