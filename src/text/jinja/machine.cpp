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

Error Machine::too_many_steps() const { return fail("the template takes more than ", limits_.steps, " steps"); }

uint64_t Machine::bytes_of(const Value& value) {
  switch (value.kind()) {
    case Kind::text: return value.as_text().bytes.size();
    case Kind::list: return value.as_list().items.size() * sizeof(Value);
    case Kind::dict: return value.as_dict().members.size() * sizeof(Dict::Member);
    default: return 0;
  }
}

Status Machine::grow(Room& room, uint64_t bytes) {
  if (room.grow(memory_, bytes)) return {};
  return fail("the template takes more than ", format_bytes(limits_.memory_bytes), " of memory");
}

Result<Room> Machine::room(uint64_t bytes) {
  Room room;
  TRY_STATUS(grow(room, bytes));
  return room;
}

Status Machine::may_be_text(uint64_t bytes) const {
  if (bytes <= limits_.text_bytes) return {};
  return fail("the template makes a text of more than ", format_bytes(limits_.text_bytes));
}

Result<Value> Machine::text(std::string bytes, bool safe) {
  TRY_STATUS(may_be_text(bytes.size()));
  TRY_STATUS(look(bytes.size()));
  TRY(Room room, this->room(sizeof(Text) + kHeldBytes + bytes.capacity()));
  return Value(std::move(bytes), safe, std::move(room));
}

Result<Value> Machine::list(std::vector<Value> items, Flavour flavour, std::string shown) {
  TRY_STATUS(look(items.size() * sizeof(Value)));
  TRY(Room room, this->room(sizeof(List) + kHeldBytes + items.capacity() * sizeof(Value) + shown.capacity()));
  int nesting = 1;
  for (const Value& item : items) nesting = std::max(nesting, 1 + item.nesting());
  TRY_STATUS(may_nest(nesting));
  return Value(std::make_shared<const List>(List{.items = std::move(items),
                                                 .flavour = flavour,
                                                 .shown = std::move(shown),
                                                 .nesting = nesting,
                                                 .room = std::move(room)}));
}

Result<Value> Machine::tuple(Value first, Value second) {
  std::vector<Value> items;
  items.reserve(2);
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return list(std::move(items), Flavour::tuple);
}

Result<Value> Machine::dict(std::vector<Dict::Member> members) {
  TRY_STATUS(look(members.size() * sizeof(Dict::Member)));
  TRY(Room room, this->room(sizeof(Dict) + kHeldBytes + members.capacity() * sizeof(Dict::Member)));
  int nesting = 1;
  for (const auto& [key, value] : members) nesting = std::max({nesting, 1 + key.nesting(), 1 + value.nesting()});
  TRY_STATUS(may_nest(nesting));
  return Value(std::make_shared<const Dict>(Dict{std::move(members), nesting, std::move(room)}));
}

Status Machine::Visit::allowed() {
  if (machine_.depth_ > machine_.limits_.depth)
    return machine_.fail("expressions, statements and macro calls are nested deeper than ", machine_.limits_.depth);
  return machine_.step();
}

Status Writer::add(std::string_view piece) {
  const size_t size = text_.size() + piece.size();
  TRY_STATUS(machine_.may_be_text(size));
  TRY_STATUS(machine_.look(piece.size()));
  if (size > text_.capacity()) {
    // While the text moves, both blocks of memory exist.
    TRY(Room room, machine_.room(std::max<uint64_t>(size, 2 * text_.capacity())));
    text_.reserve(std::max(size, 2 * text_.capacity()));
    room_ = std::move(room);
  }
  text_ += piece;
  return {};
}

Result<Value> Writer::take(bool safe) {
  room_.release();
  return machine_.text(std::move(text_), safe);
}

Status ListMaker::reserve(uint64_t count) {
  const uint64_t bytes = count > UINT64_MAX / sizeof(Value) ? UINT64_MAX : count * sizeof(Value);
  TRY(Room room, machine_.room(bytes));
  items_.reserve(static_cast<size_t>(count));
  room_ = std::move(room);
  return {};
}

Result<Value> ListMaker::take(Flavour flavour, std::string shown) {
  room_.release();
  return machine_.list(std::move(items_), flavour, std::move(shown));
}

}  // namespace sluice::jinja
