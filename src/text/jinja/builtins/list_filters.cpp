// Filters of lists: sort, map, select, groupby and their kin (filters.h).
#include <algorithm>
#include <iterator>

#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/is_tests.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/builtins/strings.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

using Items = std::shared_ptr<const List>;

Result<Value> nothing(Machine& machine) { return machine.list({}, Flavour::generator); }

// Returns the text before the first `separator`, and leaves the text behind it in `rest`.
std::string_view take_part(std::string_view& rest, char separator) {
  const std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

Result<Value> element_at(Machine& machine, Value item, std::string_view path, const Value& otherwise = {}) {
  for (bool more = true; more;) {
    more = path.find('.') != std::string_view::npos;
    const std::string_view name = take_part(path, '.');
    const auto index = all_of(name, Class::digit) ? parse_integer(name) : std::nullopt;
    TRY(const Value key, index ? Result<Value>(Value(*index)) : machine.text(std::string(name)));
    TRY(item, get_item(machine, item, key));
    if (item.is(Kind::undefined) && given(otherwise)) item = otherwise;
  }
  return item;
}

// Follows a path such as "address.city" or 0 into the item. Without a path, returns the item.
Result<Value> element(Machine& machine, Value item, const Value& path, const Value& otherwise = {}) {
  if (!given(path)) return item;
  if (path.is_integral()) return get_item(machine, item, path);
  TRY(const std::string* names, want_text(machine, path, "attribute"));
  return element_at(machine, std::move(item), *names, otherwise);
}

Result<Value> folded(Machine& machine, Value value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::text)) return value;
  return machine.text(lower(value.as_text().bytes));
}

Result<Value> sort_key(Machine& machine, const Value& item, const Value& attribute, bool case_sensitive) {
  if (!attribute.is(Kind::text)) {
    TRY(Value key, element(machine, item, attribute));
    return folded(machine, std::move(key), case_sensitive);
  }
  TRY(const std::string* paths, want_text(machine, attribute, "sort"));
  std::string_view rest = *paths;
  ListMaker keys(machine);
  for (bool more = true; more;) {
    more = rest.find(',') != std::string_view::npos;
    TRY(Value key, element_at(machine, item, take_part(rest, ',')));
    TRY(key, folded(machine, std::move(key), case_sensitive));
    TRY_STATUS(keys.add(std::move(key)));
  }
  return keys.take();
}

struct Keyed {
  Value key;
  Value item;
};

// Room for a vector that grows to twice its entries, for the second vector that merging needs, and for the items.
Result<Room> room_to_sort(Machine& machine, size_t count) { return machine.room(3 * count * sizeof(Keyed)); }

// A stable merge sort. If two keys have no order, further comparisons mean nothing and the sort fails at its end.
// Merging is safe with such comparisons, std::sort is not.
Result<std::vector<Value>> sorted(Machine& machine, std::vector<Keyed> entries, bool reverse) {
  Status status;
  const auto before = [&](const Keyed& a, const Keyed& b) {
    if (!status) return false;
    const Result<bool> result = reverse ? less(machine, b.key, a.key) : less(machine, a.key, b.key);
    if (!result) status = result.error();
    return result && *result;
  };
  const size_t size = entries.size();
  std::vector<Keyed> merged(size);
  for (size_t run = 1; run < size; run *= 2) {
    for (size_t at = 0; at < size && status; at += 2 * run) {
      const auto from = [&](size_t offset) {
        return std::make_move_iterator(entries.begin() + static_cast<std::ptrdiff_t>(std::min(at + offset, size)));
      };
      std::merge(from(0), from(run), from(run), from(2 * run), merged.begin() + static_cast<std::ptrdiff_t>(at),
                 before);
    }
    std::swap(entries, merged);
  }
  TRY_STATUS(status);
  merged = {};
  std::vector<Value> out;
  out.reserve(entries.size());
  for (Keyed& entry : entries) out.push_back(std::move(entry.item));
  return out;
}

Result<Value> sort(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Items items, items_of(machine, input));
  TRY(const Room room, room_to_sort(machine, items->items.size()));
  std::vector<Keyed> entries;
  for (const Value& item : items->items) {
    TRY(Value key, sort_key(machine, item, arguments.positional[2], truth_or(arguments.positional[1], false)));
    entries.push_back({std::move(key), item});
  }
  TRY(std::vector<Value> out, sorted(machine, std::move(entries), truth_or(arguments.positional[0], false)));
  return machine.list(std::move(out));
}

