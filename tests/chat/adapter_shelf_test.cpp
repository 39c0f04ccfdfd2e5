// Names and scales of a conversation's adapters.
#include "chat/adapter_shelf.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "chat/open_model.h"
#include "tests/model/adapters/written_adapter.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

class Shelf : public testing::Test {
 protected:
  Shelf() : folder_(std::filesystem::path(testing::TempDir()) / "sluice_shelf_test") {
    const Model demo = unwrap(open_model("assets/demo-gemma4-q8_0.gguf"));
    for (const char* name : {"a", "b", "more/a"}) {
      const std::string path = (folder_ / name).string();
      tests::write_adapter(path, tests::peft_config(4),
                           tests::peft_factors({{"model.language_model.layers.0.self_attn.q_proj", 256, 256}}, 2));
      adapters_.push_back(unwrap(Adapter::open(demo, path)));
    }
  }
  ~Shelf() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::vector<std::shared_ptr<const Adapter>> adapters_;
};

TEST_F(Shelf, NamesAreThoseOfFilesAndDiffer) {
  AdapterShelf shelf;
  EXPECT_EQ(shelf.add({adapters_[0]}), "a");
  EXPECT_EQ(shelf.add({adapters_[1], 0.5f}), "b");
  EXPECT_EQ(shelf.add({adapters_[2]}), "a-2");
  EXPECT_TRUE(shelf.has("a-2"));
  EXPECT_FALSE(shelf.has("c"));
}

TEST_F(Shelf, TheSumHasTheScalesOfNow) {
  AdapterShelf shelf;
  shelf.add({adapters_[0]});
  shelf.add({adapters_[1]});
  EXPECT_TRUE(shelf.rescale("b", -2).ok());
  ASSERT_EQ(shelf.sum().size(), 2u);
  EXPECT_EQ(shelf.sum()[1].adapter, adapters_[1]);
  EXPECT_EQ(shelf.sum()[1].scale, -2);
  EXPECT_EQ(unwrap(shelf.drop("a")), adapters_[0]);
  EXPECT_EQ(shelf.sum().size(), 1u);
}

TEST_F(Shelf, UnknownNamesAreOneSentence) {
  AdapterShelf shelf;
  EXPECT_EQ(shelf.drop("a").error().text, "no adapter a: want one that was added");
  shelf.add({adapters_[0]});
  shelf.add({adapters_[1]});
  EXPECT_EQ(shelf.rescale("c", 1).error().text, "no adapter c: want a, b");
}

}  // namespace
}  // namespace sluice
