#include "text/jinja/builtins/globals.h"

#include <algorithm>

#include "base/limits.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

Result<Value> range(Machine& machine, const Value&, const Arguments& arguments) {
  const auto& given_values = arguments.positional;
  if (given_values.empty() || given_values.size() > 3 || !arguments.named.empty())
    return machine.fail("range: want one to three integers");
  int64_t parts[3] = {0, 0, 1};  // start, stop, step
  for (size_t i = 0; i < given_values.size(); ++i) {
    if (!given_values[i].is_integral())
      return machine.fail("range: found a ", given_values[i].type_name(), ": want an integer");
    parts[given_values.size() == 1 ? 1 : i] = given_values[i].as_integer();
  }
  const auto [start, stop, step] = parts;
  if (step == 0) return machine.fail("range: found a step of 0: want another integer");
  const auto low = static_cast<uint64_t>(step > 0 ? start : stop);
  const auto high = static_cast<uint64_t>(step > 0 ? stop : start);
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = empty ? 0 : (high - low - 1) / stride + 1;
  if (count > kMaxTemplateRange)
    return machine.fail("range: found ", count, " numbers: want ", kMaxTemplateRange, " at most");
  ListMaker numbers(machine);
  TRY_STATUS(numbers.reserve(count));
  for (uint64_t i = 0; i < count; ++i) TRY_STATUS(numbers.add(Value(start + static_cast<int64_t>(i) * step)));
  std::string shown = cat("range(", start, ", ", stop, step == 1 ? "" : cat(", ", step), ")");
  return numbers.take(Flavour::range, std::move(shown));
}

// dict(a dict or pairs, name=value)
Result<Value> dict(Machine& machine, const Value&, const Arguments& arguments) {
  DictMaker maker(machine);
  if (arguments.positional.size() > 1) return machine.fail("dict: want one dict or list of pairs, and named arguments");
  for (const Value& source : arguments.positional) {
    if (source.is(Kind::dict)) {
      for (const auto& [key, value] : source.as_dict().members) TRY_STATUS(maker.add(key, value));
      continue;
    }
    TRY(const auto pairs, items_of(machine, source));
    for (const Value& pair : pairs->items) {
      TRY(const auto parts, items_of(machine, pair));
      if (parts->items.size() != 2)
        return machine.fail("dict: found an item of ", parts->items.size(), " parts: want pairs");
      TRY_STATUS(maker.add(parts->items[0], parts->items[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) {
    TRY(Value key, machine.text(name));
    TRY_STATUS(maker.add(std::move(key), value));
  }
  return maker.take();
}

Result<Value> make_namespace(Machine& machine, const Value& self, const Arguments& arguments) {
  TRY(const Value members, dict(machine, self, arguments));
  TRY(auto made, machine.object<Namespace>(2 * sizeof(std::shared_ptr<Namespace>)));
  machine.keep(made);
  for (const auto& [key, value] : members.as_dict().members) {
    TRY(const std::string* name, want_text(machine, key, "namespace"));
    TRY_STATUS(made->set(machine, *name, value));
  }
  return Value(std::static_pointer_cast<Object>(std::move(made)));
}

Result<Value> cycler(Machine& machine, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty()) return machine.fail("cycler: want one item at least");
  TRY(auto made, machine.object<Cycler>(arguments.positional.size() * sizeof(Value), arguments.positional));
  TRY_STATUS(machine.may_nest(made->nesting()));
  return Value(std::static_pointer_cast<Object>(std::move(made)));
}

Result<Value> joiner(Machine& machine, const Value&, const Arguments& arguments) {
  TRY(std::string separator, text_or(machine, arguments.positional[0], ", ", "joiner"));
  TRY(Value text, machine.text(std::move(separator)));
  TRY(auto made, machine.object<Joiner>(0, std::move(text)));
  return Value(std::static_pointer_cast<Object>(std::move(made)));
}

Result<Value> raise_exception(Machine& machine, const Value&, const Arguments& arguments) {
  TRY(const Value message, to_text(machine, arguments.positional[0]));
  return machine.fail("the template refuses this conversation: ", printable(*message.bytes(), 500));
}

// One conversion, "%d" or "%-d". The C library's month and day names are English, since no locale is ever set.
Result<std::string> show_time(Machine& machine, std::string_view conversion) {
  static constexpr std::string_view kKnown = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY";
  if (conversion == "%%") return std::string("%");
  if (conversion == "%f") return std::string("000000");
  if (conversion == "%z" || conversion == "%Z") return std::string();  // a local time has no zone
  if (conversion.size() < 2 || kKnown.find(conversion.back()) == std::string_view::npos)
    return machine.fail("strftime_now: \"", printable(conversion), "\" is not known");
  const std::string format(conversion);
  char text[128];
  return std::string(text, std::strftime(text, sizeof text, format.c_str(), &machine.now()));
}

Result<Value> strftime_now(Machine& machine, const Value&, const Arguments& arguments) {
  TRY(const std::string* format, want_text(machine, arguments.positional[0], "strftime_now"));
  Writer out(machine);
  for (std::string_view rest = *format; !rest.empty();) {
    const size_t plain = std::min(rest.find('%'), rest.size());
    TRY_STATUS(out.add(rest.substr(0, plain)));
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    const size_t size = rest.size() > 1 && rest[1] == '-' ? 3 : 2;
    TRY(const std::string shown, show_time(machine, rest.substr(0, size)));
    TRY_STATUS(out.add(shown));
    rest.remove_prefix(std::min(size, rest.size()));
  }
  return out.take();
}

constexpr Builtin kFunctions[] = {
    {"range", range, "*"},
    {"dict", dict, "*"},
    {"namespace", make_namespace, "*"},
    {"cycler", cycler, "*"},
    {"joiner", joiner, "sep"},
    {"raise_exception", raise_exception, "message", 1},
    {"strftime_now", strftime_now, "format", 1},
};

}  // namespace

std::span<const Builtin> global_functions() { return kFunctions; }

}  // namespace sluice::jinja
