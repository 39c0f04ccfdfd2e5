// Python's operators on values: equality, order, arithmetic, membership, and access to items. Each operator charges for
// what it looks at, so a builtin that uses them on items of items need not charge again.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"
#include "text/jinja/parse/ast.h"

namespace sluice::jinja {

Result<bool> equal(Machine& machine, const Value& a, const Value& b);
Result<bool> less(Machine& machine, const Value& a, const Value& b);
Result<bool> compare(Machine& machine, Comparison op, const Value& a, const Value& b);
Result<bool> contains(Machine& machine, const Value& container, const Value& wanted);

Result<Value> calculate(Machine& machine, BinaryOperator op, const Value& a, const Value& b);
Result<Value> negate(Machine& machine, const Value& value);

// len()
Result<int64_t> length(Machine& machine, const Value& value);
// The values that a loop sees: items of a list, keys of a dict, characters of a text, none of undefined.
Result<std::shared_ptr<const List>> items_of(Machine& machine, const Value& value);
bool is_iterable(const Value& value);

// object.name: an attribute or method, else the item of that name, else undefined.
Result<Value> get_attribute(Machine& machine, const Value& object, std::string_view name);
// object[key]: the item, else the attribute of that name, else undefined.
Result<Value> get_item(Machine& machine, const Value& object, const Value& key);
// object[start:stop:step]. A missing part is undefined or none.
Result<Value> get_slice(Machine& machine, const Value& object, const Value& start, const Value& stop,
                        const Value& step);

// Python's "hashable".
bool can_be_key(const Value& key);
// The value of a dict's member, or nullptr.
Result<const Value*> find_member(Machine& machine, std::span<const Dict::Member> members, const Value& key);
Result<const Value*> find_member(Machine& machine, std::span<const Dict::Member> members, std::string_view key);
// The first or last position of `wanted` in `text`, or npos. Always linear in time.
Result<size_t> find_text(Machine& machine, std::string_view text, std::string_view wanted, bool last = false);
Result<Value> key_view(Machine& machine, const Dict& dict);
Result<Value> value_view(Machine& machine, const Dict& dict);
Result<Value> item_view(Machine& machine, const Dict& dict);

// Collects members. A later member replaces an earlier one with the same key.
class DictMaker {
 public:
  explicit DictMaker(Machine& machine) : machine_(machine) {}
  Status add(Value key, Value value);
  // Adds a missing key with the value none. Returns whether it was missing.
  Result<bool> add_new(Value key);
  Result<Value> take();

 private:
  Status append(Value key, Value value);

  Machine& machine_;
  std::vector<Dict::Member> members_;
  Room room_;
};

}  // namespace sluice::jinja
