#include "app/verify/verify_chat.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace sluice {
namespace {

constexpr size_t kShown = 40;  // bytes of a text where it differs

void compare_text(std::string_view got, std::string_view want, CaseReport& report) {
  const auto at =
      static_cast<size_t>(std::mismatch(got.begin(), got.end(), want.begin(), want.end()).first - got.begin());
  if (at < got.size() || at < want.size()) {
    report.misses.push_back(cat("rendered text: \"", printable(got.substr(at), kShown), "\" at byte ", at, ": want \"",
                                printable(want.substr(at), kShown), '"'));
  }
}

void compare_ids(const std::vector<int32_t>& got, const std::vector<int32_t>& want, CaseReport& report) {
  const auto at =
      static_cast<size_t>(std::mismatch(got.begin(), got.end(), want.begin(), want.end()).first - got.begin());
  if (at < got.size() || at < want.size()) {
    const auto id = [&](const std::vector<int32_t>& ids) {
      return at < ids.size() ? cat(ids[at]) : std::string("the end");
    };
    report.misses.push_back(cat("token ", at, " of the rendered text: ", id(got), ": want ", id(want)));
  }
}

}  // namespace

void check_chat(const TextParts& text, const GoldenCase& golden_case, CaseReport& report) {
  if (golden_case.kind != "chat") return;
  if (!text.chat) {
    report.misses.emplace_back("chat template: none in the model: want one that renders the messages");
    return;
  }
  const Result<ChatPrompt> prompt = render_chat(text, golden_case.messages, golden_case.template_kwargs);
  if (!prompt) {
    report.misses.push_back(cat("chat template: ", prompt.error().text));
    return;
  }
  compare_text(prompt->text, golden_case.text, report);
  compare_ids(text.tokenizer.encode(golden_case.text), golden_case.input_ids, report);
}

}  // namespace sluice
