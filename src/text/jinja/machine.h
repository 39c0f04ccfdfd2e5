// The Machine counts what a rendering uses: steps, memory, depth. Every function of the interpreter gets the Machine,
// makes its values through it and fails through it. So no template, hostile or broken, can run for long, fill the
// memory or overflow the stack, and every error names the template's line.
//
// Three rules bound time and memory for every builtin, also future ones. call_builtin charges a step for each 16 bytes
// of the object and the arguments, and reserves several times as much memory. The Machine charges for every value when
// it makes the value. A builtin may read its input several times, in linear time; to read more, such as items of items,
// it uses the operators (operators.h), want_text or to_text, which charge for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "text/jinja/value.h"

namespace sluice::jinja {

// The limits of one template; tests set smaller ones.
struct Limits {
  uint64_t template_bytes = kMaxTemplateBytes;
  uint64_t steps = kMaxTemplateSteps;
  uint64_t memory_bytes = kMaxTemplateMemoryBytes;
  uint64_t text_bytes = kMaxTemplateTextBytes;  // of one text, and of all printed text
  int depth = kMaxTemplateDepth;
};

// What one rendering used.
struct Usage {
  uint64_t steps = 0;
  uint64_t peak_bytes = 0;
};

class Namespace;

class Machine {
 public:
  // `name` stands in errors: "chat_template.jinja". It and `now` (what strftime_now shows) must outlive the Machine.
  Machine(std::string_view name, const Limits& limits, const std::tm& now)
      : name_(name), limits_(limits), now_(now), memory_(limits.memory_bytes) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine();

  Status step(uint64_t units = 1) {
    steps_ += units;
    return steps_ <= limits_.steps ? Status() : too_many_steps();
  }
  // Charges steps for reading so many bytes, or a value's own contents: a text's bytes, a list's items.
  Status look(uint64_t bytes) { return step(1 + bytes / kTemplateStepBytes); }
  Status look(const Value& value) { return look(bytes_of(value)); }
  static uint64_t bytes_of(const Value& value);

  // Reserves memory for new values, possibly before work begins.
  Result<Room> room(uint64_t bytes);
  Status grow(Room& room, uint64_t bytes);
  Status may_be_text(uint64_t bytes) const;

  Result<Value> text(std::string bytes, bool safe = false);
  Result<Value> list(std::vector<Value> items, Flavour flavour = Flavour::list, std::string shown = {});
  Result<Value> tuple(Value first, Value second);
  // The keys must differ. If they may not, use DictMaker (operators.h).
  Result<Value> dict(std::vector<Dict::Member> members);
  // An object that holds `extra` bytes besides itself.
  template <class T, class... Parts>
  Result<std::shared_ptr<T>> object(uint64_t extra, Parts&&... parts) {
    TRY(Room room, this->room(sizeof(T) + kHeldBytes + extra));
    auto made = std::make_shared<T>(std::forward<Parts>(parts)...);
    made->hold(std::move(room));
    return made;
  }
  template <class... Parts>
  Result<Value> undefined(const Parts&... parts) {
    std::string reason = cat(parts...);
    TRY(Room room, this->room(sizeof(std::string) + sizeof(Room) + kHeldBytes + reason.size()));
    return Value::undefined(std::move(reason), std::move(room));
  }

  // Whether a container of this nesting may be made.
  Status may_nest(int nesting) const;
  // A namespace may hold itself. It lives until the rendering ends, and is emptied then.
  void keep(std::shared_ptr<Namespace> made) { namespaces_.push_back(std::move(made)); }

  // An error at the line being worked on.
  template <class... Parts>
  Error fail(const Parts&... parts) const {
    return error(ErrorKind::invalid, name_, ":", line_, ": ", parts...);
  }

  const Limits& limits() const { return limits_; }
  const std::tm& now() const { return now_; }
  int line() const { return line_; }
  Usage usage() const { return {steps_, memory_.peak()}; }

  // While one lives, a node of the template or a builtin is being worked on.
  class Visit {
   public:
    Visit(Machine& machine, int line) : machine_(machine), line_(machine.line_) {
      machine_.line_ = line;
      ++machine_.depth_;
    }
    ~Visit() {
      machine_.line_ = line_;
      --machine_.depth_;
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    Status allowed();

   private:
    Machine& machine_;
    int line_;
  };

  // The memory of a shared value beyond its own size: its counters, and the overhead of one or two allocations.
  static constexpr uint64_t kHeldBytes = 64;

 private:
  Error too_many_steps() const;

  std::string_view name_;
  Limits limits_;
  const std::tm& now_;
  int line_ = 1;
  int depth_ = 0;
  uint64_t steps_ = 0;
  Memory memory_;  // declared before all members that hold its rooms
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

// A text built piece by piece, which counts while it grows.
class Writer {
 public:
  explicit Writer(Machine& machine) : machine_(machine) {}
  Status add(std::string_view piece);
  size_t size() const { return text_.size(); }
  Result<Value> take(bool safe = false);
  std::string take_bytes() { return std::move(text_); }

 private:
  Machine& machine_;
  std::string text_;
  Room room_;
};

// A list built item by item, which counts while it grows.
class ListMaker {
 public:
  explicit ListMaker(Machine& machine) : machine_(machine) {}
  Status reserve(uint64_t count);
  Status add(Value item) {
    if (items_.size() == items_.capacity()) TRY_STATUS(reserve(items_.empty() ? 4 : 2 * items_.size()));
    items_.push_back(std::move(item));
    return {};
  }
  size_t size() const { return items_.size(); }
  void reverse() { std::reverse(items_.begin(), items_.end()); }
  Result<Value> take(Flavour flavour = Flavour::list, std::string shown = {});

 private:
  Machine& machine_;
  std::vector<Value> items_;
  Room room_;
};

}  // namespace sluice::jinja
