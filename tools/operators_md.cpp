// operators_md > docs/operators.md
#include <cstdio>

#include "graph/describe.h"

int main() {
  const std::string text = sluice::operators_markdown();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
