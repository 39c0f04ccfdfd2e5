// The values of a template: Python's values, as far as Jinja templates can see them.
//
// Strings, lists and dicts are shared and never change, because the sandbox of transformers forbids it. So copying a
// Value is cheap and containers have no cycles. Namespaces, loops and cyclers do change; each is an Object.
// Machine (machine.h) makes values and counts their memory. The constructors here are for values that the template or
// the caller already holds. Source: jinja2 3.1 (runtime, sandbox) and CPython's str().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/memory.h"

namespace sluice::jinja {

class Machine;
class Object;
class Value;
struct Text;
struct List;
struct Dict;

struct None {
  bool operator==(const None&) const = default;
};

// In the order of Value's alternatives.
enum class Kind : uint8_t { undefined, none, boolean, integer, number, text, list, dict, object };

class Value {
 public:
  Value();                                                               // undefined, without a reason
  Value(None value) : held_(value) {}                                    // NOLINT(google-explicit-constructor)
  Value(bool value) : held_(value) {}                                    // NOLINT(google-explicit-constructor)
  Value(int64_t value) : held_(value) {}                                 // NOLINT(google-explicit-constructor)
  Value(double value) : held_(value) {}                                  // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const List> value) : held_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<const Dict> value) : held_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Value(std::shared_ptr<Object> value) : held_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  explicit Value(std::string text, bool safe = false, Room room = {});
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  // `reason` is the text of errors about it: "'tool' is undefined".
  static Value undefined(std::string reason, Room room = {});

  Kind kind() const { return static_cast<Kind>(held_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_number() const { return is(Kind::boolean) || is(Kind::integer) || is(Kind::number); }
  bool is_integral() const { return is(Kind::boolean) || is(Kind::integer); }

  // The value; CHECKs the kind. as_integer takes booleans, as_number any number.
  bool as_bool() const;
  int64_t as_integer() const;
  double as_number() const;
  const Text& as_text() const;
  const List& as_list() const;
  const Dict& as_dict() const;
  Object& as_object() const;
  const std::shared_ptr<const List>& list_pointer() const;
  const std::shared_ptr<Object>& object_pointer() const;
  std::string_view reason() const;

  // The text's bytes; null if this is not a text.
  const std::string* bytes() const;
  // Python's bool().
  bool truthy() const;
  // Python's type name, for errors.
  std::string_view type_name() const;
  // The levels of nested containers, including this one; 0 if this is not a container.
  int nesting() const;
  // Python's "is": compares containers and objects by identity, other kinds by value.
  bool same_as(const Value& other) const;

 private:
  struct ReasonText {
    std::string text;
    Room room;
  };
  using Reason = std::shared_ptr<const ReasonText>;
  std::variant<Reason, None, bool, int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      held_;
};

// UTF-8. `safe` is markupsafe's Markup: what the filter "safe" made, which escapes what is added to it.
struct Text {
  std::string bytes;
  bool safe = false;
  bool ascii = true;  // then characters are bytes
  Room room = {};
};

// Python's type of the list, which decides printing, truth and the operations on it.
enum class Flavour : uint8_t { list, tuple, range, view, generator };

struct List {
  std::vector<Value> items;
  Flavour flavour = Flavour::list;
  std::string shown;  // how a range, view or generator prints: "range(0, 3)", "dict_keys"
  int nesting = 1;
  mutable bool consumed = false;  // a generator yields its items once
  Room room = {};
};

struct Dict {
  using Member = std::pair<Value, Value>;
  std::vector<Member> members;  // keys differ; in the order of insertion
  int nesting = 1;
  Room room = {};
};

struct Arguments {
  std::vector<Value> positional = {};
  std::vector<std::pair<std::string, Value>> named = {};
  Room room = {};
};

// A value that can change or be called.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual Result<Value> call(Machine& machine, const Arguments& arguments);
  // Undefined when there is no such attribute.
  virtual Result<Value> attribute(Machine& machine, std::string_view name);
  // The levels of nested containers, as in Value::nesting(). Takes constant time.
  virtual int nesting() const { return 0; }

  void hold(Room room) { room_ = std::move(room); }

 protected:
  Room room_;
};

// The Python value of a JSON document. `machine`, if given, counts its memory.
Result<Value> to_value(const Json& json, Machine* machine = nullptr);

}  // namespace sluice::jinja
