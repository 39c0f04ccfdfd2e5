// Operators that compare: equality, order and `in` (operators.h).
#include <algorithm>
#include <cmath>

#include "text/jinja/builtins/strings.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

Result<bool> equal_lists(Machine& machine, const List& a, const List& b) {
  if (&a == &b) return true;
  if (a.flavour != b.flavour || a.items.size() != b.items.size()) return false;
  if (a.flavour == Flavour::generator) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    TRY(const bool same, equal(machine, a.items[i], b.items[i]));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_dicts(Machine& machine, const Dict& a, const Dict& b) {
  if (&a == &b) return true;
  if (a.members.size() != b.members.size()) return false;
  for (const auto& [key, value] : a.members) {
    TRY(const Value* other, find_member(machine, b.members, key));
    if (other == nullptr) return false;
    TRY(const bool same, equal(machine, value, *other));
    if (!same) return false;
  }
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
  return a.as_number() == b.as_number();
}

Error no_order(const Machine& machine, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) return machine.fail(a.reason(), ", so it cannot be compared");
  if (b.is(Kind::undefined)) return machine.fail(b.reason(), ", so it cannot be compared");
  return machine.fail("found a comparison of ", a.type_name(), " with ", b.type_name(), ": want two of a kind");
}

Result<bool> less_lists(Machine& machine, const List& a, const List& b) {
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i) {
    TRY(const bool same, equal(machine, a.items[i], b.items[i]));
    if (!same) return less(machine, a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size();
}

bool is_sequence(const Value& value) {
  return value.is(Kind::list) &&
         (value.as_list().flavour == Flavour::list || value.as_list().flavour == Flavour::tuple);
}

}  // namespace

Result<bool> equal(Machine& machine, const Value& a, const Value& b) {
  TRY_STATUS(machine.step());
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::text: {
      const std::string& left = a.as_text().bytes;
      const std::string& right = b.as_text().bytes;
      if (left.size() != right.size()) return false;
      TRY_STATUS(machine.look(a));
      return left == right;
    }
    case Kind::list: return equal_lists(machine, a.as_list(), b.as_list());
    case Kind::dict: return equal_dicts(machine, a.as_dict(), b.as_dict());
    case Kind::object: return &a.as_object() == &b.as_object();
    default: return true;  // none and none, undefined and undefined
  }
}

Result<bool> less(Machine& machine, const Value& a, const Value& b) {
  TRY_STATUS(machine.step());
  if (a.is_integral() && b.is_integral()) return a.as_integer() < b.as_integer();
  if (a.is_number() && b.is_number()) return a.as_number() < b.as_number();
  if (a.is(Kind::text) && b.is(Kind::text)) {
    TRY_STATUS(machine.look(std::min(a.as_text().bytes.size(), b.as_text().bytes.size())));
    return a.as_text().bytes < b.as_text().bytes;  // UTF-8 sorts as its code points do
  }
  if (is_sequence(a) && is_sequence(b) && a.as_list().flavour == b.as_list().flavour)
    return less_lists(machine, a.as_list(), b.as_list());
  return no_order(machine, a, b);
}

Result<bool> compare(Machine& machine, Comparison op, const Value& a, const Value& b) {
  const auto inverse = [](Result<bool> result) -> Result<bool> {
    if (!result) return result;
    return !*result;
  };
  const bool nan = a.is_number() && b.is_number() && (std::isnan(a.as_number()) || std::isnan(b.as_number()));
  switch (op) {
    case Comparison::equal: return equal(machine, a, b);
    case Comparison::not_equal: return inverse(equal(machine, a, b));
    case Comparison::less: return less(machine, a, b);
    case Comparison::greater: return less(machine, b, a);
    case Comparison::less_equal: return nan ? Result<bool>(false) : inverse(less(machine, b, a));
    case Comparison::greater_equal: return nan ? Result<bool>(false) : inverse(less(machine, a, b));
    case Comparison::in: return contains(machine, b, a);
    case Comparison::not_in: return inverse(contains(machine, b, a));
  }
  return false;
}

Result<size_t> find_text(Machine& machine, std::string_view text, std::string_view wanted, bool last) {
  TRY_STATUS(machine.look(text.size() + wanted.size()));
  TRY(const Room room, machine.room(wanted.size() * sizeof(uint32_t)));
  return Search(wanted, last ? Search::From::right : Search::From::left).in(text);
}

Result<bool> contains(Machine& machine, const Value& container, const Value& wanted) {
  if (container.is(Kind::text)) {
    if (!wanted.is(Kind::text))
      return machine.fail("found \"in\" with a ", wanted.type_name(), " and a str: want two strings");
    TRY(const size_t at, find_text(machine, container.as_text().bytes, wanted.as_text().bytes));
    return at != std::string_view::npos;
  }
  if (container.is(Kind::dict)) {
    TRY(const Value* member, find_member(machine, container.as_dict().members, wanted));
    return member != nullptr;
  }
  TRY(const auto items, items_of(machine, container));
  for (const Value& item : items->items) {
    TRY(const bool same, equal(machine, item, wanted));
    if (same || (item.is(Kind::number) && item.same_as(wanted))) return true;
  }
  return false;
}

}  // namespace sluice::jinja
