// Operators that look into values: items, lengths, members and attributes (operators.h).
#include <algorithm>
#include <limits>

#include "text/jinja/builtins/methods.h"
#include "text/jinja/builtins/strings.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

Error not_iterable(const Machine& machine, const Value& value) {
  return machine.fail("found a ", value.type_name(), ": want something to loop over");
}

Result<std::shared_ptr<const List>> items_of_text(Machine& machine, const Text& text) {
  TRY_STATUS(machine.look(text.bytes.size()));
  ListMaker items(machine);
  for (std::string_view rest = text.bytes; !rest.empty();) {
    const size_t bytes = character_bytes(rest);
    TRY(Value item, machine.text(std::string(rest.substr(0, bytes))));
    TRY_STATUS(items.add(std::move(item)));
    rest.remove_prefix(bytes);
  }
  TRY(const Value list, items.take());
  return list.list_pointer();
}

}  // namespace

bool is_iterable(const Value& value) {
  return value.is(Kind::list) || value.is(Kind::dict) || value.is(Kind::text) || value.is(Kind::undefined);
}

Result<std::shared_ptr<const List>> items_of(Machine& machine, const Value& value) {
  switch (value.kind()) {
    case Kind::list: {
      const std::shared_ptr<const List>& list = value.list_pointer();
      if (list->flavour != Flavour::generator) return list;
      if (list->consumed) return std::make_shared<const List>();
      list->consumed = true;
      return list;
    }
    case Kind::dict: {
      TRY(const Value keys, key_view(machine, value.as_dict()));
      return keys.list_pointer();
    }
    case Kind::text: return items_of_text(machine, value.as_text());
    case Kind::undefined: return std::make_shared<const List>();
    default: return not_iterable(machine, value);
  }
}

Result<int64_t> length(Machine& machine, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return int64_t{0};
    case Kind::dict: return static_cast<int64_t>(value.as_dict().members.size());
    case Kind::text: {
      const Text& text = value.as_text();
      if (text.ascii) return static_cast<int64_t>(text.bytes.size());
      TRY_STATUS(machine.look(value));
      return static_cast<int64_t>(count_characters(text.bytes));
    }
    case Kind::list:
      if (value.as_list().flavour != Flavour::generator) return static_cast<int64_t>(value.as_list().items.size());
      break;
    default: break;
  }
  return machine.fail("a ", value.type_name(), " has no length: want a string, a list or a dict");
}

bool can_be_key(const Value& key) {
  return !key.is(Kind::dict) && (!key.is(Kind::list) || key.as_list().flavour != Flavour::list);
}

namespace {

// The index of the member with that key; the number of members if there is none.
Result<size_t> index_of(Machine& machine, std::span<const Dict::Member> members, std::string_view key) {
  TRY_STATUS(machine.step(members.size() / 8));
  for (size_t i = 0; i < members.size(); ++i) {
    const std::string* name = members[i].first.bytes();
    if (name == nullptr || name->size() != key.size()) continue;
    if (key.size() > kTemplateStepBytes) TRY_STATUS(machine.look(key.size()));
    if (*name == key) return i;
  }
  return members.size();
}

Result<size_t> index_of(Machine& machine, std::span<const Dict::Member> members, const Value& key) {
  if (const std::string* name = key.bytes()) return index_of(machine, members, std::string_view(*name));
  if (!can_be_key(key)) return machine.fail("a ", key.type_name(), " cannot be a key: want a string");
  for (size_t i = 0; i < members.size(); ++i) {
    TRY(const bool same, equal(machine, members[i].first, key));
    if (same) return i;
  }
  return members.size();
}

}  // namespace

Result<const Value*> find_member(Machine& machine, std::span<const Dict::Member> members, const Value& key) {
  TRY(const size_t at, index_of(machine, members, key));
  return at < members.size() ? &members[at].second : nullptr;
}

Result<const Value*> find_member(Machine& machine, std::span<const Dict::Member> members, std::string_view key) {
  TRY(const size_t at, index_of(machine, members, key));
  return at < members.size() ? &members[at].second : nullptr;
}

Status DictMaker::append(Value key, Value value) {
  if (members_.size() == members_.capacity()) {
    const size_t count = members_.empty() ? 4 : 2 * members_.size();
    TRY(Room room, machine_.room(count * sizeof(Dict::Member)));
    members_.reserve(count);
    room_ = std::move(room);
  }
  members_.emplace_back(std::move(key), std::move(value));
  return {};
}