Result<Value> dict_sort(Machine& machine, const Value& input, const Arguments& arguments) {
  if (!input.is(Kind::dict)) return machine.fail("dictsort: found a ", input.type_name(), ": want a dict");
  TRY(const std::string by, text_or(machine, arguments.positional[1], "key", "dictsort"));
  if (by != "key" && by != "value")
    return machine.fail("dictsort: found by=\"", printable(by), "\": want key or value");
  TRY(const Value items, item_view(machine, input.as_dict()));
  TRY(const Room room, room_to_sort(machine, items.as_list().items.size()));
  std::vector<Keyed> entries;
  for (const Value& item : items.as_list().items) {
    const Value& key = item.as_list().items[by == "key" ? 0 : 1];
    TRY(Value sorting, folded(machine, key, truth_or(arguments.positional[0], false)));
    entries.push_back({std::move(sorting), item});
  }
  TRY(std::vector<Value> out, sorted(machine, std::move(entries), truth_or(arguments.positional[2], false)));
  return machine.list(std::move(out));
}

Result<Value> unique(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Items items, items_of(machine, input));
  DictMaker seen(machine);
  ListMaker out(machine);
  for (const Value& item : items->items) {
    TRY(Value key, element(machine, item, arguments.positional[1]));
    TRY(key, folded(machine, std::move(key), truth_or(arguments.positional[0], false)));
    TRY(const bool is_new, seen.add_new(std::move(key)));
    if (is_new) TRY_STATUS(out.add(item));
  }
  return out.take(Flavour::generator);
}

template <bool largest>
Result<Value> extreme(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Items items, items_of(machine, input));
  if (items->items.empty()) return machine.undefined("the smallest or largest of no items is undefined");
  Keyed best;
  for (const Value& item : items->items) {
    TRY(Value key, element(machine, item, arguments.positional[1]));
    TRY(key, folded(machine, std::move(key), truth_or(arguments.positional[0], false)));
    const bool first = &item == items->items.data();
    TRY(const bool better,
        first ? Result<bool>(true) : (largest ? less(machine, best.key, key) : less(machine, key, best.key)));
    if (better) best = {std::move(key), item};
  }
  return best.item;
}

Result<Value> sum(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Items items, items_of(machine, input));
  Value total = arguments.positional[1].is(Kind::undefined) ? Value(int64_t{0}) : arguments.positional[1];
  for (const Value& item : items->items) {
    TRY(const Value value, element(machine, item, arguments.positional[0]));
    TRY(total, calculate(machine, BinaryOperator::add, total, value));
  }
  return total;
}

Result<Value> group_by(Machine& machine, const Value& input, const Arguments& arguments) {
  const Value& attribute = arguments.positional[0];
  const bool case_sensitive = truth_or(arguments.positional[2], false);
  TRY(const Items items, items_of(machine, input));
  TRY(const Room room, room_to_sort(machine, items->items.size()));
  std::vector<Keyed> entries;
  for (const Value& item : items->items) {
    TRY(Value key, element(machine, item, attribute, arguments.positional[1]));
    TRY(key, folded(machine, std::move(key), case_sensitive));
    entries.push_back({std::move(key), item});
  }
  TRY(const std::vector<Value> ordered, sorted(machine, std::move(entries), false));
  ListMaker groups(machine);
  for (size_t at = 0; at < ordered.size();) {
    TRY(const Value key, element(machine, ordered[at], attribute, arguments.positional[1]));
    TRY(const Value folded_key, folded(machine, key, case_sensitive));
    ListMaker members(machine);
    for (; at < ordered.size(); ++at) {
      TRY(Value other, element(machine, ordered[at], attribute, arguments.positional[1]));
      TRY(other, folded(machine, std::move(other), case_sensitive));
      TRY(const bool same, equal(machine, folded_key, other));
      if (!same) break;
      TRY_STATUS(members.add(ordered[at]));
    }
    TRY(Value list, members.take());
    TRY(Value group, machine.tuple(key, std::move(list)));
    TRY_STATUS(groups.add(std::move(group)));
  }
  return groups.take();
}

