// Operators that calculate: numbers, and texts and lists that are joined or repeated (operators.h).
#include <cmath>

#include "text/jinja/builtins/format.h"
#include "text/jinja/builtins/strings.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

std::string_view symbol_of(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::add: return "+";
    case BinaryOperator::subtract: return "-";
    case BinaryOperator::multiply: return "*";
    case BinaryOperator::divide: return "/";
    case BinaryOperator::floor_divide: return "//";
    case BinaryOperator::modulo: return "%";
    case BinaryOperator::power: return "**";
  }
  return "";
}

Error no_operation(const Machine& machine, BinaryOperator op, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) return machine.fail(a.reason(), ", so there is no ", symbol_of(op), " for it");
  if (b.is(Kind::undefined)) return machine.fail(b.reason(), ", so there is no ", symbol_of(op), " for it");
  return machine.fail("found ", a.type_name(), " ", symbol_of(op), " ", b.type_name(), ", which Python does not have");
}

Error too_large(const Machine& machine) { return machine.fail("the result does not fit a 64-bit integer"); }

Result<Value> int_power(const Machine& machine, int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (int64_t bits = exponent; bits > 0; bits >>= 1) {
    if ((bits & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return too_large(machine);
    if (bits > 1 && __builtin_mul_overflow(base, base, &base)) return too_large(machine);
  }
  return Value(result);
}

// Rounds toward minus infinity, as Python's // and % do.
Result<Value> int_divide(const Machine& machine, BinaryOperator op, int64_t a, int64_t b) {
  if (b == 0) return machine.fail("found a division by zero");
  if (b == -1) {
    int64_t negated = 0;
    if (op == BinaryOperator::modulo) return Value(int64_t{0});
    return __builtin_sub_overflow(int64_t{0}, a, &negated) ? Result<Value>(too_large(machine)) : Value(negated);
  }
  const int64_t remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == BinaryOperator::modulo) return Value(adjust ? remainder + b : remainder);
  return Value(a / b - (adjust ? 1 : 0));
}

Result<Value> float_calculate(const Machine& machine, BinaryOperator op, double a, double b) {
  const bool divides =
      op == BinaryOperator::divide || op == BinaryOperator::floor_divide || op == BinaryOperator::modulo;
  if (divides && b == 0) return machine.fail("found a division by zero");
  switch (op) {
    case BinaryOperator::add: return Value(a + b);
    case BinaryOperator::subtract: return Value(a - b);
    case BinaryOperator::multiply: return Value(a * b);
    case BinaryOperator::divide: return Value(a / b);
    case BinaryOperator::floor_divide: return Value(std::floor(a / b));
    case BinaryOperator::modulo: {
      const double remainder = std::fmod(a, b);
      return Value(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
    }
    case BinaryOperator::power: return Value(std::pow(a, b));
  }
  return Value(a);
}

Result<Value> int_calculate(const Machine& machine, BinaryOperator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOperator::add: overflow = __builtin_add_overflow(a, b, &result); break;
    case BinaryOperator::subtract: overflow = __builtin_sub_overflow(a, b, &result); break;
    case BinaryOperator::multiply: overflow = __builtin_mul_overflow(a, b, &result); break;
    case BinaryOperator::floor_divide:
    case BinaryOperator::modulo: return int_divide(machine, op, a, b);
    case BinaryOperator::power:
      if (b >= 0) return int_power(machine, a, b);
      if (a == 0) return machine.fail("found a division by zero");
      [[fallthrough]];
    case BinaryOperator::divide: return float_calculate(machine, op, static_cast<double>(a), static_cast<double>(b));
  }
  if (overflow) return too_large(machine);
  return Value(result);
}

// If one side is markup, the other side is escaped, as markupsafe does.
Result<Value> join_texts(Machine& machine, const Text& a, const Text& b) {
  const bool safe = a.safe || b.safe;
  Writer out(machine);
  TRY_STATUS(safe && !a.safe ? escape_html(out, a.bytes) : out.add(a.bytes));
  TRY_STATUS(safe && !b.safe ? escape_html(out, b.bytes) : out.add(b.bytes));
  return out.take(safe);
}

Result<Value> join_lists(Machine& machine, const List& a, const List& b) {
  ListMaker items(machine);
  TRY_STATUS(items.reserve(a.items.size() + b.items.size()));
  for (const Value& item : a.items) TRY_STATUS(items.add(item));
  for (const Value& item : b.items) TRY_STATUS(items.add(item));
  return items.take(a.flavour);
}

bool joinable(const Value& a, const Value& b) {
  if (!a.is(Kind::list) || !b.is(Kind::list)) return false;
  const Flavour flavour = a.as_list().flavour;
  return flavour == b.as_list().flavour && (flavour == Flavour::list || flavour == Flavour::tuple);
}

Result<Value> repeat(Machine& machine, const Value& value, int64_t times) {
  const uint64_t count = times > 0 ? static_cast<uint64_t>(times) : 0;
  const bool is_text = value.is(Kind::text);
  const uint64_t size = is_text ? value.as_text().bytes.size() : value.as_list().items.size();
  uint64_t total = 0;
  if (__builtin_mul_overflow(size, count, &total)) total = UINT64_MAX;
  if (is_text) {
    TRY_STATUS(machine.may_be_text(total));
    TRY(const Room room, machine.room(total));
    std::string text;
    text.reserve(static_cast<size_t>(total));
    for (uint64_t i = 0; i < count && size > 0; ++i) text += value.as_text().bytes;
    return machine.text(std::move(text), value.as_text().safe);
  }
  const List& list = value.as_list();
  ListMaker items(machine);
  TRY_STATUS(items.reserve(total));
  for (uint64_t i = 0; i < count && size > 0; ++i)
    for (const Value& item : list.items) TRY_STATUS(items.add(item));
  return items.take(list.flavour);
}

bool repeatable(const Value& value) {
  if (value.is(Kind::text)) return true;
  return value.is(Kind::list) &&
         (value.as_list().flavour == Flavour::list || value.as_list().flavour == Flavour::tuple);
}

}  // namespace

Result<Value> calculate(Machine& machine, BinaryOperator op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return int_calculate(machine, op, a.as_integer(), b.as_integer());
  if (a.is_number() && b.is_number()) return float_calculate(machine, op, a.as_number(), b.as_number());
  if (op == BinaryOperator::add) {
    if (a.is(Kind::text) && b.is(Kind::text)) return join_texts(machine, a.as_text(), b.as_text());
    if (joinable(a, b)) return join_lists(machine, a.as_list(), b.as_list());
  }
  if (op == BinaryOperator::multiply) {
    if (repeatable(a) && b.is_integral()) return repeat(machine, a, b.as_integer());
    if (repeatable(b) && a.is_integral()) return repeat(machine, b, a.as_integer());
  }
  if (op == BinaryOperator::modulo && a.is(Kind::text)) return format_percent(machine, a.as_text(), b);
  return no_operation(machine, op, a, b);
}

Result<Value> negate(Machine& machine, const Value& value) {
  if (value.is(Kind::number)) return Value(-value.as_number());
  if (value.is_integral()) return int_calculate(machine, BinaryOperator::subtract, 0, value.as_integer());
  if (value.is(Kind::undefined)) return machine.fail(value.reason(), ", so there is no - for it");
  return machine.fail("found - before a ", value.type_name(), ": want a number");
}

}  // namespace sluice::jinja