Status DictMaker::add(Value key, Value value) {
  TRY(const size_t at, index_of(machine_, members_, key));
  if (at == members_.size()) return append(std::move(key), std::move(value));
  members_[at].second = std::move(value);
  return {};
}

Result<bool> DictMaker::add_new(Value key) {
  TRY(const size_t at, index_of(machine_, members_, key));
  if (at < members_.size()) return false;
  TRY_STATUS(append(std::move(key), None{}));
  return true;
}

Result<Value> DictMaker::take() {
  room_.release();
  return machine_.dict(std::move(members_));
}

Result<Value> key_view(Machine& machine, const Dict& dict) {
  ListMaker keys(machine);
  TRY_STATUS(keys.reserve(dict.members.size()));
  for (const auto& [key, value] : dict.members) TRY_STATUS(keys.add(key));
  return keys.take(Flavour::view, "dict_keys");
}

Result<Value> value_view(Machine& machine, const Dict& dict) {
  ListMaker values(machine);
  TRY_STATUS(values.reserve(dict.members.size()));
  for (const auto& [key, value] : dict.members) TRY_STATUS(values.add(value));
  return values.take(Flavour::view, "dict_values");
}

Result<Value> item_view(Machine& machine, const Dict& dict) {
  ListMaker items(machine);
  for (const auto& [key, value] : dict.members) {
    TRY(Value item, machine.tuple(key, value));
    TRY_STATUS(items.add(std::move(item)));
  }
  return items.take(Flavour::view, "dict_items");
}

namespace {

std::string_view type_of(const Value& object) { return object.is(Kind::none) ? "None" : object.type_name(); }

Result<Value> no_attribute(Machine& machine, const Value& object, std::string_view name) {
  return machine.undefined("'", type_of(object), " object' has no attribute '", printable(name), "'");
}

Result<Value> no_item(Machine& machine, const Value& object, const Value& key) {
  if (const std::string* name = key.bytes()) return no_attribute(machine, object, *name);
  if (!key.is_integral()) return machine.undefined("'", type_of(object), " object' has no such element");
  return machine.undefined("'", type_of(object), " object' has no element ", key.as_integer());
}

bool indexable(const Value& object) {
  if (object.is(Kind::text)) return true;
  return object.is(Kind::list) && object.as_list().flavour != Flavour::generator &&
         object.as_list().flavour != Flavour::view;
}

// None if the index is out of range.
Result<std::optional<Value>> item_at(Machine& machine, const Value& object, int64_t index) {
  TRY(const int64_t size, length(machine, object));
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::optional<Value>();
  const auto at = static_cast<size_t>(index);
  if (object.is(Kind::list)) return std::optional<Value>(object.as_list().items[at]);
  const Text& text = object.as_text();
  if (!text.ascii) TRY_STATUS(machine.look(object));
  const size_t start = text.ascii ? at : character_offset(text.bytes, at);
  const size_t bytes = text.ascii ? 1 : character_bytes(std::string_view(text.bytes).substr(start));
  TRY(Value character, machine.text(text.bytes.substr(start, bytes), text.safe));
  return std::optional<Value>(std::move(character));
}

}  // namespace

Result<Value> get_item(Machine& machine, const Value& object, const Value& key) {
  if (object.is(Kind::undefined)) return machine.fail(object.reason(), ", so it has no elements");
  if (object.is(Kind::dict) && can_be_key(key)) {
    TRY(const Value* member, find_member(machine, object.as_dict().members, key));
    if (member != nullptr) return *member;
  } else if (key.is_integral() && indexable(object)) {
    TRY(std::optional<Value> item, item_at(machine, object, key.as_integer()));
    if (item) return *std::move(item);
  }
  if (const std::string* name = key.bytes()) {
    if (object.is(Kind::object)) return object.as_object().attribute(machine, *name);
    TRY(std::optional<Value> method, find_method(machine, object, *name));
    if (method) return *std::move(method);
  }
  return no_item(machine, object, key);
}