Result<Value> first(Machine& machine, const Value& input, const Arguments&) {
  TRY(const Items items, items_of(machine, input));
  if (items->items.empty()) return machine.undefined("the first of no items is undefined");
  return items->items.front();
}

Result<Value> last(Machine& machine, const Value& input, const Arguments&) {
  if (input.is(Kind::list) && input.as_list().flavour == Flavour::generator)
    return machine.fail("last: found a generator: want a list");
  TRY(const Items items, items_of(machine, input));
  if (items->items.empty()) return machine.undefined("the last of no items is undefined");
  return items->items.back();
}

Result<ListMaker> copy_of(Machine& machine, const List& list) {
  ListMaker out(machine);
  TRY_STATUS(out.reserve(list.items.size()));
  for (const Value& item : list.items) TRY_STATUS(out.add(item));
  return out;
}

Result<Value> to_list(Machine& machine, const Value& input, const Arguments&) {
  TRY(const Items items, items_of(machine, input));
  TRY(ListMaker out, copy_of(machine, *items));
  return out.take();
}

Result<Value> reverse(Machine& machine, const Value& input, const Arguments&) {
  if (input.is(Kind::text)) return get_slice(machine, input, Value(), Value(), Value(int64_t{-1}));
  TRY(const Items items, items_of(machine, input));
  TRY(ListMaker out, copy_of(machine, *items));
  out.reverse();
  return out.take(Flavour::generator);
}

Result<Value> items(Machine& machine, const Value& input, const Arguments&) {
  if (input.is(Kind::undefined)) return nothing(machine);
  if (!input.is(Kind::dict)) return machine.fail("items: found a ", input.type_name(), ": want a dict");
  TRY(const Value view, item_view(machine, input.as_dict()));
  TRY(ListMaker out, copy_of(machine, view.as_list()));
  return out.take(Flavour::generator);
}

Result<Value> join(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Items items, items_of(machine, input));
  TRY(const Value separator, to_text(machine, arguments.positional[0]));
  Writer out(machine);
  for (const Value& item : items->items) {
    if (&item != items->items.data()) TRY_STATUS(out.add(*separator.bytes()));
    TRY(const Value value, element(machine, item, arguments.positional[1]));
    TRY(const Value text, to_text(machine, value));
    TRY_STATUS(out.add(*text.bytes()));
  }
  return out.take();
}

// The arguments without the first `first` positional ones.
Result<Arguments> arguments_from(Machine& machine, const Arguments& all, size_t first) {
  Arguments out;
  uint64_t bytes = (all.positional.size() - first) * sizeof(Value);
  for (const auto& named : all.named) bytes += sizeof(named) + named.first.size();
  TRY(out.room, machine.room(bytes));
  out.positional.assign(all.positional.begin() + static_cast<std::ptrdiff_t>(first), all.positional.end());
  out.named = all.named;
  return out;
}

// map(attribute=.., default=..), or map("filter", arguments..)
Result<Value> map(Machine& machine, const Value& input, const Arguments& arguments) {
  if (!input.truthy()) return nothing(machine);
  TRY(const Items items, items_of(machine, input));
  Value attribute;
  Value otherwise;
  for (const auto& [name, value] : arguments.named) {
    if (name == "attribute") attribute = value;
    if (name == "default") otherwise = value;
  }
  const bool by_attribute = arguments.positional.empty() && given(attribute);
  if (arguments.positional.empty() && !by_attribute) return machine.fail("map: want the name of a filter");
  std::string filter;
  Arguments rest;
  if (!by_attribute) {
    TRY(filter, text_or(machine, arguments.positional[0], "", "map"));
    TRY(rest, arguments_from(machine, arguments, 1));
  }
  ListMaker out(machine);
  for (const Value& item : items->items) {
    TRY(Value value,
        by_attribute ? element(machine, item, attribute, otherwise) : apply_filter(machine, filter, item, rest));
    TRY_STATUS(out.add(std::move(value)));
  }
  return out.take(Flavour::generator);
}

