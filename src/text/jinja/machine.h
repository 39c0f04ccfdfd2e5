// What one rendering may use, and has used: steps, bytes, depth. Every function of the interpreter gets the Machine,
// makes its values through it and fails through it, so that no template - hostile or just broken - can run for long,
// fill the memory or overflow the stack, and every error names the template's line.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "text/jinja/value.h"

namespace sluice::jinja {

// What one template may use; tests have smaller ones.
struct Limits {
  uint64_t template_bytes = kMaxTemplateBytes;
  uint64_t steps = kMaxTemplateSteps;
  uint64_t made_bytes = kMaxTemplateMadeBytes;
  uint64_t output_bytes = kMaxTemplateOutputBytes;
  int depth = kMaxTemplateDepth;
};

class Namespace;

class Machine {
 public:
  // `name` stands in errors: "chat_template.jinja". It and `now` (what strftime_now shows) must outlive the Machine.
  Machine(std::string_view name, const Limits& limits, const std::tm& now) : name_(name), limits_(limits), now_(now) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine();

  Status step(uint64_t units = 1);
  // Steps for looking at so many bytes.
  Status handle(uint64_t bytes) { return step(1 + bytes / 64); }
  // Steps for looking for `wanted` bytes in a text, which at worst compares them at every place.
  Status search(uint64_t text, uint64_t wanted) { return step(1 + text / 64 + text * wanted / 1024); }
  // Whether so many bytes may still be made; to be asked before work whose result is larger than its input.
  Status can_make(uint64_t bytes) const;

  Result<Value> text(std::string bytes, bool safe = false);
  Result<Value> list(std::vector<Value> items, Flavour flavour = Flavour::list, std::string shown = {});
  Result<Value> tuple(Value first, Value second);
  // The keys must differ; see DictMaker (operators.h) where they may not.
  Result<Value> dict(std::vector<Dict::Member> members);
  Status charge(uint64_t bytes);
  // Whether a container of this nesting may be made.
  Status may_nest(int nesting) const;
  // A namespace can come to hold itself: it lives until the rendering ends, and is emptied then.
  void keep(std::shared_ptr<Namespace> made) { namespaces_.push_back(std::move(made)); }

  // An error at the line being worked on.
  template <class... Parts>
  Error fail(const Parts&... parts) const {
    return error(ErrorKind::invalid, name_, ":", line_, ": ", parts...);
  }

  const Limits& limits() const { return limits_; }
  const std::tm& now() const { return now_; }

  // Stands while a node of the template is worked on.
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

 private:
  std::string_view name_;
  Limits limits_;
  const std::tm& now_;
  int line_ = 1;
  int depth_ = 0;
  uint64_t steps_ = 0;
  uint64_t made_ = 0;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

// A string built piece by piece, never longer than may be made.
class Writer {
 public:
  explicit Writer(Machine& machine) : machine_(machine) {}
  Status add(std::string_view piece);
  Result<Value> take(bool safe = false) { return machine_.text(std::move(text_), safe); }
  std::string take_bytes() { return std::move(text_); }

 private:
  Machine& machine_;
  std::string text_;
};

}  // namespace sluice::jinja