Result<Value> get_attribute(Machine& machine, const Value& object, std::string_view name) {
  if (object.is(Kind::undefined))
    return machine.fail(object.reason(), ", so it has no attribute \"", printable(name), "\"");
  if (object.is(Kind::object)) return object.as_object().attribute(machine, name);
  TRY(std::optional<Value> method, find_method(machine, object, name));
  if (method) return *std::move(method);
  if (object.is(Kind::dict)) {
    TRY(const Value* member, find_member(machine, object.as_dict().members, name));
    if (member != nullptr) return *member;
  }
  return no_attribute(machine, object, name);
}

namespace {

struct Range {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

Result<int64_t> slice_part(Machine& machine, const Value& value, int64_t otherwise) {
  if (value.is(Kind::none) || value.is(Kind::undefined)) return otherwise;
  if (!value.is_integral()) return machine.fail("found a ", value.type_name(), " in a slice: want an integer");
  return value.as_integer();
}

// Python's slice.indices().
Result<Range> slice_range(Machine& machine, int64_t size, const Value& start, const Value& stop, const Value& step) {
  TRY(const int64_t by, slice_part(machine, step, 1));
  if (by == 0) return machine.fail("found 0 as a slice's step: want another integer");
  const int64_t lowest = by > 0 ? 0 : -1;
  const int64_t highest = by > 0 ? size : size - 1;
  const auto clamp = [&](int64_t index) { return std::clamp(index < 0 ? index + size : index, lowest, highest); };
  TRY(int64_t first, slice_part(machine, start, by > 0 ? 0 : std::numeric_limits<int64_t>::max()));
  TRY(int64_t last, slice_part(machine, stop, std::numeric_limits<int64_t>::max()));
  first = clamp(first);
  const bool open = stop.is(Kind::none) || stop.is(Kind::undefined);
  last = open ? (by > 0 ? size : -1) : clamp(last);
  const int64_t distance = by > 0 ? last - first : first - last;
  if (distance <= 0) return Range{first, by, 0};
  const uint64_t stride = by > 0 ? static_cast<uint64_t>(by) : uint64_t{0} - static_cast<uint64_t>(by);
  return Range{first, by, static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / stride) + 1};
}

// Goes through the text once, from the first character to the last one, forward or backward.
Result<Value> slice_text(Machine& machine, const Text& text, const Range& range) {
  if (range.count == 0) return machine.text("", text.safe);
  const std::string_view bytes = text.bytes;
  TRY_STATUS(machine.look(bytes.size()));
  const auto start = static_cast<size_t>(range.start);
  size_t at = text.ascii ? start : character_offset(bytes, start);
  Writer out(machine);
  if (range.step == 1) {
    const std::string_view rest = bytes.substr(at);
    const auto count = static_cast<size_t>(range.count);
    TRY_STATUS(out.add(rest.substr(0, text.ascii ? count : character_offset(rest, count))));
    return out.take(text.safe);
  }
  const uint64_t stride =
      range.step > 0 ? static_cast<uint64_t>(range.step) : uint64_t{0} - static_cast<uint64_t>(range.step);
  for (int64_t i = 0;;) {
    TRY_STATUS(out.add(bytes.substr(at, character_bytes(bytes.substr(at)))));
    if (++i == range.count) return out.take(text.safe);
    for (uint64_t step = 0; step < stride; ++step)
      at = range.step > 0 ? at + character_bytes(bytes.substr(at)) : last_character(bytes.substr(0, at));
  }
}

}  // namespace

Result<Value> get_slice(Machine& machine, const Value& object, const Value& start, const Value& stop,
                        const Value& step) {
  if (object.is(Kind::undefined)) return machine.fail(object.reason(), ", so it has no elements");
  if (!indexable(object)) return machine.fail("found a slice of a ", object.type_name(), ": want a string or a list");
  TRY(const int64_t size, length(machine, object));
  TRY(const Range range, slice_range(machine, size, start, stop, step));
  if (object.is(Kind::text)) return slice_text(machine, object.as_text(), range);
  const List& list = object.as_list();
  ListMaker items(machine);
  TRY_STATUS(items.reserve(static_cast<uint64_t>(range.count)));
  for (int64_t i = 0; i < range.count; ++i)
    TRY_STATUS(items.add(list.items[static_cast<size_t>(range.start + i * range.step)]));
  return items.take(list.flavour == Flavour::tuple ? Flavour::tuple : Flavour::list);
}

}  // namespace sluice::jinja
