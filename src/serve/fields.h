// Fields: the members of a JSON object in a request, read by name, kind and range. A member that is null counts as
// absent. What nobody has read is known at the end, so that a reply can name the fields that had no effect.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/refusal.h"

namespace sluice {

class Fields {
 public:
  // `object` is an object and outlives this. `where` stands before names in sentences: "options."
  explicit Fields(const Json& object, std::string where = {}) : object_(&object), where_(std::move(where)) {}

  // Null when absent. Marks the field as read.
  const Json* find(std::string_view name);
  Outcome<std::optional<double>> number(std::string_view name, double least, double most);
  Outcome<std::optional<int64_t>> integer(std::string_view name, int64_t least, int64_t most);
  Outcome<std::optional<bool>> boolean(std::string_view name);
  Outcome<std::optional<std::string>> text(std::string_view name);
  Outcome<const Json*> object(std::string_view name);  // null when absent
  Outcome<const Json*> array(std::string_view name);
  // A string or a list of strings.
  Outcome<std::vector<std::string>> texts(std::string_view name, size_t most);

  // Refuses a field that has a value, other than false, 0 and an empty list: for what cannot be honoured.
  Checked refuse_any(std::initializer_list<std::string_view> names, std::string_view why);
  // Marks fields whose absence changes no answer as ignored, also if another reader reads them.
  std::vector<std::string> unread() const;
  std::string path(std::string_view name) const { return where_ + std::string(name); }
  Refusal wrong(std::string_view name, const Json& value, std::string_view want) const;

 private:
  const Json* object_;
  std::string where_;
  std::vector<std::string_view> read_;
};

// The object of a request's body.
Outcome<Json> parse_body(std::string_view body);

}  // namespace sluice