// select and reject test the items; selectattr and rejectattr test an attribute of each item. Without a test, truth
// counts.
template <bool wanted, bool by_attribute>
Result<Value> select(Machine& machine, const Value& input, const Arguments& arguments) {
  constexpr size_t kTest = by_attribute ? 1 : 0;
  if (!input.truthy()) return nothing(machine);
  TRY(const Items items, items_of(machine, input));
  if (arguments.positional.size() < kTest) return machine.fail("selectattr: want the name of an attribute");
  const bool has_test = arguments.positional.size() > kTest;
  std::string test;
  Arguments rest;
  if (has_test) {
    TRY(test, text_or(machine, arguments.positional[kTest], "", "select"));
    TRY(rest, arguments_from(machine, arguments, kTest + 1));
  }
  ListMaker out(machine);
  for (const Value& item : items->items) {
    TRY(const Value value, by_attribute ? element(machine, item, arguments.positional[0]) : Result<Value>(item));
    TRY(const bool holds, has_test ? apply_test(machine, test, value, rest) : Result<bool>(value.truthy()));
    if (holds == wanted) TRY_STATUS(out.add(item));
  }
  return out.take(Flavour::generator);
}

// batch(n) makes lists of n items; slice(n) makes n lists of nearly equal length. Both can fill up short lists.
Result<Value> batch(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Items items, items_of(machine, input));
  TRY(const int64_t size, integer_or(machine, arguments.positional[0], 0, "batch"));
  if (size < 1) return machine.fail("batch: found a size of ", size, ": want 1 at least");
  const Value& fill = arguments.positional[1];
  ListMaker out(machine);
  for (size_t at = 0; at < items->items.size();) {
    ListMaker part(machine);
    if (given(fill)) TRY_STATUS(part.reserve(static_cast<uint64_t>(size)));
    while (at < items->items.size() && static_cast<int64_t>(part.size()) < size)
      TRY_STATUS(part.add(items->items[at++]));
    while (given(fill) && static_cast<int64_t>(part.size()) < size) TRY_STATUS(part.add(fill));
    TRY(Value list, part.take());
    TRY_STATUS(out.add(std::move(list)));
  }
  return out.take(Flavour::generator);
}

Result<Value> slice(Machine& machine, const Value& input, const Arguments& arguments) {
  TRY(const Items items, items_of(machine, input));
  TRY(const int64_t count, integer_or(machine, arguments.positional[0], 0, "slice"));
  if (count < 1) return machine.fail("slice: found ", count, " slices: want 1 at least");
  const auto slices = static_cast<uint64_t>(count);
  const uint64_t each = items->items.size() / slices;
  const uint64_t longer = items->items.size() % slices;
  ListMaker out(machine);
  size_t next = 0;
  for (uint64_t i = 0; i < slices; ++i) {
    const size_t end = next + static_cast<size_t>(each) + (i < longer ? 1 : 0);
    ListMaker part(machine);
    for (; next < end; ++next) TRY_STATUS(part.add(items->items[next]));
    if (i >= longer && given(arguments.positional[1])) TRY_STATUS(part.add(arguments.positional[1]));
    TRY(Value list, part.take());
    TRY_STATUS(out.add(std::move(list)));
  }
  return out.take(Flavour::generator);
}

constexpr Builtin kFilters[] = {
    {"first", first, "", 0, Looks::at_little},
    {"last", last, "", 0, Looks::at_little},
    {"list", to_list},
    {"reverse", reverse},
    {"items", items},
    {"join", join, "d,attribute"},
    {"map", map, "*"},
    {"select", select<true, false>, "*"},
    {"reject", select<false, false>, "*"},
    {"selectattr", select<true, true>, "*"},
    {"rejectattr", select<false, true>, "*"},
    {"sort", sort, "reverse,case_sensitive,attribute"},
    {"dictsort", dict_sort, "case_sensitive,by,reverse"},
    {"unique", unique, "case_sensitive,attribute"},
    {"groupby", group_by, "attribute,default,case_sensitive", 1},
    {"min", extreme<false>, "case_sensitive,attribute"},
    {"max", extreme<true>, "case_sensitive,attribute"},
    {"sum", sum, "attribute,start"},
    {"batch", batch, "linecount,fill_with", 1},
    {"slice", slice, "slices,fill_with", 1},
};

}  // namespace

std::span<const Builtin> list_filters() { return kFilters; }

}  // namespace sluice::jinja
