#include "text/jinja/machine.h"

#include <algorithm>

#include "text/jinja/objects.h"

namespace sluice::jinja {

Machine::~Machine() {
  for (const std::shared_ptr<Namespace>& made : namespaces_) made->clear();
}

Status Machine::may_nest(int nesting) const {
  if (nesting <= kMaxTemplateNesting) return {};
  return fail("a value is nested deeper than ", kMaxTemplateNesting);
}

Status Machine::step(uint64_t units) {
  steps_ += units;
  if (steps_ <= limits_.steps) return {};
  return fail("the template takes more than ", limits_.steps, " steps");
}

Status Machine::can_make(uint64_t bytes) const {
  if (bytes <= limits_.made_bytes && made_ <= limits_.made_bytes - bytes) return {};
  return fail("the template makes more than ", format_bytes(limits_.made_bytes), " of strings and lists");
}

Status Machine::charge(uint64_t bytes) {
  TRY_STATUS(can_make(bytes));
  made_ += bytes;
  return handle(bytes);
}

Result<Value> Machine::text(std::string bytes, bool safe) {
  TRY_STATUS(charge(sizeof(Text) + bytes.size()));
  return Value(std::move(bytes), safe);
}

Result<Value> Machine::list(std::vector<Value> items, Flavour flavour, std::string shown) {
  TRY_STATUS(charge(sizeof(List) + items.size() * sizeof(Value)));
  int nesting = 1;
  for (const Value& item : items) nesting = std::max(nesting, 1 + item.nesting());
  TRY_STATUS(may_nest(nesting));
  return Value(std::make_shared<const List>(List{std::move(items), flavour, std::move(shown), nesting}));
}

Result<Value> Machine::tuple(Value first, Value second) {
  std::vector<Value> items;
  items.reserve(2);
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return list(std::move(items), Flavour::tuple);
}

Result<Value> Machine::dict(std::vector<Dict::Member> members) {
  TRY_STATUS(charge(sizeof(Dict) + members.size() * sizeof(Dict::Member)));
  int nesting = 1;
  for (const auto& [key, value] : members) nesting = std::max({nesting, 1 + key.nesting(), 1 + value.nesting()});
  TRY_STATUS(may_nest(nesting));
  return Value(std::make_shared<const Dict>(Dict{std::move(members), nesting}));
}

Status Machine::Visit::allowed() {
  if (machine_.depth_ > machine_.limits_.depth) {
    return machine_.fail("expressions, statements and macro calls are nested deeper than ", machine_.limits_.depth);
  }
  return machine_.step();
}

Status Writer::add(std::string_view piece) {
  TRY_STATUS(machine_.can_make(text_.size() + piece.size()));
  TRY_STATUS(machine_.handle(piece.size()));
  text_ += piece;
  return {};
}

}  // namespace sluice::jinja
