#include "graph/describe.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace sluice {
namespace {

TEST(OperatorsPage, OnDiskIsWhatTheOpsSay) {
  std::ifstream file(SLUICE_TEST_DATA "/../../docs/operators.md", std::ios::binary);
  ASSERT_TRUE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == operators_markdown())
      << "docs/operators.md is not up to date: ninja operators_md, then operators_md > docs/operators.md";
}

TEST(OperatorsPage, HasASectionForAnOp) {
  const std::string page = operators_markdown();
  EXPECT_NE(page.find("\n## rms_norm\n"), std::string::npos);
  EXPECT_NE(page.find("| `logits` | in | f32 [wanted, vocabulary] |"), std::string::npos);
}

}  // namespace
}  // namespace sluice
